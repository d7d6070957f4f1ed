"""What a run logs, for TensorBoard (the extra ``tensorboard``)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xcnorm.errors import UserError


class TensorBoard:
    """Writes the numbers of log lines where TensorBoard finds them.

    Args:
        folder: Of the run; events go into ``tensorboard`` below it.

    Raises:
        UserError: The package tensorboard is not installed.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            remedy = 'install it with: pip install "xcnorm[tensorboard]"'
            raise UserError(f"logging for TensorBoard needs a package that is missing; {remedy}") from error
        self._writer = SummaryWriter(str(folder / "tensorboard"))

    def log(self, line: Mapping[str, Any]) -> None:
        """Write one line of the log."""
        for name, value in line.items():
            if name not in ("step", "epoch", "seconds"):
                self._writer.add_scalar(name, value, line["step"])
        self._writer.flush()
