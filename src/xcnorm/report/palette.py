"""Palettes: colours for light and dark pages that people with any colour vision can tell apart, after Okabe and Ito."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Palette:
    """The colours of a page.

    Attributes:
        page: Its background.
        ink: Text.
        faint: Grid lines.
        series: Curves and bars, in order; they start over when there are more.
        right: What is right.
        wrong: What is wrong.
    """

    page: str
    ink: str
    faint: str
    series: tuple[str, ...]
    right: str
    wrong: str

    def colour(self, number: int) -> str:
        """The colour of a series."""
        return self.series[number % len(self.series)]

    @property
    def variables(self) -> dict[str, str]:
        """The colours of what stands on the page, by the names of CSS variables."""
        series = {f"--s{number}": colour for number, colour in enumerate(self.series)}
        return {"--ink": self.ink, "--faint": self.faint, "--right": self.right, "--wrong": self.wrong, **series}


LIGHT = Palette(
    page="#ffffff",
    ink="#1f2328",
    faint="#dfe3e8",
    series=("#0072b2", "#d55e00", "#009e73", "#aa4499", "#e69f00", "#56b4e9", "#6b7280", "#882255"),
    right="#00664b",
    wrong="#b34700",
)
DARK = Palette(
    page="#15181d",
    ink="#e6e8eb",
    faint="#333a44",
    series=("#4da8e6", "#ff8f52", "#2fcb9f", "#dd8fd0", "#f3c14f", "#9ad8f8", "#a8b0bb", "#e0709f"),
    right="#2fcb9f",
    wrong="#ff8f52",
)
