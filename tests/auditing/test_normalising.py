"""Normalisation: the wrong one is found out, the right one is found, and both are told."""

import pytest
import torch
from torch import nn

import xcnorm
from xcnorm.auditing.normalising import USUAL
from xcnorm.auditing.opening import of_module

CPU = torch.device("cpu")
LABELS = torch.arange(64) % 2
IMAGES = (
    torch.rand(64, 3, 8, 8, generator=torch.Generator().manual_seed(0)) * 0.2 + 0.4 * LABELS.view(-1, 1, 1, 1)
) / 1.2


class Sharp(nn.Module):
    """Knows dark from bright, by a threshold in the values of its own normalisation and a window around it."""

    def __init__(self, mean: float = 0.5, std: float = 0.5) -> None:
        super().__init__()
        self.dark, self.bright = ((value / 1.2 - mean) / std for value in (0.1, 0.5))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        level = images.mean((1, 2, 3))
        near = torch.stack([-((level - self.dark) ** 2), -((level - self.bright) ** 2)], 1)
        lost = near.max(1, keepdim=True).values < -0.02
        return torch.where(lost, torch.tensor([9.0, 0.0]), 500 * near)


def audited(model=None, **options):
    loader = [(IMAGES, LABELS)]
    return xcnorm.audit(model or Sharp(), loader, corruptions="brightness", device="cpu", **options).models[0]


def test_where_nothing_is_known_the_best_of_the_usual_ones_is_taken_and_told():
    found = audited()
    assert found.clean.accuracy == 1
    assert found.normalisation == "mean 0.5 and std 0.5 (values from -1 to 1, the best of the usual ones)"
    assert "it does not say how its pictures are normalised" in found.notes[0]
    assert "100.0 % of 64 clean pictures (50.0 % with values from 0 to 1" in found.notes[0]


def test_a_wrong_one_that_was_given_is_kept_and_told():
    found = audited(mean=0.0, std=1.0)
    assert found.clean.accuracy == 0.5
    assert found.normalisation == "mean 0 and std 1 (as given)"
    assert "50.0 %, no better than guessing; with values from -1 to 1 normalisation" in found.notes[0]
    assert "it would be 100.0 %: give --mean 0.5 --std 0.5" in found.notes[0]


def test_a_right_one_that_was_given_is_not_talked_about():
    assert audited(mean=[0.5, 0.5, 0.5], std=0.5).notes == ()


def test_what_no_normalisation_helps_may_have_its_classes_in_another_order():
    swapped = nn.Sequential(Sharp(), nn.Linear(2, 2, bias=False))
    swapped[1].weight.data = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    found = audited(swapped, mean=0.5, std=0.5)
    assert found.clean.accuracy == 0
    assert "right for 100.0 % if its classes are in another order" in found.notes[0]
    blind = nn.Sequential(nn.Flatten(), nn.Linear(192, 2))
    blind[1].weight.data.zero_()
    blind = audited(blind, mean=0.5, std=0.5)
    assert "check that the classes are in its order" in blind.notes[0]


@pytest.mark.parametrize("name", USUAL)
def test_every_usual_one_is_done_as_it_is_named(name):
    subject = of_module(nn.Flatten(), "values", CPU)
    white = torch.full((1, 3, 1, 1), 255, dtype=torch.uint8)
    low, high = (subject.answers(images, USUAL[name])[0, 0].item() for images in (white * 0, white))
    expected = {
        "values from 0 to 1": (0, 1),
        "ImageNet's": (-0.485 / 0.229, 0.515 / 0.229),
        "values from -1 to 1": (-1, 1),
        "CIFAR-10's": (-0.4914 / 0.247, 0.5086 / 0.247),
        "values from 0 to 255": (0, 255),
    }
    assert (low, high) == pytest.approx(expected[name])
