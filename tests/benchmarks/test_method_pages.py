"""The pages of the methods get the numbers of their own presets, and of nothing else."""

import pytest

from benchmarks.methods import write_pages
from tests.report.folders import scores, write_run
from xcnorm.engine import load_preset
from xcnorm.engine.experiment import merge
from xcnorm.errors import UserError
from xcnorm.report import find_runs

BEGIN, END = "<!-- numbers -->", "<!-- end numbers -->"


@pytest.fixture(autouse=True)
def index(tmp_path):
    page = tmp_path / "index.md"
    page.write_text(f"{BEGIN}\n{END}\n")
    return page


def runs(root, svhn, **changes):
    """ERM's runs on Digits, a seed for each score."""
    for seed, score in enumerate(svhn):
        (experiment,) = load_preset("methods/erm_digits").experiments({"seed": seed})
        config = merge(experiment.model_dump(mode="json"), {"run": {"graph": True}}, changes)
        tested = {"source": scores(0.99), "targets": {"svhn": scores(score)}}
        folder = write_run(root, config, {}, selection={"last": tested})
        (folder / "environment.json").write_text('{"device": "NVIDIA one", "torch": "2", "commit": "abc"}')
    return find_runs(root).finished


def test_only_the_method_as_published_is_on_its_page(tmp_path, index):
    page = tmp_path / "erm.md"
    page.write_text(f"above\n{BEGIN}\nold\n{END}\nbelow\n")
    runs(tmp_path / "runs", [0.6, 0.6], model={"layer": "xcnorm"})
    found = runs(tmp_path / "runs", [0.30, 0.32])
    for _ in range(2):  # a second time changes nothing
        write_pages(found, tmp_path)
    text = page.read_text()
    assert text.startswith(f"above\n{BEGIN}\n")
    assert text.endswith(f"{END}\nbelow\n")
    assert "| last weights | 31.0 ± 1.4 |" in text
    assert "| published | 27.8 |" in text
    assert "60.0" not in text
    assert "old" not in text
    assert "xcnorm sweep methods/erm_digits --data DIR --set run.graph=true" in text
    assert index.read_text() == f"{BEGIN}\n\n|  | SVHN |\n|---|---|\n| [ERM](erm.md) | 31.0 ± 1.4 (27.8) |\n\n{END}\n"


def test_a_page_without_a_place_is_refused(tmp_path):
    (tmp_path / "erm.md").write_text("nothing")
    with pytest.raises(UserError, match="has no place for numbers"):
        write_pages(runs(tmp_path / "runs", [0.3]), tmp_path)
