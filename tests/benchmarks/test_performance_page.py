"""The page on performance is made from results alone."""

import pytest

from benchmarks import layers
from benchmarks.performance_page import write_page
from tests.bench.tiny import SHAPES
from xcnorm.bench.compare import compare
from xcnorm.bench.conditions import Conditions
from xcnorm.errors import UserError


@pytest.fixture
def result(monkeypatch):
    monkeypatch.setattr(layers, "shapes_of", lambda networks, device: SHAPES)
    monkeypatch.setattr(layers, "QUICK", ())
    tiny = layers.cases(["wrn16_4"], "cpu")
    *_, (_, found) = compare("layers", tiny, Conditions("cpu", "fp32"), ["fp32"], ["eager"], 2)
    ceilings = {"fp32": {"bytes_per_second": 1e9, "flop_per_second": 1e10}}
    grown = {"axis": "pixels", "precision": "fp32", "side": "conv", "sizes": [4, 16], "milliseconds": [1.0, 4.0]}
    return found | {"ceilings": ceilings, "growth": [grown | {"slope": 1.0, "r2": 1.0, "largest_step": 1.0}]}


def test_a_result_takes_its_place_on_the_page(result, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n\n<!-- layers cpu -->\nold\n<!-- end layers cpu -->\n\nafter\n", encoding="utf-8")
    write_page(result, page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert "| 3 to 4, 3x3, 6 px, batch 2 |" in text
    assert "(page_cpu.svg)" in text
    assert "**Bars: " in text
    assert "| pixels, fp32 | conv | 4 to 16 | 1 to 4 ms | 1.00 | 1.000 | 1.00 |" in text
    drawing = (tmp_path / "page_cpu.svg").read_bytes()
    write_page(result, page)
    assert page.read_text(encoding="utf-8") == text
    assert (tmp_path / "page_cpu.svg").read_bytes() == drawing


def test_what_was_measured_otherwise_has_a_place_of_its_own(result, tmp_path):
    page = tmp_path / "page.md"
    begin, end = "<!-- layers cpu, 2 threads, channels last -->", "<!-- end layers cpu, 2 threads, channels last -->"
    page.write_text(f"{begin}\n{end}\n", encoding="utf-8")
    write_page(result | {"channels_last": True, "environment": result["environment"] | {"threads": 2}}, page)
    text = page.read_text(encoding="utf-8")
    assert "**Geometric means, fp32, eager" in text
    assert "| 3 to 4, 3x3, 6 px, batch 2 |" not in text
    assert [path.name for path in tmp_path.iterdir()] == ["page.md"]


def test_a_page_without_the_place_is_left_alone(result, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("nothing\n", encoding="utf-8")
    with pytest.raises(UserError, match="layers cpu"):
        write_page(result, page)
    assert [path.name for path in tmp_path.iterdir()] == ["page.md"]
