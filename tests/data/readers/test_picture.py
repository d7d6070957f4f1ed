"""Pictures of every kind become 8-bit red, green and blue; what is no picture, or too large, gives one line."""

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.data.readers import writers
from xcnorm.data.readers import is_picture, read_picture
from xcnorm.errors import UserError

PIXELS = writers.pixels(9, 7, 3)
LOSSLESS = {"png": {}, "bmp": {}, "tiff": {}, "webp": {"lossless": True}, "ppm": {}}


def saved(image: Image.Image, kind: str, **options) -> io.BytesIO:
    file = io.BytesIO()
    image.save(file, kind, **options)
    file.seek(0)
    return file


@pytest.mark.parametrize("kind", LOSSLESS)
def test_colour(tmp_path, kind):
    path = tmp_path / f"picture.{kind}"
    path.write_bytes(saved(Image.fromarray(PIXELS), kind, **LOSSLESS[kind]).getvalue())
    found = read_picture(path)
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, PIXELS)
    found[0] = 0  # may be written to
    np.testing.assert_array_equal(read_picture(io.BytesIO(path.read_bytes())), PIXELS)


def test_jpeg_is_close():
    smooth = np.add.outer(np.arange(32) * 3, np.arange(40) * 2).astype(np.uint8)[..., None] + np.uint8([0, 20, 40])
    found = read_picture(saved(Image.fromarray(smooth), "jpeg", quality=95))
    assert np.abs(found.astype(int) - smooth).max() < 12


@pytest.mark.parametrize("kind", ["png", "bmp", "tiff", "gif", "ppm"])
def test_grey(kind):
    np.testing.assert_array_equal(
        read_picture(saved(Image.fromarray(PIXELS[..., 0]), kind)), np.repeat(PIXELS[..., :1], 3, axis=2)
    )


def test_black_and_white():
    found = read_picture(saved(Image.fromarray(PIXELS[..., 0] > 127), "png"))
    np.testing.assert_array_equal(found, np.repeat(np.where(PIXELS[..., :1] > 127, 255, 0), 3, axis=2))


@pytest.mark.parametrize("kind", ["png", "gif", "bmp"])
def test_palette(kind):
    image = Image.frombytes("P", (2, 2), bytes([0, 1, 2, 0]))
    image.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90])
    options = {} if kind == "bmp" else {"transparency": 1}
    colours = np.uint8([[10, 20, 30], [40, 50, 60], [70, 80, 90]])
    np.testing.assert_array_equal(read_picture(saved(image, kind, **options)), colours[[[0, 1], [2, 0]]])


def test_transparency_is_dropped():
    alpha = np.concatenate([PIXELS, writers.pixels(9, 7, 1, seed=1)], axis=2)
    np.testing.assert_array_equal(read_picture(saved(Image.fromarray(alpha), "png")), PIXELS)
    grey = Image.fromarray(alpha[..., 2:])
    assert grey.mode == "LA"
    np.testing.assert_array_equal(read_picture(saved(grey, "png")), np.repeat(PIXELS[..., 2:], 3, axis=2))


@pytest.mark.parametrize("kind", ["png", "tiff", "ppm"])
def test_sixteen_bits_of_grey(kind):
    deep = np.uint16([[0, 255, 256], [32768, 65279, 65535]])
    found = read_picture(saved(Image.fromarray(deep), kind))
    np.testing.assert_array_equal(found, np.repeat(np.uint8([[0, 0, 1], [128, 254, 255]])[..., None], 3, axis=2))


def png_chunks(*chunks: tuple[bytes, bytes]) -> io.BytesIO:
    parts = (struct.pack(">I", len(b)) + k + b + struct.pack(">I", zlib.crc32(k + b)) for k, b in chunks)
    return io.BytesIO(b"\x89PNG\r\n\x1a\n" + b"".join(parts))


def test_sixteen_bits_of_colour():
    rows = b"\0" + struct.pack(">6H", 0, 255, 256, 32768, 65279, 65535)
    header = struct.pack(">2I5B", 2, 1, 16, 2, 0, 0, 0)
    found = read_picture(png_chunks((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")))
    np.testing.assert_array_equal(found, [[[0, 0, 1], [128, 254, 255]]])


def test_cmyk():
    ink = Image.fromarray(np.uint8([[[0, 0, 0, 0], [255, 0, 0, 0], [0, 0, 0, 255]]]), "CMYK")
    np.testing.assert_array_equal(read_picture(saved(ink, "tiff")), [[[255, 255, 255], [0, 255, 255], [0, 0, 0]]])


TURNED = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
    8: lambda a: np.rot90(a),
}


@pytest.mark.parametrize("kind", ["png", "webp", "tiff"])
@pytest.mark.parametrize("orientation", TURNED)
def test_a_turned_picture_is_turned_upright(kind, orientation):
    exif = Image.Exif()
    exif[274] = orientation
    file = saved(Image.fromarray(PIXELS), kind, exif=exif, **LOSSLESS[kind])
    np.testing.assert_array_equal(read_picture(file), TURNED[orientation](PIXELS))


def test_the_first_frame_of_several():
    frames = [Image.fromarray(PIXELS), Image.fromarray(255 - PIXELS)]
    for kind in ("png", "tiff"):
        file = saved(frames[0], kind, save_all=True, append_images=frames[1:])
        np.testing.assert_array_equal(read_picture(file), PIXELS)


BAD = {
    "nothing": b"",
    "text": b"<html>not found</html>",
    "random": np.random.default_rng(0).bytes(2000),
    "an array": writers.npy(PIXELS),
    "PostScript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n",
    "floating point": saved(Image.fromarray(np.float32([[0.5]])), "tiff").getvalue(),
    "more than 16 bits": saved(Image.fromarray(np.int32([[70000]])), "tiff").getvalue(),
    "a header alone": writers.png(PIXELS)[:33],
    "a bad checksum": writers.png(PIXELS)[:-20] + bytes(20),
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_no_picture(tmp_path, data):
    path = tmp_path / "cat.png"
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"cat\.png (is empty|is not a picture, or a damaged one); [^\n]+$"):
        read_picture(path)


@pytest.mark.parametrize("kind", ["png", "jpeg", "bmp", "tiff", "gif", "webp", "ppm"])
@pytest.mark.parametrize("kept", [0.01, 0.3, 0.6, 0.9])
def test_truncated(kind, kept):
    data = saved(Image.fromarray(writers.pixels(40, 40, 3)), kind).getvalue()
    with pytest.raises(UserError, match=r"^the picture is not a picture, or a damaged one"):
        read_picture(io.BytesIO(data[: int(kept * len(data))]))


def test_changed_anywhere():
    random = np.random.default_rng(0)
    for kind in ("png", "jpeg", "bmp", "tiff", "gif", "webp", "ppm"):
        data = np.frombuffer(saved(Image.fromarray(PIXELS), kind).getvalue(), np.uint8)
        for _ in range(100):
            changed = data.copy()
            changed[random.integers(0, len(data), 3)] = random.integers(0, 256, 3)
            try:
                found = read_picture(io.BytesIO(changed.tobytes()))
            except UserError:
                continue
            assert found.shape[2:] == (3,)


@pytest.mark.parametrize("side", [10_001, 12_000, 60_000])
def test_bombs(side):
    """A tiny file of a huge picture: below, between and above the limits at which Pillow itself warns and refuses."""
    header = struct.pack(">2I5B", side, side, 8, 2, 0, 0, 0)
    file = png_chunks((b"IHDR", header), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b""))
    with pytest.raises(UserError, match=r"^bomb is a picture of more than 100,000,000 pixels; make it smaller$"):
        read_picture(file, "bomb")


def test_missing(tmp_path):
    with pytest.raises(UserError, match=r"cat\.png does not exist"):
        read_picture(tmp_path / "cat.png")
    with pytest.raises(UserError, match="is a folder where a file is expected"):
        read_picture(tmp_path)


def test_names(tmp_path):
    with pytest.raises(UserError, match=r"^row 7 is not a picture"):
        read_picture(io.BytesIO(b"text"), "row 7")
    (tmp_path / "cat.png").write_bytes(b"text")
    with pytest.raises(UserError, match=r"^Tom is not a picture"):
        read_picture(tmp_path / "cat.png", "Tom")


def test_is_picture():
    names = ["a.png", "a.jpg", "a.JPEG", "a.bmp", "a.tif", "a.TIFF", "a.webp", "a.gif", "a.ppm", "a.pgm"]
    assert all(is_picture(Path(name)) for name in names)
    assert not any(is_picture(Path(name)) for name in ("a.txt", "png", "a.png.part", "a", ".png"))
