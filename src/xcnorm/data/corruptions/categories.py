"""Categories: the groups of corruptions in tables. Published numbers differ in this, so each grouping has a name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from xcnorm.data.corruptions.corruption import CORRUPTIONS, names, published, standard


class _Groups(Mapping[str, tuple[str, ...]]):
    """The corruptions of each category, read from the corruptions themselves when they are asked for.

    Args:
        order: The categories, as tables have them.
        members: Which corruptions are grouped.
        **moved: Further ones, or those that count in another category than their own.
    """

    def __init__(self, order: str, members: Callable[[], tuple[str, ...]] = standard, **moved: str) -> None:
        self._order, self._members, self._moved = order.split(), members, moved

    def _groups(self) -> dict[str, list[str]]:
        groups: dict[str, list[str]] = {category: [] for category in self._order}
        chosen = {*self._members(), *self._moved}
        for name in names():
            if name in chosen:
                groups.setdefault(self._moved.get(name, CORRUPTIONS[name].category), []).append(name)
        return groups

    def __getitem__(self, category: str) -> tuple[str, ...]:
        return tuple(self._groups()[category])

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups())

    def __len__(self) -> int:
        return len(self._groups())


CATEGORIES: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        # The tables of single domain generalization: brightness and contrast count as digital.
        "sdg4": _Groups("weather blur noise digital", brightness="digital"),
        # The benchmark as first published: brightness counts as weather.
        "hendrycks4": _Groups("noise blur weather digital"),
        # With the four that were held out for validation; the curves over severities use these.
        "all19": _Groups("weather blur noise digital", published, brightness="digital"),
        # The robustness score's five; who belongs to the last two is our reading, the paper does not say.
        "mrs5": _Groups(
            "weather blur noise digital chromatic",
            brightness="chromatic",
            contrast="chromatic",
            saturate="chromatic",
        ),
        # All that there are, plugins' too, each in its own category.
        "all": _Groups("noise blur weather digital", names),
    }
)
"""Category maps by name; each maps a category to its corruptions."""
