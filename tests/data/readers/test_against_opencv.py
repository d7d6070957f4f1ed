"""Pictures that OpenCV has written are read as OpenCV reads them, where that is installed."""

import io

import numpy as np
import pytest

from tests.data.readers.writers import pixels
from xcnorm.data.readers import read_picture

cv2 = pytest.importorskip("cv2", reason="OpenCV (opencv-python-headless) is not installed")

COLOUR, GREY, DEEP = pixels(19, 23, 3), pixels(19, 23), pixels(19, 23, 2).view(np.uint16)[..., 0]
BOTH = (".png", ".bmp", ".tiff", ".webp")


def written(suffix, picture, *options):
    done, data = cv2.imencode(suffix, picture, options)
    assert done
    return data


def theirs(data):
    return cv2.cvtColor(cv2.imdecode(data, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)


@pytest.mark.parametrize(
    ("suffix", "picture"),
    [(suffix, picture) for suffix in BOTH for picture in (COLOUR, GREY)] + [(".ppm", COLOUR), (".pgm", GREY)],
)
def test_without_loss(suffix, picture):
    data = written(suffix, picture, *((cv2.IMWRITE_WEBP_QUALITY, 101) if suffix == ".webp" else ()))
    ours = read_picture(io.BytesIO(data.tobytes()))
    assert np.array_equal(ours, theirs(data))
    stored = picture[..., ::-1] if picture.ndim == 3 else np.repeat(picture[..., np.newaxis], 3, axis=2)
    assert np.array_equal(ours, stored)


@pytest.mark.parametrize("suffix", [".png", ".tiff"])
def test_sixteen_bits_keep_their_upper_eight(suffix):
    ours = read_picture(io.BytesIO(written(suffix, DEEP).tobytes()))
    assert np.array_equal(ours[..., 0], DEEP >> 8)


@pytest.mark.parametrize("quality", [50, 95])
def test_jpeg_to_a_level_or_two(quality):
    smooth = cv2.resize(COLOUR[:5, :6], (64, 48), interpolation=cv2.INTER_CUBIC)
    data = written(".jpg", smooth, cv2.IMWRITE_JPEG_QUALITY, quality)
    ours = read_picture(io.BytesIO(data.tobytes()))
    # Both decode with a library of the same family; measured: no level is off by more than 2.
    assert np.abs(ours.astype(int) - theirs(data)).max() <= 3


def test_a_file_of_several_pages_gives_its_first():
    done, data = cv2.imencodemulti(".tiff", [COLOUR, COLOUR[::-1].copy()])
    assert done
    assert np.array_equal(read_picture(io.BytesIO(data.tobytes())), COLOUR[..., ::-1])
