"""The log of a run for TensorBoard (the extra ``tensorboard``)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xcnorm.extras import needed


class TensorBoard:
    """Writes the numbers of log lines where TensorBoard finds them.

    Args:
        folder: Of the run; events go into ``tensorboard`` below it.

    Raises:
        UserError: The package tensorboard is not installed.
    """

    def __init__(self, folder: Path) -> None:
        with needed("logs for TensorBoard", "tensorboard"):
            from torch.utils.tensorboard import SummaryWriter
        self._writer = SummaryWriter(str(folder / "tensorboard"))

    def log(self, line: Mapping[str, Any]) -> None:
        """Write one line of the log."""
        for name, value in line.items():
            if name not in ("step", "epoch", "seconds"):
                self._writer.add_scalar(name, value, line["step"])
        self._writer.flush()
