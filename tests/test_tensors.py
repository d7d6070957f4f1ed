"""A file of tensors is what was written, or is said to be damaged."""

import json
import random
import struct

import pytest
import torch
from safetensors.torch import load_file, save_file

from xcnorm.tensors import load_tensors, save_tensors

TENSORS = {
    "weight": torch.arange(60.0).reshape(3, 4, 5),
    "half": torch.arange(8).bfloat16(),
    "count": torch.tensor(3),
    "none": torch.empty(0, 2),
}


def test_tensors_come_back_and_others_can_read_them(tmp_path):
    save_tensors(TENSORS, tmp_path / "x")
    for found in (load_tensors(tmp_path / "x"), load_file(tmp_path / "x")):
        assert found.keys() == TENSORS.keys()
        assert all(found[name].dtype == tensor.dtype for name, tensor in TENSORS.items())
        assert all(torch.equal(found[name], tensor) for name, tensor in TENSORS.items())


def test_a_file_of_an_earlier_version_has_no_digest_and_loads(tmp_path):
    save_file(TENSORS, tmp_path / "x")
    assert torch.equal(load_tensors(tmp_path / "x")["weight"], TENSORS["weight"])


def test_the_same_tensors_make_the_same_file(tmp_path):
    for name in "xy":
        save_tensors(TENSORS, tmp_path / name)
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()


def test_every_flipped_bit_is_found_or_changes_no_tensor(tmp_path):
    path = tmp_path / "x"
    save_tensors(TENSORS, path)
    whole = path.read_bytes()
    header = 8 + struct.unpack("<Q", whole[:8])[0]
    found = 0
    bits = [8 * place + bit for place in range(header, len(whole)) for bit in (0, 7)]
    bits += random.Random(0).sample(range(8 * header), 300)
    for bit in bits:
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            loaded = load_tensors(path)
        except ValueError:
            found += 1
        else:
            assert bit < 8 * header  # such as in the digest's own name
            assert all(torch.equal(loaded[name], tensor) for name, tensor in TENSORS.items())
    assert found > 0.9 * len(bits)


def test_two_files_that_belong_together_are_told_from_two_that_do_not(tmp_path):
    save_tensors(TENSORS, tmp_path / "x", "their text")
    assert load_tensors(tmp_path / "x", "their text").keys() == TENSORS.keys()
    with pytest.raises(ValueError, match="not what was written"):
        load_tensors(tmp_path / "x", "another text")


def lying(**changes):
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changes
    header = json.dumps({"weight": entry}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(8)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 10**9) + b"{}",
        struct.pack("<Q", 100_000) + b"[" * 100_000,
        lying(shape=[2**40]),
        lying(shape=[2**62, 8]),
        lying(data_offsets=[0, 2**40]),
        lying(data_offsets=[8, 0]),
        lying(data_offsets=[4, 12]),
        lying(dtype="object"),
    ],
)
def test_a_header_that_lies_is_refused(content, tmp_path):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ValueError, match=r"\w"):
        load_tensors(tmp_path / "x")
