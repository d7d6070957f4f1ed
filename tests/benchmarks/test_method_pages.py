"""The pages of the methods get the numbers of their own presets, and of nothing else."""

import pytest

from benchmarks.methods import _added, write_pages, write_table
from xcnorm.engine import load_preset
from xcnorm.errors import UserError
from xcnorm.report.runs import flatten

BEGIN, END = "<!-- numbers -->", "<!-- end numbers -->"


def arm(svhn, method="erm", **changes):
    (experiment,) = load_preset(f"methods/{method}_digits").experiments({"seed": 0})
    settings = dict(flatten(experiment.model_dump(mode="json"))) | {"run.graph": True} | changes
    return {
        "label": "ERM",
        "settings": {name: value for name, value in settings.items() if name not in ("seed", "label")},
        "seeds": [0, 1],
        "targets": {"last": {"svhn": svhn}},
        "source": {"last": [99.0, 99.0]},
        "environment": {"device": "a GPU", "torch": "2", "commit": "abc"},
    }


@pytest.fixture(autouse=True)
def index(tmp_path):
    page = tmp_path / "index.md"
    page.write_text(f"{BEGIN}\n{END}\n")
    return page


def test_only_the_method_as_published_is_on_its_page(tmp_path, index):
    page = tmp_path / "erm.md"
    page.write_text(f"above\n{BEGIN}\nold\n{END}\nbelow\n")
    layers = arm([60.0, 60.0], **{"model.layer": "xcnorm"})
    for _ in range(2):  # a second time changes nothing
        write_pages({"arms": [arm([30.0, 32.0]), layers]}, tmp_path)
    text = page.read_text()
    assert text.startswith(f"above\n{BEGIN}\n")
    assert text.endswith(f"{END}\nbelow\n")
    assert "| last weights | 31.0 ± 1.4 |" in text
    assert "| published | 27.8 |" in text
    assert "60.0" not in text
    assert "old" not in text
    assert "xcnorm sweep methods/erm_digits --data DIR --set run.graph=true" in text
    assert index.read_text() == f"{BEGIN}\n\n| | SVHN |\n|---|---|\n| [ERM](erm.md) | 31.0 ± 1.4 (27.8) |\n\n{END}\n"


def test_settings_that_are_not_told_are_not_those_of_the_preset(tmp_path):
    page = tmp_path / "jigen.md"
    page.write_text(f"{BEGIN}\n{END}\n")
    untold = arm([60.0], "jigen")
    del untold["settings"]["method.options.classify"]
    write_pages({"arms": [arm([30.0], "jigen"), untold]}, tmp_path)
    assert "30.0" in page.read_text()
    assert "60.0" not in page.read_text()


def test_a_file_of_results_grows_and_what_is_done_anew_replaces_the_old(tmp_path):
    first, other, again = arm([30.0]), arm([40.0], "jigen"), arm([31.0])
    arms = _added({"arms": [first, other]}, {"arms": [again]})["arms"]
    assert sorted(each["targets"]["last"]["svhn"] for each in arms) == [[31.0], [40.0]]


def test_a_page_without_a_place_is_refused(tmp_path):
    (tmp_path / "erm.md").write_text("nothing")
    with pytest.raises(UserError, match="has no place for numbers"):
        write_pages({"arms": [arm([30.0])]}, tmp_path)


def test_rows_of_a_preset_stand_in_its_order(tmp_path):
    page = tmp_path / "index.md"
    page.write_text("<!-- beyond/digits -->\n<!-- end beyond/digits -->\n")
    targets = {"svhn": [30.0, 32.0], "mnist_m": [50.0, 50.0], "usps": [70.0, 80.0]}
    arms = [{"label": label, "targets": {"last": targets}} for label in ("Affine", "ERM", "not of this preset")]
    write_table("beyond/digits", {"arms": arms}, page)
    lines = page.read_text().splitlines()
    assert lines[2] == "| | SVHN | MNIST-M | USPS | mean of the real three |"
    assert lines[4] == "| ERM | 31.0 ± 1.4 | 50.0 ± 0.0 | 75.0 ± 7.1 | 52.0 ± 2.8 |"
    assert lines[5].startswith("| Affine |")
    assert len(lines) == 8
