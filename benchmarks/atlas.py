"""The atlas of corruptions: every one at every severity, on one photograph.

    python -m benchmarks.atlas --out docs/corruptions.jpg

The picture is a piece of scikit-learn's sample photographs at 224 pixels, with the constants of ImageNet-C and
procedural frost.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
import torch

from xcnorm.data import corruptions, photographs
from xcnorm.data.grid import SEVERITIES

PIXELS = 224


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/corruptions.jpg"))
    arguments = parser.parse_args()
    mpl.use("Agg")
    from matplotlib import pyplot

    flower = photographs()[1]
    clean = flower[None, :, 90 : 90 + PIXELS, 180 : 180 + PIXELS]
    names = corruptions.names()
    figure, axes = pyplot.subplots(
        len(names), len(SEVERITIES) + 1, figsize=(1.25 * (len(SEVERITIES) + 1) + 1.2, 1.25 * len(names))
    )
    for row, name in zip(axes, names, strict=True):
        shown = [clean] + [corruptions.corrupt(clean, name, severity) for severity in SEVERITIES]
        for axis, image in zip(row, torch.cat(shown), strict=True):
            axis.imshow(image.permute(1, 2, 0).numpy(), interpolation="antialiased")
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set_visible(False)
        row[0].set_ylabel(name.replace("_", "\n"), rotation=0, ha="right", va="center", fontsize=9, labelpad=6)
    for axis, title in zip(axes[0], ("clean", *map(str, SEVERITIES)), strict=True):
        axis.set_title(title, fontsize=9)
    figure.subplots_adjust(left=0.125, right=0.998, bottom=0.002, top=0.985, wspace=0.03, hspace=0.03)
    figure.savefig(arguments.out, dpi=110, pil_kwargs={"quality": 85})


if __name__ == "__main__":
    main()
