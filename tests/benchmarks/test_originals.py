"""The comparison with the published recipe: what the page says of it, and again where the package is installed."""

import json
from pathlib import Path

import pytest

from benchmarks import originals

ROOT = Path(originals.__file__).parents[1]
RESULT = ROOT / "benchmarks/results/originals.json"
# The package draws from six pictures of frost, not from five, and has an elastic transform of its own.
OTHERWISE = ("frost", "elastic_transform")


@pytest.fixture(scope="module")
def rows():
    return json.loads(RESULT.read_text())["rows"]


def test_the_page_has_the_table(rows):
    assert originals.table(rows) in (ROOT / "docs/corruptions.md").read_text()


def test_what_is_not_random_is_the_same_level_by_level(rows):
    assert {row["corruption"] for row in rows if "off" in row} >= {"defocus_blur", "contrast", "jpeg_compression"}
    assert max(row["off"] for row in rows if "off" in row) < 0.5


def test_what_is_random_is_alike(rows):
    assert len(rows) == 19 * 5
    for row in rows:
        if row["corruption"] in OTHERWISE:
            continue
        ours, theirs = (originals.Measured(**row[side]) for side in ("ours", "theirs"))
        for field, one, other in zip(ours._fields, ours, theirs, strict=True):
            assert one == pytest.approx(other, rel=0.1, abs=2), (row, field)


@pytest.mark.parametrize("name", ["defocus_blur", "zoom_blur", "pixelate", "saturate", "gaussian_noise"])
def test_again(name, rows):
    pytest.importorskip("imagecorruptions", reason="imagecorruptions-imaug is not installed")
    (found,) = originals.compare([name], [3], repeats=1)
    (stored,) = (row for row in rows if (row["corruption"], row["severity"]) == (name, 3))
    assert found["ours"] == pytest.approx(stored["ours"], rel=0.02)
    assert found["theirs"] == pytest.approx(stored["theirs"], rel=0.02)
