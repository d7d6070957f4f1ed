"""Somebody else's model: audited, converted, fine-tuned, exported, and audited again beside what it was.

python examples/rescue.py                 # a digits network, trained here with torch alone
python examples/rescue.py --model faces   # R-Net of MTCNN, which tells faces from other patches

The weights of R-Net come with the package facenet-pytorch, the pictures with scikit-image. Neither is imported, so that
it does not matter which torch they ask for:

    pip install --no-deps facenet-pytorch scikit-image
"""

import argparse
import copy
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import xcnorm
from xcnorm.data.embedded import mnist5k


class Case(NamedTuple):
    """A model of somebody else's, and pictures: even ones to train on, odd ones to audit."""

    model: nn.Module
    images: Tensor
    labels: Tensor
    classes: Sequence[str]


class RNet(nn.Module):
    """The second network of MTCNN (Zhang et al., 2016) without its boxes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1, self.pool1 = nn.Conv2d(3, 28, 3), nn.PReLU(28), nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv2, self.prelu2, self.pool2 = nn.Conv2d(28, 48, 3), nn.PReLU(48), nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv3, self.prelu3 = nn.Conv2d(48, 64, 2), nn.PReLU(64)
        self.dense4, self.prelu4, self.dense5_1 = nn.Linear(576, 128), nn.PReLU(128), nn.Linear(128, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Patches of 24 pixels to two logits."""
        x = self.pool1(self.prelu1(self.conv1(x)))
        x = self.pool2(self.prelu2(self.conv2(x)))
        x = self.prelu3(self.conv3(x)).permute(0, 3, 2, 1).flatten(1)
        return self.dense5_1(self.prelu4(self.dense4(x)))


def faces() -> Case:
    """R-Net as published, and 200 patches of 24 pixels: faces, and others."""
    model = RNet()
    weights = torch.load(packaged("facenet_pytorch") / "data" / "rnet.pt", weights_only=True)
    model.load_state_dict({name: value for name, value in weights.items() if not name.startswith("dense5_2")})
    patches = torch.from_numpy(np.load(packaged("skimage") / "data" / "lfw_subset.npy"))[:, :24, :24]
    images = (patches * 255).round().to(torch.uint8).unsqueeze(1).expand(-1, 3, -1, -1)
    return Case(model, images, (torch.arange(200) < 100).long(), ("other", "face"))


def packaged(name: str) -> Path:
    """The folder of an installed package."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit("--model faces needs: pip install --no-deps facenet-pytorch scikit-image")
    return Path(spec.origin).parent


def digits(steps: int) -> Case:
    """A usual network, trained by a usual loop on half of 5,000 digits."""
    images, labels = mnist5k()
    model = nn.Sequential(
        nn.Conv2d(1, 32, 5), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(1024, 10),
    )  # fmt: skip
    case = Case(model, images, labels, [str(digit) for digit in range(10)])
    train(model, case, 4 * steps, rate=2e-3)
    return case


def prepare(images: Tensor) -> Tensor:
    """Bytes to values from -1 to 1, as both models want them."""
    return images.float() / 127.5 - 1


def train(model: nn.Module, case: Case, steps: int, rate: float) -> None:
    """On the even pictures."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate)
    images, labels = case.images[::2], case.labels[::2]
    model.train()
    for _ in range(steps):
        index = torch.randint(len(images), (64,))
        loss = functional.cross_entropy(model(prepare(images[index])), labels[index])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def export(model: nn.Module, name: str, case: Case, out: Path) -> str:
    """A file that runs without the code of the model, for any number of pictures."""
    example = (prepare(case.images[:2]),)
    program = torch.export.export(model.eval(), example, dynamic_shapes=({0: torch.export.Dim.AUTO},))
    torch.export.save(program, out / f"{name}.pt2")
    return str(out / f"{name}.pt2")


def audit(models: list[nn.Module] | list[str], case: Case, count: int, page: Path) -> None:
    """Under 19 corruptions at 5 severities: a paragraph here, and a page."""
    images, labels = case.images[1::2], case.labels[1::2]
    chosen = torch.linspace(0, len(images) - 1, min(count, len(images))).long()
    batches = [(images[chosen], labels[chosen])]
    found = xcnorm.audit(models, batches, mean=0.5, std=0.5, classes=case.classes)  # type: ignore[arg-type]
    found.save(page)
    print(f"{found}\n{page}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["digits", "faces"], default="digits")
    parser.add_argument("--steps", type=int, default=60, help="of fine-tuning")
    parser.add_argument("--images", type=int, default=200, help="pictures to audit")
    parser.add_argument("--out", type=Path, default=Path("rescue"), help="folder for pages and exported models")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)

    case = faces() if given.model == "faces" else digits(given.steps)
    audit([case.model], case, given.images, given.out / "before.html")

    longer, converted = copy.deepcopy(case.model), copy.deepcopy(case.model)
    train(longer, case, given.steps, rate=5e-4)  # the control
    batches = [prepare(part) for part in case.images[::2][torch.randperm(len(case.images) // 2)][:256].split(64)]
    converted = xcnorm.convert(converted, layer="xcnorm", stages="model", batches=batches)
    print(f"{xcnorm.conversion_report(converted)}\n")
    train(converted, case, given.steps, rate=5e-4)

    models = {"original": case.model, "trained_on": longer, "converted": converted}
    files = [export(model, name, case, given.out) for name, model in models.items()]
    audit(files, case, given.images, given.out / "after.html")


if __name__ == "__main__":
    main()
