"""A pickle gives plain data or one line of complaint, whatever its author had in mind."""

import contextlib
import copyreg
import gzip
import io
import pickle
import struct
import warnings
from collections import OrderedDict
from fractions import Fraction

import numpy as np
import pytest

from tests.data.readers.writers import Python2
from xcnorm.data.readers import load_pickle
from xcnorm.errors import UserError

PROTOCOLS = range(6)
DTYPES = ["?", "u1", "i1", "<i2", ">i2", "<u4", "<i8", ">i8", "<f2", "<f4", ">f8", "<c8", "<c16"]


def same(found, expected):
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            same(found[key], expected[key])
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for f, e in zip(found, expected, strict=True):
            same(f, e)
    elif isinstance(expected, np.ndarray | np.generic):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    else:
        assert found == expected


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_plain_data(protocol):
    value = {
        "text": "Grüße",
        b"bytes": b"\x00\xff",
        "nothing": [None, True, False, b"", (), [], {}, set()],
        "numbers": (0, -1, 255, 70000, 2**40, -(2**70), 1.5, float("inf")),
        "nested": [[(1, [2, {3: (4, 5, 6, 7)}])]],
        "set": {1, "two", 3.0},
        "twice": [["shared"]] * 2,
    }
    same(load_pickle(pickle.dumps(value, protocol)), value)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays(protocol, dtype):
    array = np.arange(24).reshape(2, 3, 4).astype(dtype)
    for value in (
        array,
        np.asfortranarray(array),
        array[:, ::2],
        array[0, 0, 1],
        array[:0],
        array.reshape(-1)[3].reshape(()),
    ):
        found = load_pickle(pickle.dumps({"data": [value, value]}, protocol))["data"]
        same(found, [pickle.loads(pickle.dumps(value, protocol))] * 2)
        np.testing.assert_array_equal(found[0], value)
        assert found[0] is found[1]
        assert isinstance(found[0], np.generic) or found[0].flags.writeable


def test_an_array_larger_than_a_frame():
    array = np.arange(100_000)
    for protocol in PROTOCOLS:
        same(load_pickle(pickle.dumps(array, protocol)), array)


def test_pickles_of_python_2():
    array = np.arange(200, 260).reshape(3, 20).astype(np.uint8)
    data = Python2.dump({b"data": array, b"labels": [3, 1, 4], b"wide": np.arange(3, dtype=">i4")})
    wide = np.arange(3, dtype=np.int32)
    same(load_pickle(data), {"data": array, "labels": [3, 1, 4], "wide": wide})
    same(load_pickle(data, encoding="bytes"), {b"data": array, b"labels": [3, 1, 4], b"wide": wide})
    same(load_pickle(b"(dp0\nS'caf\\xe9'\np1\n(lp2\nL7L\naI01\nas."), {"café": [7, True]})  # protocol 0


def test_a_stream():
    same(load_pickle(io.BytesIO(pickle.dumps([1, 2]))), [1, 2])


class Calls:
    """Pickles as a call."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def global_(module, name):
    return f"c{module}\n{name}\n".encode()


ARRAY = global_("numpy.core.multiarray", "_reconstruct") + global_("numpy", "ndarray") + b"K\x00\x85C\x01b\x87R"
U1 = global_("numpy", "dtype") + b"X\x02\x00\x00\x00u1\x89\x88\x87R"

REFUSED = {
    "a function of the system": (pickle.dumps(Calls(__import__("os").system, "true")), r"'posix\.system'|'nt\.system'"),
    "eval": (pickle.dumps(Calls(eval, "1 + 1")), r"'builtins\.eval'"),
    "eval of Python 2": (global_("__builtin__", "eval") + b"U\x051 + 1\x85R.", r"'__builtin__\.eval'"),
    "getattr": (pickle.dumps(Calls(getattr, "", "join")), r"'builtins\.getattr'"),
    "a path through a module": (b"\x80\x04\x8c\x05numpy\x8c\x0fcore.multiarray\x93.", r"'numpy\.core\.multiarray'"),
    "a way around by dots": (b"\x80\x04\x8c\x05numpy\x8c\x10ndarray.__init__\x93.", r"'numpy\.ndarray\.__init__'"),
    "numpy's own loader": (pickle.dumps(Calls(np.load, "file.npy")), r"'numpy\.load'"),
    "another function of numpy": (global_("numpy", "zeros") + b"(J\xff\xff\xff\x7ft\x85R.", r"'numpy\.zeros'"),
    "bytearray": (pickle.dumps(Calls(bytearray, 10**12)), r"'builtins\.bytearray'"),
    "an ordered dictionary": (pickle.dumps(OrderedDict(a=1)), r"'collections\.OrderedDict'"),
    "a fraction": (pickle.dumps(Fraction(1, 2)), r"'fractions\.Fraction'"),
    "a class of ours": (pickle.dumps(UserError("x")), r"'xcnorm\.errors\.UserError'"),
    "an array of objects": (pickle.dumps(np.array([{}], object)), "an array of type 'O8'"),
    "an array of records": (pickle.dumps(np.zeros(2, "i4,f8")), "an array of type 'V12'"),
    "an array of text": (pickle.dumps(np.array(["a"])), "an array of type 'U1'"),
    "times": (pickle.dumps(np.zeros(1, "M8[s]")), "an array of type 'M8'"),
    "a matrix": (ARRAY.replace(global_("numpy", "ndarray"), b"N") + b".", "not a plain array"),
    "a persistent id": (b"Psomewhere\n.", "make an object"),
    "a binary persistent id": (b"\x80\x02U\x01aQ.", "make an object"),
    "an instance": (b"(inumpy\nndarray\n.", "make an object"),
    "an object": (b"(" + global_("numpy", "dtype") + b"U\x02u1o.", "make an object"),
    "a new object": (b"\x80\x02" + global_("numpy", "dtype") + b")\x81.", "make an object"),
    "a new object with names": (b"\x80\x04" + global_("numpy", "dtype") + b")}\x92.", "make an object"),
    "a buffer from elsewhere": (b"\x80\x05\x97.", "make an object"),
    "a frozen set": (pickle.dumps(frozenset([1])), "make an object"),
    "a global alone": (global_("numpy", "ndarray") + b".", "a part of an array"),
    "a function alone": (b"]" + global_("_codecs", "encode") + b"a.", "a part of an array"),
    "a type alone": (pickle.dumps({"t": np.dtype("u1")}), "a part of an array"),
    "the state of a function": (
        global_("_codecs", "encode") + b"}X\x0c\x00\x00\x00__defaults__)sb.",
        "change a function",
    ),
    "the slots of a function": (
        global_("_codecs", "encode") + b"N}X\x0c\x00\x00\x00__defaults__)s\x86b.",
        "change a function",
    ),
    "the state of a list": (b"]}b.", "change a list"),
    "items of an array": (ARRAY + b"K\x00K\x01s.", "change a ndarray"),
    "a tuple as a key": (pickle.dumps({(1, 2): 3}), "a tuple as the key"),
    "a deep tuple as a key": (b"}" + b")" + b"\x85" * 300_000 + b"Ns.", "a tuple as the key"),
    "a deep tuple in a set": (b"\x80\x04\x8f(" + b")" + b"\x85" * 300_000 + b"\x90.", "a tuple as the key"),
}


@pytest.mark.parametrize(("data", "reason"), REFUSED.values(), ids=REFUSED)
def test_everything_else_is_refused_by_name(data, reason):
    with pytest.raises(UserError, match=rf"^bad\.pkl is refused: it .*({reason})[^\n]*$"):
        load_pickle(data, name="bad.pkl")


def test_refused_before_it_is_called(tmp_path):
    mark = tmp_path / "mark"
    with pytest.raises(UserError, match="refused"):
        load_pickle(pickle.dumps(Calls(open, str(mark), "w")))
    assert not mark.exists()


def test_an_extension_is_refused_even_if_it_is_registered():
    copyreg.add_extension("os", "system", 240)
    try:
        for data in (b"\x80\x02\x82\xf0.", b"\x80\x02\x83\xf0\x00.", b"\x80\x02\x84\xf0\x00\x00\x00."):
            with pytest.raises(UserError, match="wants to make an object"):
                load_pickle(data)
    finally:
        copyreg.remove_extension("os", "system", 240)


def array_state(shape, data, dtype=U1):
    lengths = b"".join(
        b"\x8a\x09" + struct.pack("<q", length) + b"\0" * (length >= 0) + b"\xff" * (length < 0) for length in shape
    )
    return ARRAY + b"(K\x01(" + lengths + b"t" + dtype + b"\x89B" + struct.pack("<I", len(data)) + data + b"tb."


DAMAGED = {
    "nothing": b"",
    "another file": b"\x93NUMPY\x01\x00v\x00",
    "random": np.random.default_rng(0).bytes(1000),
    "zeros": bytes(1000),
    "the class of arrays called": global_("numpy", "ndarray") + b"(J\xff\xff\xff\x7fJ\xff\xff\xff\x7ft\x85R.",
    "a shape too large": array_state((2**31, 2**31), b"abcd"),
    "a shape too small": array_state((3,), b"abcd"),
    "a shape that wraps around": array_state((2**32, 2**32), b""),
    "a shape that is negative": array_state((-2, -2), b"abcd"),
    "an array of a list": ARRAY + b"(K\x01K\x01\x85" + U1 + b"\x89]tb.",
    "an array of no type": ARRAY + b"(K\x01K\x01\x85N\x89C\x01atb.",
    "a state too short": ARRAY + b"K\x01\x85b.",
    "bytes of a length": global_("__builtin__", "bytes") + b"J\xff\xff\xff\x7f\x85R.",
    "bytes in an encoding": global_("_codecs", "encode") + b"X\x01\x00\x00\x00aX\x03\x00\x00\x00zip\x86R.",
    "bytes without end": b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b"a",
    "many bytes": b"\x80\x03B" + struct.pack("<I", 2**32 - 1) + b"a.",
    "a byte array without end": b"\x80\x05\x96" + struct.pack("<Q", 2**62) + b"a",
    "a frame without end": b"\x80\x04\x95" + struct.pack("<Q", 2**62) + b"N.",
    "a memo far away": b"\x80\x02Nj\xff\xff\xff\xff.",
    "an empty stack": b".",
    "a mark that is not there": b"t.",
    "a dictionary of three": b"(K\x01K\x02K\x03d.",
    "a protocol of the future": b"\x80\x63N.",
    "a long number in words": b"I" + b"9" * 10_000 + b"\n.",
    "an opcode that is none": b"\xfe.",
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_damaged(data):
    with pytest.raises(UserError, match=r"^bad\.pkl is damaged or not what it should be \([^\n]+\); fetch it again$"):
        load_pickle(data, name="bad.pkl")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_truncated_anywhere(protocol):
    data = pickle.dumps({"data": np.arange(20), "labels": [1, 2, 3]}, protocol)
    for end in range(len(data)):
        with pytest.raises(UserError):
            load_pickle(data[:end])


def test_a_stream_that_breaks():
    packed = gzip.compress(pickle.dumps(np.arange(1000)))
    for end in (5, len(packed) // 2, len(packed) - 1):
        with pytest.raises(UserError, match="the pickle is damaged"):
            load_pickle(gzip.GzipFile(fileobj=io.BytesIO(packed[:end])))


def test_trailing_bytes():
    with pytest.raises(UserError, match="goes on after its end"):
        load_pickle(pickle.dumps(1) + b"\0")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_any_change_gives_plain_data_or_a_complaint(protocol):
    data = bytearray(pickle.dumps({"a": np.arange(5), "b": [1, "x", (2.5, None)], "s": {1}}, protocol))
    random = np.random.default_rng(protocol)
    for _ in range(1500):
        changed = data.copy()
        for place in random.integers(0, len(data), 2):
            changed[place] = random.integers(256)
        # The warnings are Python's own, of odd escapes in text.
        with warnings.catch_warnings(action="ignore"), contextlib.suppress(UserError):
            load_pickle(bytes(changed))


def test_a_large_memo_index_costs_nothing():
    assert load_pickle(b"\x80\x02K\x07r\xff\xff\xff\xff0j\xff\xff\xff\xff.") == 7


def test_depth_sharing_and_cycles_are_no_trouble():
    deep = load_pickle(b"]" + b"]" * 200_000 + b"a" * 200_000 + b".")
    for _ in range(200_000):
        (deep,) = deep
    assert deep == []
    shared = load_pickle(b")" + b"2\x86" * 100 + b".")  # 2^100 leaves, a hundred tuples
    assert len(shared) == 2
    cycle = load_pickle(b"]q\x00h\x00a.")
    assert cycle[0] is cycle
