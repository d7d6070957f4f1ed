"""What the pages below docs/extending promise, done from their own text, by a package that nobody edited."""

import os
import re
import subprocess
import sys
from pathlib import Path

PAGES = Path(__file__).parents[2] / "docs" / "extending"


def plugin(page: str, folder: Path) -> Path:
    """Write the file that a page tells to write: its first block of Python, under the name that stands before it."""
    text = (PAGES / f"{page}.md").read_text()
    before, _, rest = text.partition("```python\n")
    code, closed, _ = rest.partition("```\n")
    names = re.findall(r"`(\w+\.py)`", before)
    assert closed, f"{page} has no block of Python"
    assert names, f"{page} names no file before its block of Python"
    path = folder / names[-1]
    path.write_text(code)
    return path


def run(*arguments: str, plugin: Path, **environment: str) -> str:
    """What a fresh interpreter prints, given arguments such as ``-c PROGRAM`` or ``-m xcnorm ...``, and the plugin."""
    result = subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"XCNORM_PLUGINS": str(plugin)} | environment,
        cwd=plugin.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr
