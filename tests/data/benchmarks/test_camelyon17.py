import csv

import numpy as np
import pytest
from PIL import Image

from xcnorm import data
from xcnorm.data import pictures
from xcnorm.data.synthesis import write_wilds
from xcnorm.errors import UserError


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("XCNORM_CACHE", str(tmp_path / "cache"))
    write_wilds(tmp_path / "camelyon17_v1.0", patches_per_cell=6)
    return tmp_path


def rows(root):
    with (root / "camelyon17_v1.0" / "metadata.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def patch(root, row):
    node = f"patient_{row['patient']}_node_{row['node']}"
    name = f"patch_{node}_x_{row['x_coord']}_y_{row['y_coord']}.png"
    with Image.open(root / "camelyon17_v1.0" / "patches" / node / name) as image:
        return np.asarray(image.convert("RGB"))


@pytest.mark.parametrize("source", [0, 3])
def test_each_hospital_is_the_source_in_turn(root, source):
    benchmark = data.load("camelyon17", root, source=source)
    table = rows(root)
    for domain, wanted in (
        (benchmark.train, [row for row in table if row["center"] == str(source) and row["split"] == "0"]),
        (benchmark.validation, [row for row in table if row["center"] == str(source) and row["split"] == "1"]),
        (benchmark.targets["centre2"], [row for row in table if row["center"] == "2"]),
    ):
        assert domain.labels.tolist() == [int(row["tumor"]) for row in wanted]
        for image, row in list(zip(domain.images, wanted, strict=True))[::7]:
            assert np.array_equal(image.permute(1, 2, 0).numpy(), patch(root, row))
    assert f"centre{source}" not in benchmark.targets


def test_a_large_set_is_mapped_from_the_cache(root, monkeypatch):
    in_memory = data.load("camelyon17", root)
    monkeypatch.setattr(pictures, "LARGE", 1000)
    mapped = data.load("camelyon17", root)
    assert (mapped.train.images == in_memory.train.images).all()
    files = {path: path.stat().st_mtime_ns for path in (root / "cache" / "decoded").iterdir()}
    assert len(files) == 2  # training and validation; targets are decoded when they are asked for
    again = data.load("camelyon17", root)
    assert (again.train.images == in_memory.train.images).all()
    assert {path: path.stat().st_mtime_ns for path in (root / "cache" / "decoded").iterdir()} == files
    (root / "camelyon17_v1.0" / "metadata.csv").touch()
    data.load("camelyon17", root)
    assert len(list((root / "cache" / "decoded").iterdir())) == 4  # another version of the set: decoded anew


def test_a_patch_that_is_missing(root):
    row = next(row for row in rows(root) if row["center"] == "0" and row["split"] == "0")
    node = f"patient_{row['patient']}_node_{row['node']}"
    (root / "camelyon17_v1.0/patches" / node / f"patch_{node}_x_{row['x_coord']}_y_{row['y_coord']}.png").unlink()
    with pytest.raises(UserError, match=f"patch_{node}_x_{row['x_coord']}"):
        data.load("camelyon17", root)


def test_a_table_that_was_cut_short_is_noticed(root):
    path = root / "camelyon17_v1.0" / "metadata.csv"
    kept = [line for line in path.read_text().splitlines(keepends=True) if line.split(",")[7] not in ("3", "4")]
    path.write_text("".join(kept))
    benchmark = data.load("camelyon17", root)
    assert list(benchmark.missing) == ["centre3", "centre4"]
    assert "455,954 were published" in benchmark.warnings[0]


@pytest.mark.parametrize("change", [lambda line: line[:-2] + "7\n", lambda line: line + line])
def test_a_table_that_makes_no_sense(root, change):
    path = root / "camelyon17_v1.0" / "metadata.csv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:-1], change(lines[-1])]))
    with pytest.raises(UserError, match=r"metadata\.csv"):
        data.load("camelyon17", root)


def test_it_is_not_there(tmp_path):
    with pytest.raises(UserError, match="xcnorm data download camelyon17"):
        data.load("camelyon17", tmp_path)
