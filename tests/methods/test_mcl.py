"""MCL against its formulas, image by image and factor by factor, with torch's own dense layers."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.methods import small
from xcnorm.engine.networks import build_model
from xcnorm.engine.testing import predict
from xcnorm.errors import UserError
from xcnorm.methods import find_method
from xcnorm.methods.factors import FACTORS, Fields
from xcnorm.methods.mcl import CausalNetwork

SMALL = {"stride": 30, "hidden": 8, "longest": 3}
MANY = 14


def exact():
    """A training in float64 and what its first step is given."""
    trainer = small.trainer("mcl")
    drawn = trainer.objective.draw(*next(trainer.batches), trainer.generators["method"])
    trainer.model.double()
    return trainer, [each.double() if each.is_floating_point() else each for each in drawn]


def correction(network, number):
    """As torch's modules."""
    rise, fall = nn.Linear(network.embedding_size, 8), nn.Linear(8, network.embedding_size)
    rise.weight.data, rise.bias.data = network.rise[number].T.detach(), network.rise_bias[number].detach()
    fall.weight.data, fall.bias.data = network.fall[number].T.detach(), network.fall_bias[number].detach()
    return nn.Sequential(rise, nn.ReLU(), fall)


def inferred(network, embedding, answer, changed):
    """The corrected embedding of one image, from the answers to what it were, by factor."""
    effects = [sum(answer - other for other in each) / len(each) for each in changed]
    weights = torch.stack([network.weigher(effect)[0] for effect in effects]).softmax(0)
    return sum(weight * correction(network, number)(embedding) for number, weight in enumerate(weights))


def test_the_loss():
    trainer, drawn = exact()
    images, labels, several, alone, changed = drawn
    network, count = trainer.model, len(images)
    assert (len(alone), len(changed)) == (MANY * count, MANY * count * 2)
    state = small.weights(trainer)
    own, single, moved, others = (network.trunk(each).detach() for each in (images, alone, several, changed))
    terms = {"mapping": 0.0, "aligned": 0.0, "causal": 0.0, "reduced": 0.0}
    for place, label in enumerate(labels):
        for number in range(MANY):
            corrected = correction(network, number)(single[number * count + place])
            terms["mapping"] -= network.classifier(corrected).log_softmax(0)[label] / (count * MANY)
            terms["aligned"] += (corrected - own[place]).square().mean() / (count * MANY)
        other = [others[2 * (number * count + place) :][:2] for number in range(MANY)]
        answers = [network.classifier(each) for each in other]
        found = inferred(network, moved[place], network.classifier(moved[place]), answers)
        terms["causal"] -= network.classifier(found).log_softmax(0)[label] / count
        terms["reduced"] += (found - own[place]).square().mean() / count
    expected = F.cross_entropy(network.classifier(own), labels) + sum(terms.values())
    network.load_state_dict(state)
    assert trainer.objective.method.loss(network, *drawn).item() == pytest.approx(expected.item(), rel=1e-9)


def test_a_network_is_tested_by_what_it_infers():
    """Of the images of a test as of those of the training: all factors at all magnitudes, one by one."""
    trainer, _ = exact()
    network = trainer.model.eval()
    images, _ = trainer.images.take(torch.arange(3))
    fields = Fields.draw(1, 32, 32, torch.Generator().manual_seed(0))
    levels = ((images + 1) / 2 * 255).round()
    expected = []
    for place in range(3):
        changed = []
        for factor in FACTORS.values():
            each = [
                factor.apply(levels[place : place + 1], factor.value(torch.tensor([float(magnitude)])), fields)
                for magnitude in (0, 30)
            ]
            changed.append(network.classifier(network.trunk(torch.cat(each).double() / 255 * 2 - 1)))
        embedding = network.trunk(images[place : place + 1].double())[0]
        found = inferred(network, embedding, network.classifier(embedding), changed)
        expected.append(network.classifier(found))
    torch.testing.assert_close(network(images.double()), torch.stack(expected), rtol=1e-6, atol=1e-6)


def test_a_network_does_not_mind_what_is_beside_an_image_in_a_test():
    trainer = small.trainer("mcl")
    network, (images, _) = trainer.model.eval(), trainer.images.take(torch.arange(5))
    together = network(images)
    alone = torch.cat([network(image[None]) for image in images])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)
    assert torch.equal(network(images), together)


def test_black_and_white_are_part_of_the_weights():
    """So that whoever tests them later needs no more."""
    trainer = small.trainer("mcl", data__mean=[0.1, 0.2, 0.3], data__std=[0.5, 0.6, 0.7])
    assert trainer.model.black.flatten().tolist() == pytest.approx([-0.2, -1 / 3, -3 / 7])
    assert trainer.model.white.flatten().tolist() == pytest.approx([1.8, 8 / 6, 1.0])
    images, _ = trainer.images.take(torch.arange(4))
    torch.testing.assert_close(trainer.model.seen(trainer.model.levels(images)), images, rtol=1e-5, atol=1e-5)
    held_out = small.benchmark().validation.images[:7]
    again = build_model(trainer.experiment, small.benchmark(), torch.device("cpu"))
    again.load_state_dict(trainer.model.state_dict())
    torch.testing.assert_close(
        predict(again, held_out, trainer.experiment), predict(trainer.model, held_out, trainer.experiment)
    )


def test_several_factors_are_applied_one_after_the_other(monkeypatch):
    """As many as drawn, at one magnitude for each image; those with a sign in either way."""
    calls = []
    for name, factor in FACTORS.items():

        def noted(levels, value, fields, name=name, apply=factor.apply):
            calls.append((name, value.tolist(), len(levels)))
            return apply(levels, value, fields)

        monkeypatch.setitem(FACTORS, name, factor._replace(apply=noted))
    trainer = small.trainer("mcl")
    images, labels = next(trainer.batches)
    state = trainer.generators["method"].get_state()
    trainer.objective.draw(images, labels, trainer.generators["method"])
    generator = torch.Generator().set_state(state)
    lengths = torch.randint(1, 4, (16,), generator=generator)
    magnitudes = torch.randint(31, (16,), generator=generator)
    order = torch.randint(MANY, (16, 3), generator=generator)
    expected = 0
    for turn in range(3):
        for number, name in enumerate(FACTORS):
            chosen = [place for place in range(16) if lengths[place] > turn and order[place, turn] == number]
            if not chosen:
                continue
            found, values, count = calls[expected]
            assert (found, count) == (name, len(chosen))
            wanted = FACTORS[name].value(magnitudes[chosen]).tolist()
            assert [abs(value) for value in values] == pytest.approx(wanted)
            expected += 1
    singles = calls[expected : expected + MANY]
    assert [(name, count) for name, _, count in singles] == [(name, 16) for name in FACTORS]
    assert [abs(value) for value in singles[0][1]] == pytest.approx([0.3 * 4 / 30] * 16)
    assert min(singles[0][1]) < 0 < max(singles[0][1])
    assert [(name, count) for name, _, count in calls[expected + MANY :]] == [(name, 32) for name in FACTORS]


def test_its_corrections_start_as_torchs_dense_layers():
    torch.manual_seed(0)
    plain = build_model(small.trainer("erm").experiment, small.benchmark(), torch.device("cpu"))
    network = CausalNetwork(plain, 3, 512)
    assert len(network.magnitudes) == 11
    for parameter, inputs in (
        (network.rise, plain.embedding_size),
        (network.rise_bias, plain.embedding_size),
        (network.fall, 512),
        (network.fall_bias, 512),
    ):
        assert 0.9 * inputs**-0.5 < parameter.abs().max() <= inputs**-0.5
        assert len(parameter) == MANY
    assert "magnitudes" not in network.state_dict()


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("stride", 0, "stride of method mcl must be from 1 to 30, not 0"),
        ("longest", 15, "longest of method mcl must be from 1 to 14, not 15"),
        ("magnitude", 31, "magnitude of method mcl must be from 0 to 30, not 31"),
        ("hidden", 0, "hidden of method mcl must be 1 or more, not 0"),
        ("alignment", -1.0, "alignment of method mcl must be 0 or more, not -1.0"),
    ],
)
def test_bad_settings_are_one_line(option, value, words):
    with pytest.raises(UserError) as caught:
        find_method("mcl").check({option: value})
    assert str(caught.value) == words
