"""How the work on maps is shared out to programs."""

from __future__ import annotations

from typing import NamedTuple

import triton
from torch import Tensor

_POOL = 32768  # bytes of a map in a tile that holds a pool, at most
PART = 8192  # values of a tile that does not, at most; twice as many where it is worked on in strips
_STRIP = 2048  # values of a strip at most, with four warps
_SECTOR = 32  # bytes of a tile's row at least: memory is read in such portions
_WIDE = 64  # channels of a tile at most
_LOW = 64  # rows of a tile at least, unless it holds a pool: its sums take little room beside it
_PROGRAMS = 512  # at least, as far as these bounds allow
_REGISTERS = 128  # of a thread at most: room for two programs of eight warps on a multiprocessor


def each(tau: Tensor | None) -> bool:
    """Whether every channel has an exponent of its own."""
    return tau is not None and tau.numel() > 1


class Plan(NamedTuple):
    """How the work falls to programs.

    Attributes:
        pools: That have statistics of their own.
        rows: Of a pool.
        channels: Of a row.
        groups: Of channels.
        tile: Rows of a tile.
        columns: Channels of a tile.
        statistics: Whence: each program's ``"own"`` tile, tiles that are ``"parts"``, ``"given"`` or ``"none"``.
    """

    pools: int
    rows: int
    channels: int
    groups: int
    tile: int
    columns: int
    statistics: str

    @property
    def parts(self) -> int:
        """Tiles that a pool is as high as."""
        return triton.cdiv(self.rows, self.tile)

    @property
    def walks(self) -> int:
        """Tiles that all pools are as high as."""
        return self.pools * self.parts

    @property
    def blocks(self) -> int:
        """Tiles that a group is as wide as."""
        return triton.cdiv(self.channels // self.groups, self.columns)

    @property
    def grid(self) -> tuple[int]:
        """Neighbouring programs have the same rows: they share lines of the cache."""
        return (self.walks * self.groups * self.blocks,)

    @property
    def sizes(self) -> tuple[int, ...]:
        """What every kernel finds its place by."""
        return self.rows, self.parts, self.channels, self.groups, self.channels // self.groups

    @property
    def warps(self) -> int:
        """Of a program."""
        return 8 if self.tile * self.columns > 4096 else 4

    @property
    def tiling(self) -> dict[str, int]:
        """Constants of every kernel."""
        return {"TILE": self.tile, "COLUMNS": self.columns, "num_warps": self.warps, "maxnreg": _REGISTERS}

    @property
    def strip(self) -> int:
        """Rows of a tile that the kernels of the gradient compute with at a time."""
        return min(self.tile, max(1, _STRIP * self.warps // 4 // self.columns))


def make_plan(v: Tensor, norm: Tensor, statistics: str, size: int, part: int) -> Plan:
    """Share the work out, for maps whose values have so many bytes, in parts of so many values at most."""
    images, positions, channels = v.shape
    groups = norm.shape[2]
    pools, rows = (images, positions) if statistics == "instance" else (1, images * positions)
    tile = triton.next_power_of_2(rows)
    columns = min(_WIDE, triton.next_power_of_2(channels // groups))
    narrow = _SECTOR // size
    measured = statistics in ("batch", "instance")
    if measured and tile * _SECTOR <= _POOL:
        plan = Plan(pools, rows, channels, groups, tile, min(columns, _POOL // size // tile), "own")
        while plan.columns > narrow and plan.grid[0] < _PROGRAMS:
            plan = plan._replace(columns=plan.columns // 2)
        return plan
    tile = min(tile, part // max(columns, narrow))
    plan = Plan(pools, rows, channels, groups, tile, columns, "parts" if measured else statistics)
    while plan.tile > _LOW and plan.grid[0] < _PROGRAMS:
        plan = plan._replace(tile=plan.tile // 2)
    return plan
