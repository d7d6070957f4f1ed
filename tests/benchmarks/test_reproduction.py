"""Pages of results say what the records say, and which rows were not run."""

import re
import shutil
from pathlib import Path

import pytest

from benchmarks.methods import write_pages
from benchmarks.reproduction import fill
from tests.report.folders import settings, write_run
from xcnorm.errors import UserError
from xcnorm.report import find_runs

ROOT = Path(__file__).parents[2]
PRESET = """
title = "A table"
seeds = [0, 1]
means = { "both" = ["one", "two"] }
[base]
benchmark = "digits-mini"
schedule.iterations = 400
[[arms]]
label = "ERM"
[[arms]]
label = "XCNorm"
set = { "model.layer" = "xcnorm" }
[[arms]]
label = "R-XCNorm"
set = { "model.layer" = "r_xcnorm" }
"""


@pytest.fixture(scope="module")
def recorded():
    return find_runs(ROOT / "results")


@pytest.mark.parametrize("name", ["docs/reproduction.md", "docs/methods/index.md"])
def test_the_pages_of_this_project_are_those_of_its_records(name, recorded, tmp_path):
    assert not recorded.broken
    page = tmp_path / "page.md"
    shutil.copy(ROOT / name, page)
    assert fill(page, recorded) == page.read_text(encoding="utf-8")


def test_the_pages_of_the_methods_are_those_of_the_records(recorded, tmp_path):
    pages = shutil.copytree(ROOT / "docs" / "methods", tmp_path / "methods")
    write_pages(recorded.finished, pages)
    for page in pages.iterdir():
        assert page.read_text(encoding="utf-8") == (ROOT / "docs" / "methods" / page.name).read_text(encoding="utf-8")


def page_of(folder, preset):
    page = folder / "page.md"
    page.write_text(f"above\n<!-- preset {preset} -->\nold\n<!-- end {preset} -->\nbelow\n")
    return page


def test_rows_are_those_of_the_experiments_themselves(tmp_path):
    (tmp_path / "table.toml").write_text(PRESET)
    for seed in (0, 1):
        write_run(tmp_path, settings(benchmark="digits-mini", seed=seed), {"one": 0.5, "two": 0.7, "three": 0.1})
    computed = settings(benchmark="digits-mini", seed=0, model__layer="xcnorm", run__graph=True)
    write_run(tmp_path, computed, {"one": 0.6, "two": 0.8, "three": 0.1})
    changed = settings(benchmark="digits-mini", label="R-XCNorm", model__layer="r_xcnorm", optimiser__learning_rate=0.5)
    write_run(tmp_path, changed, {"one": 0.9, "two": 0.9, "three": 0.1})
    preset = str(tmp_path / "table.toml")
    text = fill(page_of(tmp_path, preset), find_runs(tmp_path))
    assert "old" not in text
    text = re.sub(r"</?u>|\*\*", "", text)
    assert "| ERM | 50.00 ± 0.00 | 70.00 ± 0.00 | 10.00 ± 0.00 | 43.33 ± 0.00 | 60.00 ± 0.00 |" in text
    assert "| XCNorm | 60.00 | 80.00 | 10.00 | 50.00 | 70.00 |" in text
    assert "R-XCNorm (not run)" in text
    assert "90.00" not in text
    assert "seeds 0, 1, of XCNorm 0; 3 of 6 experiments run" in text


def test_a_preset_of_which_nothing_was_run_says_so(tmp_path):
    text = fill(page_of(tmp_path, "study/where_breakhis"), find_runs(tmp_path))
    assert "**Not run yet**: `xcnorm sweep study/where_breakhis --data DIR`, 90 experiments." in text


def test_a_page_without_a_place_is_refused(tmp_path):
    (tmp_path / "page.md").write_text("nothing")
    with pytest.raises(UserError, match="has no place for a preset"):
        fill(tmp_path / "page.md", find_runs(tmp_path))
