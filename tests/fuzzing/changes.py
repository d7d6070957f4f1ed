"""Changes of bytes, drawn by hypothesis: what the short form of the fuzzing feeds to entrances."""

from __future__ import annotations

from hypothesis import strategies as st

_NUMBERS = tuple(
    value.to_bytes(size, order)
    for size in (1, 2, 4, 8)
    for value in (0, 1, 2 ** (8 * size - 1) - 1, 2 ** (8 * size - 1), 2 ** (8 * size) - 1)
    for order in ("little", "big")
)


@st.composite
def changed(draw: st.DrawFn, seeds: tuple[bytes, ...], tokens: tuple[bytes, ...] = ()) -> bytes:
    """One of the seeds with some of its bytes written over, taken out, put in or doubled."""
    data = bytearray(draw(st.sampled_from(seeds)))
    pieces = st.sampled_from(_NUMBERS + tokens) | st.binary(min_size=1, max_size=8)
    for _ in range(draw(st.integers(1, 6))):
        # Headers lie in front, and trailers at the end.
        near = min(len(data), draw(st.sampled_from((32, 256, max(len(data), 1)))))
        place = draw(st.integers(0, near))
        place = len(data) - place if draw(st.booleans()) and draw(st.booleans()) else place
        kind = draw(st.sampled_from(("over", "out", "in", "double", "cut")))
        if kind == "over":
            piece = draw(pieces)
            data[place : place + len(piece)] = piece
        elif kind == "out":
            del data[place : place + draw(st.integers(1, 64))]
        elif kind == "in":
            data[place:place] = draw(pieces)
        elif kind == "double":
            data[place:place] = data[place : place + draw(st.integers(1, 64))]
        elif draw(st.integers(0, 9)) == 0:
            del data[place:]
    return bytes(data)
