"""MetaCNN: what becomes of a network, and settings that are refused."""

import pytest
import torch
from torch import nn

from tests.methods import small
from xcnorm.errors import UserError
from xcnorm.methods.metacnn import MetaCNN
from xcnorm.models import create_model
from xcnorm.nn import Dictionary, Rebuilt

SMALL = {"words": 24, "chosen": 4}


def test_every_convolution_has_a_dictionary_with_the_settings():
    settings = {"words": 40, "chosen": 3, "temperature": 0.2, "ridge": 0.05, "momentum": 0.02, "share": 0.7}
    network = MetaCNN(**settings).adapt(create_model("digits_cnn"))
    found = [module for module in network.modules() if isinstance(module, Dictionary)]
    assert [layer.words.shape for layer in found] == [(40, 64), (40, 128)]
    for layer in found:
        for name in settings.keys() - {"words"}:
            assert getattr(layer, name) == settings[name]
    assert isinstance(network.trunk[1], Rebuilt)
    assert isinstance(network.trunk[1].layer, nn.MaxPool2d)


def test_adding_dictionaries_leaves_the_first_weights_as_they_are():
    networks = []
    for method in (MetaCNN(share=0.0), MetaCNN()):
        torch.manual_seed(3)
        networks.append(method.adapt(create_model("digits_cnn")))
    for plain, changed in zip(*(network.parameters() for network in networks), strict=True):
        assert torch.equal(plain, changed)


def test_dictionaries_learn_from_the_source_and_are_part_of_what_is_tested():
    trainer = small.trainer("metacnn")
    before = small.weights(trainer)
    small.losses(trainer, 5)
    moved = {name for name, value in small.weights(trainer).items() if not torch.equal(value, before[name])}
    for place in ("trunk.1", "trunk.3.2"):
        for name in ("words", "code_moment", "cross_moment", "num_batches_tracked"):
            assert f"{place}.dictionary.{name}" in moved
    after = small.weights(trainer)
    trainer.validate()
    torch.testing.assert_close(small.weights(trainer), after, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"chosen": 200}, "method metacnn: chosen must be between 1 and words=128, got 200"),
        ({"words": 0}, "method metacnn: chosen must be between 1 and words=0, got 16"),
        ({"ridge": 0.0}, "method metacnn: ridge must be positive, got 0.0"),
        ({"share": 1.1}, "method metacnn: share must be between 0 and 1, got 1.1"),
        ({"words": 12.5}, "option words of method metacnn cannot be 12.5, such as 128"),
    ],
)
def test_bad_settings_are_refused_in_one_line(options, words):
    with pytest.raises(UserError, match=words):
        MetaCNN.check(options)
