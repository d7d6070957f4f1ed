"""A trained network converted, calibrated and fine-tuned in a plain PyTorch loop, beside itself fine-tuned as long.

python examples/finetune.py
python examples/finetune.py --layer r_xcnorm --steps 100
"""

import argparse
import copy

import torch
from torch import Tensor, nn

import xcnorm
from xcnorm.data import Domain, corruptions, load


def make_network() -> nn.Module:
    """Yours; nothing in it knows of xcnorm."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 8 * 8, 10),
    )


def prepare(images: Tensor) -> Tensor:
    """Bytes to values from -1 to 1."""
    return images.float() / 127.5 - 1


def train(network: nn.Module, source: Domain, steps: int, rate: float) -> None:
    """At a rate that falls to zero."""
    optimiser = torch.optim.AdamW(network.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    network.train()
    for _ in range(steps):
        index = torch.randint(len(source), (64,))
        loss = nn.functional.cross_entropy(network(prepare(source.images[index])), source.labels[index])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()


@torch.no_grad()
def test(name: str, network: nn.Module, tested: list[tuple[Tensor, Tensor]]) -> None:
    """Accuracy on clean images, and the mean over the corrupted ones."""
    network.eval()
    right = [100 * (network(prepare(images)).argmax(1) == labels).float().mean().item() for images, labels in tested]
    print(f"{name:32} clean {right[0]:5.1f} %   corrupted {sum(right[1:]) / len(right[1:]):5.1f} %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layer", default="xcnorm", help="xcnorm or r_xcnorm")
    parser.add_argument(
        "--steps", type=int, default=60, help="of fine-tuning; the first training takes four times as many"
    )
    parser.add_argument("--images", type=int, default=500, help="held-out images to test on")
    given = parser.parse_args()
    torch.manual_seed(0)
    digits = load("digits-mini")
    chosen = torch.randperm(len(digits.validation))[: given.images]
    images, labels = digits.validation.images[chosen], digits.validation.labels[chosen]
    tested = [(images, labels)]
    tested += [(corruptions.corrupt(images, name, 5, seed=0), labels) for name in corruptions.published()]

    network = make_network()
    train(network, digits.train, 4 * given.steps, rate=2e-3)
    test("trained", network, tested)

    longer = copy.deepcopy(network)  # the control: whatever more training does, it does to this one too
    train(longer, digits.train, given.steps, rate=5e-4)
    test("trained on", longer, tested)

    # A few batches of training images bring the converted network near to where it was.
    batches = [prepare(part) for part in digits.train.images[torch.randperm(len(digits.train))][:256].split(64)]
    converted = xcnorm.convert(network, layer=given.layer, stages="model", batches=batches)
    print(xcnorm.conversion_report(converted))
    test("converted", converted, tested)
    train(converted, digits.train, given.steps, rate=5e-4)
    test("converted and trained on", converted, tested)


if __name__ == "__main__":
    main()
