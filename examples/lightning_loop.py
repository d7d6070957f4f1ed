"""A network on R-XCNorm layers in Lightning, with corrupted validation pictures and their robustness score in its log.

pip install lightning
python examples/lightning_loop.py
"""

import argparse

import lightning
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import xcnorm
from xcnorm.data import Domain, corruptions, load
from xcnorm.metrics import RobustnessScore


class Digits(lightning.LightningModule):
    """Nothing in it but the network and the metric knows of xcnorm."""

    def __init__(self) -> None:
        super().__init__()
        self.network = xcnorm.create_model("digits_cnn", layer="r_xcnorm", num_classes=10, in_channels=1)
        self.corrupt = corruptions.Corrupt("contrast", severity=3, seed=0)
        self.robustness = RobustnessScore()

    def forward(self, images: Tensor) -> Tensor:
        return self.network(images.float() / 127.5 - 1)

    def training_step(self, batch: list[Tensor], number: int) -> Tensor:
        images, labels = batch
        loss = nn.functional.cross_entropy(self(images), labels)
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: list[Tensor], number: int) -> None:
        images, labels = batch
        clean, corrupted = self(images).softmax(1), self(self.corrupt(images)).softmax(1)
        self.log("accuracy", (clean.argmax(1) == labels).float().mean())
        self.log("accuracy at low contrast", (corrupted.argmax(1) == labels).float().mean())
        self.robustness.update(clean, [corrupted])

    def on_validation_epoch_end(self) -> None:
        self.log("robustness score", self.robustness.compute().float())  # of all processes
        self.robustness.reset()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def loader(domain: Domain, images: int, shuffle: bool) -> DataLoader:
    chosen = torch.randperm(len(domain))[:images]
    return DataLoader(TensorDataset(domain.images[chosen], domain.labels[chosen]), batch_size=64, shuffle=shuffle)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--images", type=int, default=1000, help="held-out images to test on")
    given = parser.parse_args()
    lightning.seed_everything(0)
    digits = load("digits-mini")
    trainer = lightning.Trainer(
        max_steps=given.steps,
        accelerator="auto",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        num_sanity_val_steps=0,
    )
    network = Digits()
    trainer.fit(network, loader(digits.train, len(digits.train), shuffle=True))
    found = trainer.validate(network, loader(digits.validation, given.images, shuffle=False), verbose=False)
    for name, value in found[0].items():
        print(f"{name:25} {value:.3f}")


if __name__ == "__main__":
    main()
