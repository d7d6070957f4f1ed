"""The numbers of a report, against the same numbers computed another way."""

import math
from statistics import fmean, stdev

import pytest

from tests.report.folders import PRESET, digits_runs, grid, grid_runs, hospital_runs, scores, settings, write_run
from xcnorm.data.corruptions import CATEGORIES
from xcnorm.engine.presets import load_preset
from xcnorm.errors import UserError
from xcnorm.report import build, find_runs


@pytest.fixture
def preset(tmp_path):
    path = tmp_path / "table.toml"
    path.write_text(PRESET)
    return load_preset(path)


def cells(table):
    """Each cell by row and column."""
    return {
        (row.label, column.name): cell
        for row in table.rows
        for column, cell in zip(table.columns, row.cells, strict=True)
    }


def test_means_and_deviations_over_seeds(tmp_path):
    digits_runs(tmp_path)
    found = cells(build(find_runs(tmp_path)).tables[0])
    seeds = [100 * (0.6 + 0.03 + 0.01 * seed) for seed in range(3)]  # XCNorm on mnist_m
    cell = found["XCNorm", "mnist_m"]
    assert cell.value == pytest.approx(fmean(seeds))
    assert cell.deviation == pytest.approx(stdev(seeds))
    assert cell.count == 3
    assert found["XCNorm", "average"].value == pytest.approx(67.0)
    assert found["XCNorm", "average"].deviation == pytest.approx(1.0)
    assert [found[name, "mnist_m"].rank for name in ("ERM", "XCNorm", "R-XCNorm")] == [0, 2, 1]


def test_one_seed_has_no_deviation(tmp_path):
    digits_runs(tmp_path, seeds=(4,))
    table = build(find_runs(tmp_path)).tables[0]
    assert cells(table)["ERM", "optdigits"].deviation is None
    assert "one seed" in table.caption
    assert not table.comparisons


def test_arms_are_compared_over_paired_seeds(tmp_path):
    digits_runs(tmp_path)
    first, second = build(find_runs(tmp_path)).tables[0].comparisons
    assert sum("R-XCNorm against ERM: +20.00" in sentence for sentence in (first, second)) == 1
    assert "p = 0.25" in first  # the smallest that three seeds allow


def test_what_looks_equal_is_equally_good(tmp_path):
    for layer, value in (("conv", 0.60001), ("xcnorm", 0.60002), ("r_xcnorm", 0.5)):
        write_run(tmp_path, settings(seed=0, model__layer=layer, label=layer), {"optdigits": value})
    found = cells(build(find_runs(tmp_path)).tables[0])
    ranks = {label: cell.rank for (label, column), cell in found.items() if column == "optdigits"}
    assert ranks == {"conv": 1, "xcnorm": 1, "r_xcnorm": 2}


def test_the_paper_stands_beside_ours(tmp_path, preset):
    digits_runs(tmp_path / "runs")
    table = build(find_runs(tmp_path / "runs"), preset).tables[0]
    origins = {row.label: row.origin for row in table.rows}
    assert list(origins) == ["MetaCNN", "ERM", "R-XCNorm", "R-XCNorm + RC"]
    assert list(origins.values()) == ["published", "measured", "measured", "not run"]
    assert [column.name for column in table.columns] == ["optdigits", "mnist_m", "inverted", "average"]
    found = cells(table)
    assert found["R-XCNorm", "optdigits"].gap == pytest.approx(71.0 - 75.25)
    assert found["R-XCNorm", "average"].gap == pytest.approx(75.0 - 72.42)
    assert found["R-XCNorm + RC", "optdigits"].value == 77.0
    assert found["R-XCNorm + RC", "mnist_m"].value is None
    assert table.verdict == "4 of 8 numbers of the paper are reached; the widest miss is ERM on mnist_m, −6.00"
    assert [found[name, "mnist_m"].rank for name in ("MetaCNN", "R-XCNorm", "ERM")] == [1, 2, 0]


def test_runs_of_other_labels_are_recognised_by_their_settings(tmp_path, preset):
    digits_runs(tmp_path / "runs", labels=("one", "two", "three"))
    report = build(find_runs(tmp_path / "runs"), preset)
    found = cells(report.tables[0])
    assert found["ERM", "optdigits"].value == pytest.approx(51.0)
    assert found["R-XCNorm", "optdigits"].value == pytest.approx(71.0)
    assert "3 finished runs belong to no arm of this preset and are left out" in report.sections[0].notes


def test_runs_with_other_settings_are_recognised_by_their_label(tmp_path, preset):
    config = settings(benchmark="digits-mini", seed=0, label="ERM", schedule__iterations=7)
    write_run(tmp_path / "runs", config, {"optdigits": 0.4, "mnist_m": 0.4, "inverted": 0.4})
    found = cells(build(find_runs(tmp_path / "runs"), preset).tables[0])
    assert found["ERM", "optdigits"].value == pytest.approx(40.0)
    elsewhere = settings(benchmark="camelyon17-mini", seed=0, label="ERM")
    write_run(tmp_path / "other", elsewhere, {"centre1": 0.4})
    with pytest.raises(UserError, match="none of these 1 finished runs belongs to the preset table"):
        build(find_runs(tmp_path / "other"), preset)


def test_experiments_of_one_label_are_told_apart(tmp_path):
    for rate in (0.1, 0.01):
        config = settings(seed=0, label="ERM", optimiser__learning_rate=rate)
        write_run(tmp_path, config, {"optdigits": 0.4 + rate})
    table = build(find_runs(tmp_path)).tables[0]
    labels = {row.label: row.cells[0].value for row in table.rows}
    assert labels == {
        "ERM (optimiser.learning_rate=0.1)": pytest.approx(50.0),
        "ERM (optimiser.learning_rate=0.01)": pytest.approx(41.0),
    }


def test_a_missing_target_is_a_dash_with_a_footnote_and_averages_stay_comparable(tmp_path, preset):
    why = "download it with xcnorm data download digits"
    for layer, label in (("conv", "ERM"), ("r_xcnorm", "R-XCNorm")):
        config = settings(benchmark="digits-mini", seed=0, label=label, model__layer=layer)
        write_run(tmp_path / "runs", config, {"optdigits": 0.5, "inverted": 0.6}, missing={"mnist_m": why})
    table = build(find_runs(tmp_path / "runs"), preset).tables[0]
    found = cells(table)
    assert found["ERM", "mnist_m"].value is None
    (note,) = table.columns[1].notes
    assert table.notes[note] == f"mnist_m is missing: {why}"
    (note,) = table.columns[3].notes
    assert "over optdigits, inverted" in table.notes[note]
    assert found["ERM", "average"].value == pytest.approx(55.0)
    assert found["ERM", "average"].paper == pytest.approx((50.0 + 59.5) / 2)
    assert found["MetaCNN", "average"].value == pytest.approx((66.5 + 70.0) / 2)


def test_a_column_nobody_tested(tmp_path, preset):
    write_run(tmp_path / "runs", settings(seed=0, label="ERM", benchmark="digits-mini"), {"optdigits": 0.5})
    table = build(find_runs(tmp_path / "runs"), preset).tables[0]
    assert "inverted was not tested in these runs" in table.notes


def test_a_seed_that_lacks_a_target_is_told(tmp_path):
    write_run(tmp_path, settings(seed=0), {"optdigits": 0.5, "inverted": 0.6})
    write_run(tmp_path, settings(seed=1), {"optdigits": 0.7})
    table = build(find_runs(tmp_path)).tables[0]
    cell = cells(table)["erm+conv", "inverted"]
    assert (cell.value, cell.count) == (pytest.approx(60.0), 1)
    assert table.notes[cell.notes[0]] == "only 1 of 2 seeds have it"
    assert cells(table)["erm+conv", "average"].value == pytest.approx(60.0)  # of optdigits, which both have


def test_notes_and_titles_of_the_data_are_shown(tmp_path):
    write_run(tmp_path, settings(seed=0), {"svhn": 0.5}, notes={"svhn": "28-pixel copy, upsampled"}, warnings=["odd"])
    write_run(tmp_path, settings(seed=1), {"svhn": 0.5}, title="Digits (regenerated)")
    section = build(find_runs(tmp_path)).sections[0]
    assert section.tables[0].notes == ("28-pixel copy, upsampled",)
    assert section.tables[0].columns[0].notes == (0,)
    assert section.title == "Digits (mini) / Digits (regenerated)"
    assert "Not all runs were tested on the same data: compare with care." in section.notes
    assert "odd" in section.notes


def test_a_score_that_is_undefined_is_a_dash(tmp_path):
    tested = {"source": scores(0.9), "targets": {"a": scores(0.5), "b": scores(0.5) | {"auroc": None}}}
    write_run(tmp_path, settings(seed=0), {}, metric="auroc", selection={"last": tested}, missing={"b": "one class"})
    table = build(find_runs(tmp_path)).tables[0]
    assert cells(table)["erm+conv", "a"].value == pytest.approx(60.0)
    assert cells(table)["erm+conv", "b"].value is None
    assert table.measure.unit == "AUROC in percent"


def test_corruptions_by_category_severity_and_robustness(tmp_path):
    grid_runs(tmp_path, seeds=(0,))
    section = build(find_runs(tmp_path)).sections[0]
    categories, severities, robustness, scored, _, first, second = map(cells, section.tables)
    values = grid(0.93, 0.1)
    blur = fmean(100 * values[f"{name}/5"] for name in CATEGORIES["sdg4"]["blur"])
    assert categories["BN", "blur"].value == pytest.approx(blur)
    of_categories = [cell.value for (label, column), cell in categories.items() if label == "BN"]
    assert of_categories[-1] == pytest.approx(fmean(of_categories[:-1]))
    third = fmean(100 * value for name, value in values.items() if name.endswith("/3"))
    assert severities["BN", "3"].value == pytest.approx(third)
    assert section.tables[1].notes == ("mean over 19 corruptions",)
    assert robustness["R-XCNorm", "weather"].rank == 1  # the lower one
    assert robustness["R-XCNorm", "weather"].value < robustness["BN", "weather"].value
    assert [chart.name for chart in section.charts] == ["severity", "mrs", "convergence"]
    assert scored["BN", "accuracy"].value == pytest.approx(fmean(100 * value for value in values.values()))
    assert not any(cell.rank for cell in scored.values())  # of the calibration error, less is better
    assert len(first) == len(second) == 19 * 5
    assert first["fog", "3"].value == pytest.approx(100 * values["fog/3"])


def test_a_category_without_all_its_members_says_so(tmp_path):
    tested = {name: value for name, value in grid(0.9, 0.1).items() if not name.startswith("snow")}
    write_run(tmp_path, settings(benchmark="cifar10c-mini", seed=0), tested)
    table = build(find_runs(tmp_path)).tables[0]
    assert table.notes == ("without snow/5",)
    assert table.columns[0].notes == (0,)


def test_sources_are_columns(tmp_path):
    hospital_runs(tmp_path)
    section = build(find_runs(tmp_path)).sections[0]
    found = cells(section.tables[0])
    assert [column.name for column in section.tables[0].columns] == ["0", "1", "2", "3", "4", "average"]
    assert found["XCNorm", "3"].value == pytest.approx(100 * (0.75 + 0.06 + 0.005 + 0.1))
    assert found["ERM", "average"].count == 2
    assert section.charts[0].bars


def test_convergence_has_the_losses_of_all_seeds(tmp_path):
    digits_runs(tmp_path)
    section = build(find_runs(tmp_path)).sections[0]
    (chart,) = section.charts
    runs = [run for run in find_runs(tmp_path).finished if run.config["label"] == "ERM"]
    series = next(series for series in chart.series if series.name == "ERM")
    assert series.x == tuple(range(20, 401, 20))
    at = [run.losses[100] for run in runs]
    place = series.x.index(100)
    assert (series.y[place], series.low[place], series.high[place]) == pytest.approx((fmean(at), min(at), max(at)))
    assert cells(section.tables[2])["ERM", "end"].value == pytest.approx(fmean(run.losses[400] for run in runs))
    assert all(math.isfinite(y) for y in series.y)


def test_long_logs_are_thinned(tmp_path):
    folder = write_run(tmp_path, settings(seed=0), {"optdigits": 0.5})
    (folder / "log.jsonl").write_text("\n".join(f'{{"step": {step}, "loss": 1.0}}' for step in range(5000)))
    (chart,) = build(find_runs(tmp_path)).sections[0].charts
    assert 300 < len(chart.series[0].x) <= 400


def test_a_preset_of_curves(tmp_path):
    grid_runs(tmp_path / "runs")
    path = tmp_path / "fig1.toml"
    path.write_text(
        'title = "Figure 1"\nkind = "severity"\n[base]\nbenchmark = "cifar10c-mini"\nschedule.iterations = 400\n'
        '[[arms]]\nlabel = "R-XCNorm"\nset = {"model.layer" = "r_xcnorm"}\npaper = {1 = 90.0, 5 = 70.0}\n'
        '[[arms]]\nlabel = "BN"\n'
    )
    (section,) = build(find_runs(tmp_path / "runs"), load_preset(path)).sections
    ours, paper, bn = section.charts[0].series
    assert [ours.name, paper.name, bn.name] == ["R-XCNorm", "R-XCNorm (paper)", "BN"]
    assert paper.dashed
    assert paper.x == (0, 4)
    assert paper.colour == ours.colour != bn.colour


def test_the_oracle_is_called_a_diagnostic(tmp_path):
    tested = {"step": 1, "source": scores(0.9), "targets": {"optdigits": scores(0.8)}}
    write_run(tmp_path, settings(seed=0), {}, selection={"oracle": tested})
    report = build(find_runs(tmp_path), selection="oracle")
    assert "diagnostic, not a result" in report.tables[0].caption
    assert cells(report.tables[0])["erm+conv", "optdigits"].value == pytest.approx(80.0)


def test_runs_without_the_selection_are_listed(tmp_path):
    digits_runs(tmp_path, seeds=(0,))
    with pytest.raises(UserError, match=r"no finished run to report on, and 3 .* it has last, best_on_source"):
        build(find_runs(tmp_path), selection="oracle")
    with pytest.raises(UserError, match="unknown selection 'lst'; did you mean 'last'"):
        build(find_runs(tmp_path), selection="lst")


def test_a_preset_may_ask_for_further_means_by_which_arms_are_compared(tmp_path):
    digits_runs(tmp_path)
    path = tmp_path / "table.toml"
    path.write_text(PRESET.replace("[base]", 'means = { "both" = ["mnist_m", "inverted"], "lost" = ["gone"] }\n[base]'))
    table = build(find_runs(tmp_path), load_preset(path)).tables[0]
    assert [column.name for column in table.columns] == ["optdigits", "mnist_m", "inverted", "average", "both"]
    seeds = [100 * (0.5 + (0.03 + 0.09) / 2 + 0.01 * seed) for seed in range(3)]
    cell = cells(table)["ERM", "both"]
    assert cell.value == pytest.approx(fmean(seeds))
    assert cell.paper == pytest.approx((60.0 + 59.5) / 2)
    assert cells(table)["R-XCNorm + RC", "both"].paper is None
    assert all("in the both (95 %" in sentence for sentence in table.comparisons)
