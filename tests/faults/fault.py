"""Faults by name: how each is brought about, and the tally of what came of it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.scene import Scene

Inject = Callable[[Scene, Path, random.Random], "Injected | None"]
"""Brings a fault about in a new folder and checks what came of it; None if it came too late to matter."""


@dataclass(frozen=True)
class Injected:
    """What one fault did.

    Attributes:
        said: What the user read; nothing where nobody was left to say anything.
        lost: The training steps that had to be done again.
    """

    said: str = ""
    lost: int = 0


@dataclass(frozen=True)
class Fault:
    """A way for things to go wrong.

    Attributes:
        name: In words.
        inject: Brings it about.
        share: Which part of the rounds it gets: what starts many processes takes long.
        long: Whether it is left to the long form.
    """

    name: str
    inject: Inject
    share: float = 1.0
    long: bool = False


@dataclass
class Tally:
    """What came of a fault over many rounds."""

    fault: Fault
    injected: int = 0
    lost: int = 0
    failures: list[str] = field(default_factory=list)
    said: str = ""

    def add(self, scene: Scene, out: Path, seed: str) -> None:
        """Another round."""
        try:
            found = self.fault.inject(scene, out, random.Random(seed))
        except AssertionError as error:
            self.injected += 1
            self.failures.append(f"{seed}: {error}")
            return
        if found is not None:
            self.injected += 1
            self.lost = max(self.lost, found.lost)
            self.said = self.said or found.said

    def take(self, row: Mapping[str, Any]) -> None:
        """Go on from an earlier row."""
        self.injected, self.lost = row["times injected"], row["steps done again, at most"]
        self.said = row["what it says"]
        self.failures = ["in an earlier run"] * (row["times injected"] - row["recovered"])

    def row(self) -> dict[str, Any]:
        """For the table."""
        said = re.sub(r"(/[^\s:;,]+)+/", "…/", self.said.removeprefix("xcnorm: "))
        return {
            "fault": self.fault.name,
            "times injected": self.injected,
            "recovered": self.injected - len(self.failures),
            "steps done again, at most": self.lost,
            "what it says": said,
        }


FAULTS: dict[str, Fault] = {}


def fault(name: str, **options: Any) -> Callable[[Inject], Inject]:
    """Register a fault."""

    def register(inject: Inject) -> Inject:
        FAULTS[name] = Fault(name, inject, **options)
        return inject

    return register


def expect(pattern: str, said: str) -> None:
    """Fail unless a line says what happened."""
    assert re.search(pattern, said), f"expected {pattern!r}, said {said!r}"
