"""Features rebuilt from the words of a dictionary, which is learned by regression while the network trains.

A feature vector of a new domain may point anywhere; what is rebuilt from words of the source cannot.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xcnorm.ops.spec import full_precision

_SWEEPS = 5  # steps towards the regression's solution in a batch; the next batch goes on from there
_DEAD = 0.01  # a word with less than this share of the mean word's energy is replaced
_TINY = 1e-12


class Dictionary(nn.Module):
    """Rebuild the vector of channels at every position from the few words that it resembles most.

    Addressing chooses, for a feature z, the ``chosen`` words with the highest cosine similarity to it. Composition puts
    their best combination, a ridge regression, in the place of z::

        b = argmin |z - M' b|^2 + ridge * sum_i b_i^2 / (chosen * a_i),    output = M' b

    M has the chosen words, of unit length, as rows; a is the softmax of their similarities over ``temperature``, so
    that a word less alike is held back more (with equal a this is plain ridge regression). Given the choice, this is a
    fixed linear map of z. The gradient goes through that map, and not through choice and weights.

    The dictionary learns in training mode alone, without gradients: from the codes b of unit-length features z, it
    keeps moving averages of ``b b'`` and ``b z'`` and solves the regression of z on b by steps that cannot increase its
    error, some for every batch. The first words are features of the first batch. Later ones that are hardly used are
    replaced by features that were rebuilt worst.

    Args:
        channels: Number of channels.
        words: Number of words.
        chosen: How many of them a feature is rebuilt from.
        temperature: Of the weights that similarities give; a large one makes all chosen words equal.
        ridge: How strongly codes are held back. Features are scaled to unit length for it, in effect.
        momentum: Weight of the newest batch in the moving averages.
        share: How much of a feature is replaced by what was rebuilt; at 1 all of it.
        device: Where the buffers live.
        dtype: Their type.

    Attributes:
        words: ``(words, channels)``, of unit length.
        code_moment: ``(words, words)``, the moving average of ``b b'``; its diagonal is what each word is used.
        cross_moment: ``(words, channels)``, the moving average of ``b z'``.

    Shapes:
        ``(N, C, *positions)`` to the same shape.

    Example:
        >>> layer = Dictionary(16, words=32, chosen=4)
        >>> layer(torch.rand(2, 16, 8, 8)).shape
        torch.Size([2, 16, 8, 8])
    """

    words: Tensor
    code_moment: Tensor
    cross_moment: Tensor
    num_batches_tracked: Tensor

    def __init__(
        self,
        channels: int,
        *,
        words: int = 128,
        chosen: int = 16,
        temperature: float = 0.1,
        ridge: float = 0.01,
        momentum: float = 0.01,
        share: float = 1.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if not 1 <= chosen <= words:
            raise ValueError(f"chosen must be between 1 and words={words}, got {chosen}")
        for argument, value in (("temperature", temperature), ("ridge", ridge)):
            if not 0 < value < math.inf:
                raise ValueError(f"{argument} must be positive, got {value}")
        if not 0 < momentum <= 1:
            raise ValueError(f"momentum must be above 0 and at most 1, got {momentum}")
        if not 0 <= share <= 1:
            raise ValueError(f"share must be between 0 and 1, got {share}")
        self.chosen = chosen
        self.temperature, self.ridge = temperature, ridge
        self.momentum, self.share = momentum, share
        for name, shape in (
            ("words", (words, channels)),
            ("code_moment", (words, words)),
            ("cross_moment", (words, channels)),
        ):
            self.register_buffer(name, torch.empty(shape, device=device, dtype=dtype))
        self.register_buffer("num_batches_tracked", torch.zeros((), dtype=torch.int64, device=device))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Random words, which the first batch replaces."""
        nn.init.normal_(self.words)
        self.words.div_(_lengths(self.words))
        for sums in (self.code_moment, self.cross_moment, self.num_batches_tracked):
            nn.init.zeros_(sums)

    def forward(self, input: Tensor) -> Tensor:
        """Rebuild features; in training mode, learn from them."""
        dtype = torch.float64 if input.dtype == torch.float64 else torch.float32
        with full_precision(input.device):
            features = input.movedim(1, -1)
            shape, features = features.shape, features.reshape(-1, input.shape[1]).to(dtype)
            words = self.words.to(dtype, copy=True)  # a copy: the buffer moves on while this waits for its backward
            code = self.encode(features, words)
            rebuilt = code @ words
            if self.training:
                self._learn(features.detach(), code.detach(), rebuilt.detach())
            mixed = rebuilt if self.share == 1 else torch.lerp(features, rebuilt, self.share)
            return mixed.view(shape).movedim(-1, 1).to(input.dtype)

    def encode(self, features: Tensor, words: Tensor) -> Tensor:
        """Features ``(P, channels)`` to their codes ``(P, words)``, zero for words that were not chosen."""
        products = features @ words.t()
        with torch.no_grad():
            best, place = products.topk(self.chosen, 1, sorted=False)
            weight = (best / (_lengths(features) * self.temperature)).softmax(1).clamp_min(_TINY)
            # Positions last: each step of the elimination is then one operation on long rows.
            place_t = place.t()
            matrix = (words @ words.t()).take(place_t[:, None] * len(words) + place_t)
            matrix.diagonal().add_((self.ridge / self.chosen) / weight)
            inverse = invert_(matrix)
        chosen = (inverse * products.gather(1, place).t()).sum(1)
        return torch.zeros_like(products).scatter(1, place, chosen.t())

    def _learn(self, features: Tensor, code: Tensor, rebuilt: Tensor) -> None:
        length = _lengths(features)
        code, target = code / length, features / length
        sums = code.t() @ torch.cat([code, target], 1)
        sums, count, seeds = self._pool(sums, features, rebuilt)
        moment, cross = (sums / count).split([len(self.words), features.shape[1]], 1)
        self._follow(moment, cross, seeds, count > 0)

    def _pool(self, sums: Tensor, features: Tensor, rebuilt: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Sums over the batch's features, the number of these, and what `worst_rebuilt` finds in them."""
        return sums, sums.new_full((), len(features)), worst_rebuilt(features, rebuilt, len(self.words))

    def _follow(self, moment: Tensor, cross: Tensor, seeds: Tensor, nonempty: Tensor) -> None:
        """Move averages and words on by a batch's means of ``b b'`` and ``b z'``, and replace words that are dead.

        Nothing changes unless ``nonempty`` says that the batch has features.
        """
        moment = torch.lerp(self.code_moment.to(moment.dtype), moment, self.momentum)
        cross = torch.lerp(self.cross_moment.to(cross.dtype), cross, self.momentum)
        words = regress(self.words.to(cross.dtype), moment, cross)
        # In units of words of unit length again.
        length = _lengths(words)
        words, moment, cross = words / length, moment * length * length.t(), cross * length
        energy = moment.diagonal()
        mean = energy.mean()
        dead = (energy < _DEAD * mean) | (self.num_batches_tracked == 0)
        place = energy.argsort()[: len(seeds)]  # the least used word is replaced by the feature with the largest error
        seeds = seeds[seeds[:, -1].argsort(descending=True), :-1]
        size = _lengths(seeds)
        replace = (dead[place] & (size[:, 0] > _TINY))[:, None]
        fresh = torch.where(replace, seeds / size, words[place])
        words = words.index_copy(0, place, fresh)
        # A new word starts as if it had explained itself as often as the mean word.
        keep = torch.ones_like(energy).index_copy(0, place, (~replace[:, 0]).to(energy.dtype))
        moment = moment * keep * keep[:, None]
        moment.diagonal().add_((1 - keep) * mean)
        cross = torch.where(keep[:, None] == 1, cross, mean * words)
        for buffer, new in ((self.words, words), (self.code_moment, moment), (self.cross_moment, cross)):
            buffer.copy_(torch.where(nonempty, new, buffer))
        self.num_batches_tracked.add_(nonempty)


class Rebuilt(nn.Module):
    """A layer whose output is rebuilt from a dictionary.

    Args:
        layer: The layer.
        dictionary: For as many channels as it puts out.
    """

    def __init__(self, layer: nn.Module, dictionary: Dictionary) -> None:
        super().__init__()
        self.layer = layer
        self.dictionary = dictionary

    def forward(self, input: Tensor) -> Tensor:
        """What the dictionary makes of what the layer does."""
        rebuilt: Tensor = self.dictionary(self.layer(input))
        return rebuilt


def regress(words: Tensor, moment: Tensor, cross: Tensor, sweeps: int = _SWEEPS) -> Tensor:
    """Words nearer to the solution M of ``moment M = cross``, the regression of features on codes.

    Each sweep minimises a separable bound on the squared error, so that it cannot increase.
    """
    bound = moment.abs().sum(1, keepdim=True)
    step = 1 / bound.clamp_min(_TINY)
    for _ in range(sweeps):
        words = torch.addcmul(words, cross - moment @ words, step)
    return words


def invert_(matrix: Tensor) -> Tensor:
    """The inverses of symmetric positive definite matrices ``(k, k, P)``, in their place.

    Gauss and Jordan's elimination needs no pivoting for these, and no library that might not run everywhere; for many
    small matrices it is faster than one.
    """
    size = len(matrix)
    identity = torch.eye(size, dtype=matrix.dtype, device=matrix.device)[..., None]
    for step in range(size):
        column = matrix[:, step].clone()
        matrix[:, step] = identity[step]
        row = matrix[step] / column[step]
        column[step] -= 1
        matrix.addcmul_(column[:, None], row, value=-1)
    return matrix


def worst_rebuilt(features: Tensor, rebuilt: Tensor, count: int) -> Tensor:
    """In each of so many parts of the batch, the feature with the largest error, and that error as one more channel.

    Where there are fewer features than that, the rest is zeros.
    """
    parts = min(count, len(features))
    if not parts:
        return features.new_zeros(count, features.shape[1] + 1)
    each = len(features) // parts
    errors = (features - rebuilt).square_().sum(1, keepdim=True)
    first = torch.arange(0, parts * each, each, device=features.device)
    worst = errors[: parts * each].view(parts, each).argmax(1) + first
    return F.pad(torch.cat([features, errors], 1)[worst], (0, 0, 0, count - parts))


def _lengths(vectors: Tensor) -> Tensor:
    return vectors.norm(dim=1, keepdim=True).clamp_min(_TINY)
