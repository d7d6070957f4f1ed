"""Places on pages for what is written by programs: between ``<!-- WHAT -->`` and ``<!-- end WHAT -->``."""

from __future__ import annotations

from pathlib import Path

from xcnorm.errors import UserError


def fill(page: Path, section: str, what: str) -> None:
    """Write a section into its place on a page.

    Args:
        page: The page.
        section: What its place holds from now on.
        what: The name of the place.

    Raises:
        UserError: The page has no such place.
    """
    text, begin, end = page.read_text(encoding="utf-8"), f"<!-- {what} -->", f"<!-- end {what} -->"
    if begin not in text or end not in text:
        raise UserError(f"{page} has no place for {what}: {begin} and {end}")
    before, rest = text.split(begin)
    after = rest.split(end)[1]
    page.write_text(f"{before}{begin}\n\n{section}\n\n{end}{after}", encoding="utf-8")
