"""Users bring their own pictures, in all kinds of order."""

import numpy as np
import pytest
import torch
from PIL import Image

from xcnorm import data
from xcnorm.cli import main
from xcnorm.errors import UserError


def put(path, colour=(200, 10, 10), size=(12, 12)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


@pytest.fixture
def root(tmp_path):
    """Two domains of two classes; the shade of a picture is its number."""
    for shift, domain in enumerate(("day", "night")):
        for label, name in enumerate(("cat", "dog")):
            for number in range(10):
                put(tmp_path / domain / name / f"{number}.png", (100 * shift + number, 255 * label, 0))
    return tmp_path


def test_domains_and_classes(root):
    benchmark = data.load("folder", root, source="day")
    assert benchmark.classes == ("cat", "dog")
    assert list(benchmark.targets) == ["night"]
    assert (len(benchmark.train), len(benchmark.validation), len(benchmark.targets["night"])) == (18, 2, 20)
    night = benchmark.targets["night"]
    assert night.labels.tolist() == [0] * 10 + [1] * 10
    assert night.images[:, 0, 0, 0].tolist() == 2 * list(range(100, 110))
    assert (night.images[:, 1, 3, 3] == 255 * night.labels).all()
    assert benchmark.warnings == ()


def test_the_split_is_by_class_and_by_seed(root):
    one, other = (data.load("folder", root, source="day", validation=0.3, seed=seed) for seed in (0, 1))
    for benchmark in (one, other):
        shades = sorted(torch.cat([benchmark.train.images, benchmark.validation.images])[:, 0, 0, 0].tolist())
        assert shades == sorted(2 * list(range(10)))
        assert benchmark.validation.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert not torch.equal(one.validation.images, other.validation.images)


def test_a_single_domain_is_tested_under_corruptions(root):
    for folder in (root / "day", _only(root, "day")):
        benchmark = data.load("folder", folder, pixels=32)
        assert len(benchmark.targets) == 15 * 5
        assert "corruptions" in benchmark.title
        target = benchmark.targets["contrast/5"]
        expected = data.corruptions.corrupt(benchmark.validation.images, "contrast", 5)
        assert torch.equal(target.images, expected)


def _only(root, domain):
    folder = root.parent / "single"
    folder.mkdir(exist_ok=True)
    (folder / domain).symlink_to(root / domain)
    return folder


def test_several_domains_need_a_source(root):
    with pytest.raises(UserError, match=r"source=day\|night"):
        data.load("folder", root)
    with pytest.raises(UserError, match="did you mean 'night'"):
        data.load("folder", root, source="nigth")


def test_a_class_that_the_source_lacks_is_an_error(root):
    put(root / "night" / "bird" / "1.png")
    with pytest.raises(UserError, match=r"'night' has a class 'bird' that the source 'day' lacks"):
        data.load("folder", root, source="day")


def test_a_class_that_a_target_lacks_is_a_warning(root):
    for path in (root / "night" / "dog").iterdir():
        path.unlink()
    benchmark = data.load("folder", root, source="day")
    assert benchmark.warnings == ("domain 'night' has no pictures of class 'dog'",)
    assert benchmark.targets["night"].labels.tolist() == [0] * 10


def test_sizes_differ(root):
    put(root / "day" / "cat" / "large.png", size=(40, 20))
    with pytest.raises(UserError, match=r"large\.png|pixels"):
        data.load("folder", root, source="day")
    assert data.load("folder", root, source="day", pixels=16).train.images.shape[2:] == (16, 16)


def test_sizes_differ_between_domains(root):
    for path in (root / "night").rglob("*.png"):
        put(path, size=(24, 24))
    with pytest.raises(UserError, match=r"24x24 pixels, but .* 12x12; give a size for all in pixels"):
        data.load("folder", root, source="day")


def test_pictures_beside_class_folders(root):
    put(root / "day" / "stray.png")
    with pytest.raises(UserError, match=r"holds pictures and .* holds folders of pictures"):
        data.load("folder", root, source="day")


def test_folders_inside_a_class(root):
    put(root / "day" / "cat" / "more" / "1.png")
    with pytest.raises(UserError, match="is a folder among pictures"):
        data.load("folder", root, source="day")


def test_no_picture_inside(root):
    (root / "day" / "cat" / "0.png").write_text("not a picture")
    with pytest.raises(UserError, match=r"0\.png"):
        data.load("folder", root, source="day")


def test_another_kind_of_file(root):
    (root / "day" / "cat" / "notes.txt").write_text("hello")
    with pytest.raises(UserError, match=r"notes\.txt is not a picture"):
        data.load("folder", root, source="day")


def test_hidden_files_are_left_alone(root):
    (root / "day" / "cat" / ".DS_Store").write_bytes(b"\0")
    (root / ".git").mkdir()
    assert len(data.load("folder", root, source="day").train) == 18


@pytest.mark.parametrize("options", [{"validation": 0.0}, {"validation": 1.5}, {"pixels": 0}])
def test_bad_options(root, options):
    with pytest.raises(UserError, match="must"):
        data.load("folder", root, source="day", **options)


def test_empty_and_missing_folders(tmp_path):
    with pytest.raises(UserError, match="not a folder"):
        data.load("folder", tmp_path / "no")
    with pytest.raises(UserError, match="no pictures"):
        data.load("folder", tmp_path)
    (tmp_path / "day").mkdir()
    with pytest.raises(UserError, match="no pictures"):
        data.load("folder", tmp_path)


def test_one_class_is_not_enough(tmp_path):
    put(tmp_path / "day" / "cat" / "1.png")
    with pytest.raises(UserError, match="at least two"):
        data.load("folder", tmp_path)


def test_one_picture_of_a_class_is_not_enough(root):
    for path in list((root / "day" / "cat").iterdir())[1:]:
        path.unlink()
    with pytest.raises(UserError, match="holds one picture"):
        data.load("folder", root, source="day")


def test_verify_opens_every_picture(root, capsys):
    assert main(["data", "verify", "folder", "--data", str(root)]) == 0
    assert "night: ok: 20 pictures of 2 classes; can be the source" in capsys.readouterr().out
    put(root / "night" / "bird" / "1.png")
    assert main(["data", "verify", "folder", "--data", str(root)]) == 0
    assert "no source, because it lacks 'bird'" in capsys.readouterr().out
    put(root / "day" / "fish" / "1.png")
    assert main(["data", "verify", "folder", "--data", str(root)]) == 2
    assert "no domain has all classes" in capsys.readouterr().out
    (root / "night" / "dog" / "x.png").write_bytes(np.random.default_rng(0).bytes(100))
    assert main(["data", "verify", "folder", "--data", str(root)]) == 2
    assert "x.png" in capsys.readouterr().out
