"""Our corruptions beside the published recipe, as somebody else has packaged it.

    pip install --no-deps imagecorruptions-imaug
    pip install scikit-image numba opencv-python-headless
    python -m benchmarks.originals --out benchmarks/results/originals.json --picture docs/originals.jpg

Both corrupt the same pieces of scikit-learn's sample photographs, at 224 pixels with the constants of ImageNet-C and
the package's own pictures of frost. Where nothing is random they are compared level by level; everywhere by what a
picture's levels are on average, how far they spread, how much neighbours differ, and how far they are from the clean
picture.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from xcnorm.data import corruptions, photographs
from xcnorm.data.corruptions.corruption import CORRUPTIONS, draw_nothing
from xcnorm.data.grid import SEVERITIES
from xcnorm.environment import environment

PIXELS = 224
REPEATS = 6  # of each picture, with other random numbers
FROST = ("frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg")

Pictures = NDArray[np.uint8]


class Measured(NamedTuple):
    """Of corrupted pictures, in levels from 0 to 255.

    Attributes:
        level: Their mean.
        spread: Their standard deviation, over all positions and colours.
        detail: The root of the mean square of differences between neighbours.
        distance: The root of the mean square of differences from the clean picture.
    """

    level: float
    spread: float
    detail: float
    distance: float


def pieces() -> Tensor:
    """Pieces of two photographs, ``(4, 3, 224, 224)``, uint8."""
    corners = ((90, 180), (150, 350))
    found = [photo[:, top : top + PIXELS, left : left + PIXELS] for photo in photographs() for top, left in corners]
    return torch.stack(found)


def ours(clean: Tensor, name: str, severity: int) -> Pictures:
    """Pictures as ours corrupts them, ``(N, H, W, 3)``."""
    frost = frost_pictures() if name == "frost" else None
    done = corruptions.corrupt(clean, name, severity, constants="imagenet", frost=frost)
    return done.permute(0, 2, 3, 1).contiguous().numpy()


def theirs(clean: Tensor, name: str, severity: int) -> Pictures:
    """The same as the package does it, which draws from numpy's global generator."""
    import imagecorruptions

    state = np.random.get_state()
    np.random.seed(0)
    try:
        images = clean.permute(0, 2, 3, 1).contiguous().numpy()
        done = [imagecorruptions.corrupt(image, severity=severity, corruption_name=name) for image in images]
    finally:
        np.random.set_state(state)
    return np.stack(done).astype(np.uint8)


def frost_pictures() -> tuple[Tensor, ...]:
    """The pictures of frost that the package brings, as those that we are given."""
    import imagecorruptions

    folder = Path(imagecorruptions.__file__).parent / "frost"
    opened = (np.asarray(Image.open(folder / name).convert("RGB")) for name in FROST)
    return tuple(torch.from_numpy(picture.copy()).permute(2, 0, 1) for picture in opened)


def measure(done: Pictures, clean: Pictures) -> Measured:
    """Describe corrupted pictures."""
    values, before = done.astype(np.float64), clean.astype(np.float64)
    steps = [np.diff(values, axis=axis) for axis in (1, 2)]
    detail = np.sqrt(np.mean([np.square(step).mean() for step in steps]))
    distance = np.sqrt(np.square(values - before).mean())
    return Measured(*(round(float(number), 3) for number in (values.mean(), values.std(), detail, distance)))


def compare(
    names: Iterable[str], severities: Iterable[int] = SEVERITIES, repeats: int = REPEATS
) -> list[dict[str, Any]]:
    """Both implementations, side by side.

    Returns:
        For each corruption and severity ``ours`` and ``theirs``, as in `Measured`, and where nothing is random
        ``off``: the mean absolute difference of levels.
    """
    clean, rows = pieces().repeat(repeats, 1, 1, 1), []
    before = clean.permute(0, 2, 3, 1).numpy()
    for name in names:
        for severity in severities:
            sides = {"ours": ours(clean, name, severity), "theirs": theirs(clean, name, severity)}
            row: dict[str, Any] = {"corruption": name, "severity": severity}
            row |= {side: measure(done, before)._asdict() for side, done in sides.items()}
            if CORRUPTIONS[name].draw is draw_nothing:
                off = np.abs(sides["ours"].astype(int) - sides["theirs"].astype(int))
                row["off"] = round(float(off.mean()), 3)
            rows.append(row)
    return rows


def table(rows: Iterable[Mapping[str, Any]]) -> str:
    """The largest differences over the severities, in Markdown."""
    lines = [
        "| corruption | level | spread | detail | distance from clean | level by level |",
        "|---|---|---|---|---|---|",
    ]
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["corruption"], []).append(row)
    for name, each in found.items():
        cells = [f"{each[2]['ours'][field]:.1f} / {each[2]['theirs'][field]:.1f}" for field in Measured._fields]
        off = f"{max(row['off'] for row in each):.2f}" if "off" in each[0] else "random"
        lines.append(f"| {name.replace('_', ' ')} | {' | '.join(cells)} | {off} |")
    return "\n".join(lines) + "\n"


def draw(path: Path) -> None:
    """A picture of both, side by side, at severities 1, 3 and 5."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    clean, names, severities = pieces()[2:3], corruptions.published(), (1, 3, 5)
    figure, axes = pyplot.subplots(len(names), 6, figsize=(8.9, 1.25 * len(names)))
    for row, name in zip(axes, names, strict=True):
        shown = [side(clean, name, severity)[0] for severity in severities for side in (ours, theirs)]
        for axis, image in zip(row, shown, strict=True):
            axis.imshow(image, interpolation="antialiased")
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set_visible(False)
        row[0].set_ylabel(name.replace("_", "\n"), rotation=0, ha="right", va="center", fontsize=9, labelpad=6)
    for axis, title in zip(axes[0], [f"{side}, {s}" for s in severities for side in ("ours", "theirs")], strict=True):
        axis.set_title(title, fontsize=9)
    figure.subplots_adjust(left=0.125, right=0.998, bottom=0.002, top=0.985, wspace=0.03, hspace=0.03)
    figure.savefig(path, dpi=95, pil_kwargs={"quality": 70})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--picture", type=Path, help="picture to draw")
    arguments = parser.parse_args()
    rows = compare(corruptions.published())
    if arguments.out is not None:
        lines = ",\n ".join(map(json.dumps, rows))
        arguments.out.write_text(f'{{"environment": {json.dumps(environment("cpu"))}, "rows": [\n {lines}\n]}}\n')
    if arguments.picture is not None:
        draw(arguments.picture)
    print(table(rows))


if __name__ == "__main__":
    main()
