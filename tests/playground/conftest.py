"""Two small networks, one plain and one of R-XCNorm layers, trained on a few digits whose names mean harm."""

import shutil
from pathlib import Path

import pytest
from PIL import Image

from tests.engine import small
from xcnorm.data import mnist5k
from xcnorm.data.synthesis import invert
from xcnorm.data.transforms import resize
from xcnorm.engine import run_experiment
from xcnorm.playground import open_playground

PIXELS = 16
CLASSES = ("0", "1", "<img src=x onerror=alert(1)>")
TARGET = "<b onclick=alert(2)>inverted"
LABELS = {"conv": "<script>alert(3)</script>plain", "r_xcnorm": "R-XCNorm\x1b[2J"}


def write_digits(root: Path) -> None:
    """The digits 0, 1 and 2 as picture files, and their negatives."""
    every = mnist5k()
    for label, name in enumerate(CLASSES):
        digits = resize(every.images[every.labels == label][:80], PIXELS)
        for domain, images in (("digits", digits), (TARGET, invert(digits[:8]))):
            folder = root / domain / name
            folder.mkdir(parents=True)
            for number, image in enumerate(images):
                Image.fromarray(image[0].numpy()).save(folder / f"{number:02}.png")


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """The folder that holds the runs; the data is in the folder beside it."""
    root = tmp_path_factory.mktemp("playground")
    write_digits(root / "data")
    for layer, label in LABELS.items():
        experiment = small.experiment(
            benchmark="folder",
            benchmark_options__source="digits",
            benchmark_options__pixels=PIXELS,
            model__name="digits_cnn",
            model__layer=layer,
            schedule__iterations=30,
            schedule__batch=32,
            optimiser__learning_rate=2e-3,
            label=label,
        )
        run_experiment(experiment, root / "runs", small.ALONE, data=root / "data")
    yield root / "runs"
    shutil.rmtree(root)


@pytest.fixture(scope="session")
def playground(runs):
    return open_playground([runs], runs.parent / "data")
