"""Pictures from strangers, drawings, and what goes back to the page."""

import base64
import io
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image

from xcnorm.errors import UserError
from xcnorm.playground.pictures import from_drawing, from_file, from_png, to_png


def png(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "png")
    return buffer.getvalue()


def bomb(width: int, height: int) -> bytes:
    """A small file that says it is a large picture."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(10_000))) + chunk(b"IEND", b"")
    )


BAD = {
    "empty": b"",
    "text": b"no picture",
    "svg": b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
    "postscript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
    "half a picture": png(np.zeros((64, 64, 3), np.uint8))[:60],
    "a bomb": bomb(7_000, 7_000),
    "a large bomb": bomb(60_000, 60_000),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_picture_is_one_line(name):
    with pytest.raises(UserError, match=r"^this file is (not a picture|a picture of more than 40,000,000 pixels)"):
        from_file(BAD[name], 32)


def test_of_a_file_the_middle_square_is_taken():
    pixels = np.zeros((40, 80, 3), np.uint8)
    pixels[:, 20:60] = 200
    found = from_file(png(pixels), 16)
    assert found.shape == (1, 3, 16, 16)
    assert (found[..., 1:-1] == 200).all()  # the outermost pixels are blurred with what was cut off
    assert (found > 150).all()


@pytest.mark.parametrize(("top", "left", "height", "width"), [(5, 5, 100, 40), (150, 200, 60, 60), (0, 0, 280, 280)])
def test_a_drawing_fills_the_box_of_mnist_and_stands_in_the_middle(top, left, height, width):
    drawn = np.zeros((280, 280), np.uint8)
    drawn[top : top + height, left : left + width] = 255
    found = from_drawing(png(drawn), 28)[0, 0]
    rows, columns = found.amax(1).nonzero(), found.amax(0).nonzero()
    assert max(len(rows), len(columns)) == 20
    assert abs(rows.float().mean() - 13.5) <= 0.5
    assert abs(columns.float().mean() - 13.5) <= 0.5


def test_a_drawing_of_nothing_is_black_and_of_a_dot_a_dot():
    assert not from_drawing(png(np.zeros((280, 280), np.uint8)), 28).any()
    dot = np.zeros((280, 280), np.uint8)
    dot[0, 279] = 255
    assert from_drawing(png(dot), 28).any()


def test_a_picture_comes_back_from_the_page_as_it_was():
    picture = torch.randint(0, 256, (1, 3, 9, 9), dtype=torch.uint8)
    assert torch.equal(from_png(to_png(picture), 9), picture)


@pytest.mark.parametrize(
    "text", [None, 3, ["a"], "", "no base64!", "ü", base64.b64encode(BAD["svg"]).decode()], ids=repr
)
def test_what_the_page_never_sends_is_one_line(text):
    with pytest.raises(UserError, match=r"^picture (must be|is not) a picture"):
        from_png(text, 9)


def test_a_picture_of_another_size_is_refused():
    with pytest.raises(UserError, match="picture must have 9x9 pixels, not 8x8"):
        from_png(to_png(torch.zeros(1, 3, 8, 8, dtype=torch.uint8)), 9)
    with pytest.raises(UserError, match="more than 81 pixels"):
        from_png(base64.b64encode(BAD["a large bomb"]).decode(), 9)
