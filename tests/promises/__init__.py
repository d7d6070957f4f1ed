"""What the pages below docs/extending promise, done from their own text, by a package that nobody edited."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "extending"


def blocks(page: str, language: str) -> list[str]:
    """What stands in the blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (PAGES / f"{page}.md").read_text(), re.MULTILINE | re.DOTALL)


def plugin(page: str, folder: Path) -> Path:
    """Write the file that a page tells to write: its first block of Python, under the name that stands before it."""
    before, _, _ = (PAGES / f"{page}.md").read_text().partition("```python\n")
    names = re.findall(r"`(\w+\.py)`", before)
    assert names, f"{page} names no file before its block of Python"
    path = folder / names[-1]
    path.write_text(blocks(page, "python")[0])
    return path


def commands(page: str, start: str) -> list[list[str]]:
    """The commands of a page that start so, each as the arguments of a Python interpreter."""
    lines = [line.partition("  #")[0] for block in blocks(page, "sh") for line in block.splitlines()]
    found = [shlex.split(line) for line in lines if line.startswith(start)]
    assert found, f"{page} has no command that starts with {start!r}"
    return [["-m", *words] if words[0] == "xcnorm" else words[1:] for words in found]


def scanners(folder: Path) -> tuple[str, tuple[str, ...]]:
    """The small benchmark of the page on benchmarks, its data written to a folder: its plugin, and the options of a
    training on it that takes a moment."""
    path = plugin("benchmark", folder)
    run("-c", blocks("benchmark", "python")[1], plugin=path)
    changes = ("--benchmark", "two-scanners", "--data", str(folder), "--recipe", "fast", "--set", "schedule.epochs=1")
    return str(path), changes


def run(*arguments: str, plugin: Path, folder: Path | None = None, **environment: str) -> str:
    """What a fresh interpreter prints, given arguments such as ``-c PROGRAM`` or ``-m xcnorm ...``, and the plugin."""
    result = subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"XCNORM_PLUGINS": str(plugin)} | environment,
        cwd=folder or plugin.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr
