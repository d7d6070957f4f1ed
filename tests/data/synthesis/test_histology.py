"""Rendered tissue: the label is in the centre, the look is the hospital's, and the set is laid out like WILDS."""

import csv
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.linear_model import LogisticRegression

from xcnorm.data.streams import Stream
from xcnorm.data.synthesis import histology, render_patches, write_wilds
from xcnorm.errors import UserError

LABELS, CENTRES = torch.arange(80) % 2, torch.arange(80) // 2 % 5


def test_shape_and_type():
    patches = render_patches(LABELS[:3], CENTRES[:3])
    assert (patches.shape, patches.dtype) == ((3, 3, 96, 96), torch.uint8)
    assert render_patches(LABELS[:3], CENTRES[:3], pixels=32).shape == (3, 3, 32, 32)


@pytest.mark.parametrize("batch", [1, 7, 64])
def test_a_patch_does_not_depend_on_its_batch(batch):
    together = render_patches(LABELS, CENTRES)
    index = torch.arange(80)
    some = torch.cat([render_patches(LABELS[i], CENTRES[i], index=i) for i in index.split(batch)])
    assert torch.equal(some, together)
    assert not torch.equal(together[:1], render_patches(LABELS[:1], CENTRES[:1], seed=1))


def test_tumour_has_more_and_darker_nuclei_in_the_centre():
    labels = torch.arange(200) % 2
    nuclei = histology._nuclei(labels, 96, Stream(0, "histology", torch.arange(200)))[:, 32:64, 32:64]
    covered = (nuclei > 0.3).float().mean((1, 2))
    assert covered[labels == 1].mean() > 2 * covered[labels == 0].mean()
    assert nuclei.flatten(1).amax(1)[labels == 1].mean() > 1.1 * nuclei.flatten(1).amax(1)[labels == 0].mean()


def test_nuclei_are_discs_of_the_drawn_size(monkeypatch):
    # Without squash, lobes, jitter and overlap, the covered area must be that of the discs.
    monkeypatch.setattr(histology, "_SPACING", 32)

    class Fixed:
        """Uniform numbers that make every nucleus present, round, in its place, and of radius 2.2."""

        def uniform(self, *shape):
            return next(self.values).expand(1, *shape)

        def normal(self, *shape):
            return torch.ones(1, *shape)

    fixed = Fixed()
    # strange, jitter, crowding, two kinds of darkness, presence, two kinds of radius, squash, lobes
    fixed.values = iter(torch.tensor([1.0, 0.5, 0, 0.75, 0, 0, 0, 0, 0, 0]))
    drawn = histology._nuclei(torch.tensor([0]), 96, fixed)
    assert drawn.max() == pytest.approx(1.0)
    assert drawn.sum() == pytest.approx(9 * np.pi * 2.2**2, rel=0.05)


def means(patches):
    """Mean and spread of the centre's colours."""
    middle = patches[:, :, 32:64, 32:64].float()
    return torch.cat([middle.mean((2, 3)), middle.std((2, 3))], 1).numpy()


def test_the_task_can_be_learned_within_a_centre():
    labels = torch.arange(300) % 2
    x = means(render_patches(labels, torch.zeros_like(labels)))
    model = LogisticRegression(max_iter=2000).fit(x[:200] / 50, labels[:200])
    assert model.score(x[200:] / 50, labels[200:]) > 0.8


def test_centres_look_different():
    labels = torch.arange(40) % 2
    colours = torch.stack([render_patches(labels, torch.full((40,), c)).float().mean((0, 2, 3)) for c in range(5)])
    apart = torch.cdist(colours, colours) + 1000 * torch.eye(5)
    assert apart.min() > 15


@pytest.mark.parametrize(
    ("labels", "centre", "options", "message"),
    [
        (torch.tensor([2]), torch.tensor([0]), {}, "labels must be from 0 to 1, not 2"),
        (torch.tensor([1]), torch.tensor([5]), {}, "centre must be from 0 to 4, not 5"),
        (torch.tensor([1]), torch.tensor([0, 1]), {}, "as many centres as labels, not 2 and 1"),
        (torch.tensor([1]), torch.tensor([0]), {"pixels": 31}, "at least 32, not 31"),
    ],
)
def test_bad_input(labels, centre, options, message):
    with pytest.raises(UserError, match=message):
        render_patches(labels, centre, **options)


def test_wilds_layout(tmp_path):
    folder = tmp_path / "deeper" / "camelyon17_v1.0"
    write_wilds(folder)
    assert sorted(p.name for p in folder.iterdir()) == ["RELEASE_v1.0.txt", "metadata.csv", "patches"]
    assert [p.name for p in folder.parent.iterdir()] == ["camelyon17_v1.0"]
    with (folder / "metadata.csv").open() as file:
        assert file.readline() == ",patient,node,x_coord,y_coord,tumor,slide,center,split\n"
        file.seek(0)
        rows = list(csv.DictReader(file))
    assert [row[""] for row in rows] == [str(i) for i in range(160)]
    expected = set()
    for row in rows:
        assert len(row["patient"]) == 3
        assert int(row["patient"]) // 20 == int(row["slide"]) // 10 == int(row["center"])
        assert 0 <= int(row["node"]) < 5
        name = f"patient_{row['patient']}_node_{row['node']}"
        expected.add(folder / "patches" / name / f"patch_{name}_x_{row['x_coord']}_y_{row['y_coord']}.png")
    assert len(expected) == 160
    assert expected == set(folder.rglob("*.png"))
    for file in expected:
        with Image.open(file) as image:
            assert (image.size, image.mode) == ((96, 96), "RGB")
    cells = {(r["center"], r["split"], r["tumor"]) for r in rows}
    assert len(cells) == 5 * 2 * 2
    for centre in "01234":
        assert [sum(r["center"] == centre and r["tumor"] == t for r in rows) for t in "01"] == [16, 16]
    assert 0.05 < sum(r["split"] == "1" for r in rows) / 160 < 0.15


def test_wilds_patches_are_those_of_the_rows(tmp_path):
    write_wilds(tmp_path / "set", patches_per_cell=1, slides_per_centre=1, seed=5)
    with (tmp_path / "set" / "metadata.csv").open() as file:
        rows = list(csv.DictReader(file))
    labels, centres = (torch.tensor([int(r[c]) for r in rows]) for c in ("tumor", "center"))
    for row, patch in zip(rows, render_patches(labels, centres, seed=5), strict=True):
        name = f"patient_{row['patient']}_node_{row['node']}"
        file = tmp_path / "set" / "patches" / name / f"patch_{name}_x_{row['x_coord']}_y_{row['y_coord']}.png"
        np.testing.assert_array_equal(np.asarray(Image.open(file)), patch.movedim(0, 2).numpy())


def test_split_is_a_tenth_of_every_centre_and_class():
    rows = list(histology._rows(50, 4, 0))
    held_out = [(r.centre, r.tumour) for r in rows if r.split]
    assert len(rows) == 2000
    assert {cell: held_out.count(cell) for cell in held_out} == {(c, t): 20 for c in range(5) for t in (0, 1)}
    assert [r.split for r in rows] != [r.split for r in histology._rows(50, 4, 1)]
    assert not any(r.split for r in histology._rows(1, 1, 0))


def test_an_interrupted_write_leaves_nothing(tmp_path, monkeypatch):
    real, calls = Image.Image.save, []

    def interrupt(self, *rest):
        calls.append(rest)
        if len(calls) == 5:
            raise KeyboardInterrupt
        real(self, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Image.Image, "save", interrupt)
        with pytest.raises(KeyboardInterrupt):
            write_wilds(tmp_path / "set", patches_per_cell=1)
    assert list(tmp_path.iterdir()) == []
    write_wilds(tmp_path / "set", patches_per_cell=1)
    assert len(list(tmp_path.rglob("*.png"))) == 20


def test_what_a_killed_write_left_is_removed_by_the_next(tmp_path):
    code = (
        "import os, signal, sys; from pathlib import Path; from PIL import Image; from xcnorm.data.synthesis import *;"
        "Image.Image.save = lambda self, file: os.kill(os.getpid(), signal.SIGKILL);"
        "write_wilds(Path(sys.argv[1]), patches_per_cell=1)"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "set"], check=False)
    assert (tmp_path / ".set.part").is_dir()
    assert not (tmp_path / "set").exists()
    write_wilds(tmp_path / "set", patches_per_cell=1)
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_a_complete_set_is_left_alone_and_something_else_too(tmp_path):
    done, other = tmp_path / "done", tmp_path / "other"
    for folder in (done, other):
        folder.mkdir()
    (done / "RELEASE_v1.0.txt").touch()
    (other / "mine.txt").touch()
    write_wilds(done)
    with pytest.raises(UserError, match="other exists but holds no complete set; remove it"):
        write_wilds(other)
    assert [p.name for p in sorted(tmp_path.rglob("*"))] == ["done", "RELEASE_v1.0.txt", "other", "mine.txt"]


@pytest.mark.parametrize("options", [{"patches_per_cell": 0}, {"slides_per_centre": 11}])
def test_wilds_numbers_out_of_range(tmp_path, options):
    with pytest.raises(UserError, match="slides_per_centre from 1 to 10"):
        write_wilds(tmp_path / "set", **options)
