import functools
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import namedtuple

import numpy as np
import pytest
import torch
from numpy.lib.format import open_memmap
from PIL import Image

from xcnorm.data.decode import decode, open_decoded
from xcnorm.errors import UserError

MANY = 2000  # so many that processes are started


def noise(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pictures").mkdir()
    return tmp_path / "pictures"


@pytest.fixture
def same(folder):
    """Ten pictures of one size, without loss, and what they show."""
    arrays = noise(10, 7, 5, 3)
    paths = [folder / f"{i}.png" for i in range(10)]
    for path, array in zip(paths, arrays, strict=True):
        Image.fromarray(array).save(path)
    return paths, torch.from_numpy(arrays).permute(0, 3, 1, 2)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "decoded" / "pictures.npy"


def beside(out):
    return sorted(path.name for path in out.parent.iterdir()) if out.parent.exists() else []


def test_in_memory(same):
    paths, expected = same
    assert torch.equal(decode(paths), expected)
    assert torch.equal(decode(paths[::-1]), expected.flip(0))


def test_in_a_file(same, out):
    paths, expected = same
    images = decode(paths, out=out)
    assert images.shape == (10, 3, 7, 5)
    assert torch.equal(images, expected)
    assert torch.equal(open_decoded(out), expected)
    assert np.array_equal(np.load(out), expected.permute(0, 2, 3, 1).numpy())
    assert beside(out) == ["pictures.npy"]


def test_changes_do_not_reach_the_file(same, out):
    paths, expected = same
    decode(paths, out=out).zero_()
    assert torch.equal(open_decoded(out), expected)


def test_a_finished_file_is_used_again(same, out):
    paths, expected = same
    decode(paths, out=out)
    for path in paths:
        path.unlink()
    assert torch.equal(decode(paths, out=out), expected)


@pytest.mark.parametrize("content", [b"", b"short", b"long" * 100])
def test_a_file_of_anything_else_is_replaced(same, out, content):
    paths, expected = same
    out.parent.mkdir()
    out.write_bytes(content)
    assert torch.equal(decode(paths, out=out), expected)


def test_a_file_of_other_pictures_is_replaced(same, out):
    paths, expected = same
    old = decode(paths, out=out)
    assert torch.equal(decode(paths[::-1], out=out), expected.flip(0))
    assert decode(paths[::-1], out=out, pixels=4).shape == (10, 3, 4, 4)
    assert torch.equal(old, expected)  # whoever has the old file open keeps it


@pytest.mark.parametrize(("height", "width"), [(40, 60), (60, 40), (64, 64), (80, 20), (10, 30)])
def test_squares_are_resized_and_then_cut(folder, height, width):
    # Sizes for which resizing the whole picture needs no rounding, and cutting no half pixels.
    path, pixels = folder / "a.png", 20
    array = noise(height, width, 3)
    Image.fromarray(array).save(path)
    scale = pixels / min(height, width)
    whole = Image.fromarray(array).resize((int(width * scale), int(height * scale)), Image.Resampling.BILINEAR)
    left, top = (whole.width - pixels) // 2, (whole.height - pixels) // 2
    expected = np.asarray(whole.crop((left, top, left + pixels, top + pixels))).astype(int)
    actual = decode([path], pixels=pixels)[0].permute(1, 2, 0).numpy()
    assert np.abs(actual - expected).max() <= 1


def test_odd_sizes_come_to_one(folder):
    sizes = [(1, 1), (3, 500), (33, 32), (7, 7), (401, 13)]
    paths = [folder / f"{height}x{width}.png" for height, width in sizes]
    for path, size in zip(paths, sizes, strict=True):
        Image.fromarray(np.full((*size, 3), 77, np.uint8)).save(path)
    assert torch.equal(decode(paths, pixels=16), torch.full((5, 3, 16, 16), 77, dtype=torch.uint8))


def test_different_sizes_are_refused_without_one(same, folder, out):
    paths, _ = same
    odd = folder / "odd.png"
    Image.fromarray(noise(7, 6, 3)).save(odd)
    with pytest.raises(UserError) as caught:
        decode([*paths, odd], out=out)
    assert str(caught.value) == f"{odd} has 6x7 pixels, but {paths[0]} has 5x7; give a size for all in `pixels`"
    assert beside(out) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_a_bad_picture_is_named_and_nothing_is_left(same, folder, out, workers):
    paths, _ = same
    bad = folder / "bad.png"
    bad.write_text("no picture")
    with pytest.raises(UserError) as caught:
        decode([*paths * (MANY // 10), bad], out=out, workers=workers)
    assert str(bad) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert beside(out) == []
    assert not multiprocessing.active_children()


def test_processes_give_what_one_gives(same, out):
    paths, expected = same
    seen = []
    images = decode(paths * (MANY // 10), out=out, workers=2, progress=lambda n: seen.append((n, out.exists())))
    assert torch.equal(images, expected.repeat(MANY // 10, 1, 1, 1))
    assert sum(count for count, _ in seen) == MANY
    assert len(seen) > 10
    assert not any(finished for _, finished in seen)
    counted = []
    assert torch.equal(decode(paths * (MANY // 10), workers=1, progress=counted.append), images)
    assert sum(counted) == MANY


def test_a_killed_process_is_reported(same, out):
    paths, _ = same

    def kill(count):
        for process in multiprocessing.active_children():
            process.kill()

    with pytest.raises(UserError, match=r"a process that decoded pictures died.*; try again"):
        decode(paths * MANY, out=out, workers=2, progress=kill)
    assert beside(out) == []


SCRIPT = """
import sys
from pathlib import Path
from xcnorm.data.decode import decode

if __name__ == "__main__":
    paths = sorted(Path(sys.argv[1]).iterdir()) * 20000
    decode(paths, out=Path(sys.argv[2]), workers=2, progress=lambda count: print(count, flush=True))
"""


@pytest.mark.skipif(os.name == "nt", reason="groups of processes are a matter of POSIX")
def test_ctrl_c_ends_all_of_it(same, folder, out, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, script, folder, out]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # What a shell runs in the background ignores Ctrl-C, and so does all that it starts.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.default_int_handler),
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        begin = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert time.monotonic() - begin < 20
    assert process.returncode != 0
    assert errors.strip().endswith("KeyboardInterrupt")
    assert beside(out) == []


def test_too_little_room_is_said_before_anything_is_written(same, out, monkeypatch):
    paths, _ = same
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(10, 0, 10))
    with pytest.raises(UserError, match=r"10 pictures of 5x7 pixels take 0.0 GB, but .*decoded has 0.0 GB left"):
        decode(paths, out=out)
    assert beside(out) == []


def test_a_place_that_cannot_be_written_to(same, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot write .*/file.*; keep the pictures in another file"):
        decode(same[0], out=tmp_path / "file" / "pictures.npy")


@pytest.mark.parametrize(
    ("options", "message"),
    [({"pixels": 0}, "pixels must be 1 or more, not 0"), ({"workers": 0}, "workers must be 1 or more, not 0")],
)
def test_bad_arguments(same, options, message):
    with pytest.raises(UserError, match=message):
        decode(same[0], **options)


def test_no_pictures():
    with pytest.raises(UserError, match="there are no pictures to decode"):
        decode([])


def test_sets_larger_than_the_memory(tmp_path):
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    # All holes: it takes no room on the disk.
    written = open_memmap(tmp_path / "a.npy", mode="w+", dtype=np.uint8, shape=(2 * memory // (96 * 96 * 3), 96, 96, 3))
    written[-1] = 9
    images = open_decoded(tmp_path / "a.npy")
    assert len(images) == len(written)
    assert images[0].sum() == 0
    assert torch.equal(images[-1], torch.full((3, 96, 96), 9, dtype=torch.uint8))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        (b"not at all", "cannot be read as decoded pictures"),
        (b"\x93NUMPY\x01\x00\x08\x00{'shape'" + bytes(64), "cannot be read as decoded pictures"),
        (np.zeros((2, 4, 4)), r"holds no decoded pictures but float64 of shape \(2, 4, 4\)"),
        (np.zeros((2, 3, 4, 4), np.uint8), "holds no decoded pictures but uint8"),
    ],
    ids=["missing", "garbage", "half a header", "numbers", "channels first"],
)
def test_what_is_not_a_decoded_file(out, content, message):
    out.parent.mkdir()
    if isinstance(content, bytes):
        out.write_bytes(content)
    elif content is not None:
        np.save(out, content)
    with pytest.raises(UserError, match=message):
        open_decoded(out)


def test_a_truncated_file(same, out):
    decode(same[0], out=out)
    with out.open("r+b") as file:
        file.truncate(out.stat().st_size // 2)
    with pytest.raises(UserError, match=r"cannot be read as decoded pictures .*; decode them again"):
        open_decoded(out)
