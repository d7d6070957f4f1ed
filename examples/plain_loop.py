"""A network of your own in a plain PyTorch loop: converted, trained on clean digits, tested on pictures that go wrong.

python examples/plain_loop.py                # on R-XCNorm layers
python examples/plain_loop.py --layer conv   # as it was, to compare with
"""

import argparse

import torch
from torch import Tensor, nn

import xcnorm
from xcnorm.data import Domain, corruptions, load
from xcnorm.metrics import RobustnessScore

TESTED = ("contrast", "fog", "brightness", "gaussian_noise")


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


def train(network: nn.Module, source: Domain, steps: int) -> None:
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3)
    network.train()
    for _ in range(steps):
        index = torch.randint(len(source), (64,))
        loss = nn.functional.cross_entropy(network(prepare(source.images[index])), source.labels[index])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


@torch.no_grad()
def test(network: nn.Module, images: Tensor, labels: Tensor) -> None:
    """Accuracy on clean and on corrupted images, and how far the corruption moves the predictions."""
    network.eval()
    clean = network(prepare(images)).softmax(1)
    print(f"{'clean':15} {accuracy(clean, labels):5.1f} %")
    for name in TESTED:
        score, corrupted = RobustnessScore(), []
        for severity in (1, 3, 5):
            transform = corruptions.Corrupt(name, severity, seed=0)
            corrupted.append(network(prepare(transform(images))).softmax(1))
        score.update(clean, corrupted)  # once for each batch, where there are several
        right = accuracy(torch.cat(corrupted), labels.repeat(len(corrupted)))
        print(f"{name:15} {right:5.1f} %   robustness score {score.compute():.3f}")


def accuracy(probabilities: Tensor, labels: Tensor) -> float:
    return 100 * (probabilities.argmax(1) == labels).float().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layer", default="r_xcnorm", help="conv, xcnorm, r_xcnorm or a relative")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--images", type=int, default=1000, help="held-out images to test on")
    given = parser.parse_args()
    torch.manual_seed(0)
    digits = load("digits-mini")
    network = make_network()
    if given.layer != "conv":
        network = xcnorm.convert(network, layer=given.layer)
        print(xcnorm.conversion_report(network))
    train(network, digits.train, given.steps)
    chosen = torch.randperm(len(digits.validation))[: given.images]
    test(network, digits.validation.images[chosen], digits.validation.labels[chosen])


if __name__ == "__main__":
    main()
