"""The order in which images are learned from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from xcnorm.errors import UserError


class Sampler(Iterator[Tensor]):
    """Batches of indices without end: epoch after epoch, each in an order of its own.

    The order of an epoch depends on the seed and the epoch's number alone, and the position is two numbers, so a run
    that stops can go on with exactly the batches that it had before it. Several processes with one seed draw the same
    batches, and each takes its own part of them.

    What is left of an epoch when it no longer fills a batch is dropped; the next epoch leaves out other images.

    Args:
        length: Number of images.
        batch: Number of images in a batch.
        seed: The user's seed.

    Raises:
        UserError: A number is out of its range, or there are fewer images than one batch takes.

    Example:
        >>> sampler = Sampler(10, 4)
        >>> next(sampler).shape
        torch.Size([4])
        >>> sampler.state_dict()
        {'epoch': 0, 'step': 1, 'length': 10, 'seed': 0, 'global_batch': 4}
    """

    def __init__(self, length: int, batch: int, *, seed: int = 0) -> None:
        if batch < 1:
            raise UserError(f"batch must be 1 or more, not {batch}")
        if length < batch:
            raise UserError(f"{length} images do not fill one batch of {batch}; make the batch smaller")
        self._length, self._batch, self._seed = length, batch, seed
        self._epoch = self._step = 0  # of the batch that comes next
        self._shuffled = -1  # the epoch whose order is kept
        self._order = torch.empty(0, dtype=torch.int64)

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches in an epoch."""
        return self._length // self._batch

    @property
    def length(self) -> int:
        """Number of images."""
        return self._length

    @property
    def epoch(self) -> int:
        """The epoch, from 0, of the batch that comes next."""
        return self._epoch

    @property
    def step(self) -> int:
        """The number, from 0, of the batch that comes next, within its epoch."""
        return self._step

    def resize(self, length: int) -> None:
        """Go on with another number of images, in a new epoch if one has begun."""
        if length != self._length:
            self._length, self._shuffled = length, -1
            self._epoch, self._step = self._epoch + (self._step > 0), 0

    def __next__(self) -> Tensor:
        if self._shuffled != self._epoch:
            self._order, self._shuffled = _permutation(self._length, self._seed, self._epoch), self._epoch
        start = self._step * self._batch
        self._step += 1
        if self._step == self.steps_per_epoch:
            self._epoch, self._step = self._epoch + 1, 0
        # A copy, so that a batch does not keep the order of a large set alive, nor lets its holder change it.
        return self._order[start : start + self._batch].clone()

    def state_dict(self) -> dict[str, int]:
        """Where the sampler stands, and what must be the same for that to mean anything."""
        return {"epoch": self.epoch, "step": self.step, **self._identity()}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on from where a `state_dict` was taken.

        Raises:
            UserError: The state is not of such a sampler: other images, another seed or another batch.
        """
        for name, value in self._identity().items():
            if state.get(name) != value:
                raise UserError(
                    f"the sampler's saved state has {name}={state.get(name)}, but this run has {name}={value}; "
                    "resume with the settings that the run was started with"
                )
        epoch, step = state.get("epoch", -1), state.get("step", -1)
        if epoch < 0 or not 0 <= step < self.steps_per_epoch:
            raise UserError(f"the sampler's saved state has no valid position: {dict(state)}; use another checkpoint")
        self._epoch, self._step = epoch, step

    def _identity(self) -> dict[str, int]:
        return {"length": self._length, "seed": self._seed, "global_batch": self._batch}


def _permutation(length: int, seed: int, epoch: int) -> Tensor:
    # Hashed, because neighbouring numbers are poor seeds, and so that no two pairs of seed and epoch go together.
    digest = hashlib.sha256(f"{seed}\0{epoch}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little"))
    return torch.randperm(length, generator=generator)
