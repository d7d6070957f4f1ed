"""What ADA, ME-ADA and M-ADA share, against the published procedure written down plainly, in float64."""

import pytest
import torch
import torch.nn.functional as F

from tests.engine import small as engine_small
from tests.methods import small
from xcnorm.data.training_images import Preparation, TrainingImages
from xcnorm.errors import UserError
from xcnorm.methods import Training, find_method
from xcnorm.models import Wiring

CPU = torch.device("cpu")


def network(layer="conv"):
    """With batch norm whose statistics are of some batches, so that training and evaluation differ."""
    torch.manual_seed(3)
    made = engine_small.tiny(Wiring(layer, own_norm="batch"), 3, 3).double().train()
    for _ in range(3):
        made(torch.rand(16, 3, 16, 16, dtype=torch.float64))
    return made


def begun(name, layer="conv", count=32, dtype=torch.float64, **options):
    """A method in front of its first step, and images with their labels."""
    method = find_method(name).make(options)
    pool = TrainingImages(engine_small.domain("train", count, 16), Preparation(0.0, 1.0), CPU)
    method.begin(Training(network(layer).to(dtype), pool, CPU, 8, slice(0, 8), 1000))
    images, labels = pool.take(torch.arange(count))
    return method, images.to(dtype), labels


def as_published(model, images, labels, *, steps, rate, gamma, eta=0.0):
    """Gradient ascent on means over a batch."""
    model.eval()
    with torch.no_grad():
        original = model.features(images)
    inputs = images.clone()
    for _ in range(steps):
        inputs.requires_grad_()
        embedding = model.features(inputs)
        probabilities = model.classifier(embedding).softmax(1)
        loss = -probabilities[range(len(labels)), labels].log().mean()
        loss = loss - gamma * ((embedding - original) ** 2).mean()
        loss = loss + eta * -(probabilities * probabilities.log()).sum(1).mean()
        (gradient,) = torch.autograd.grad(loss, inputs)
        inputs = (inputs + rate * gradient).detach()
    model.train()
    return inputs


@pytest.mark.parametrize("layer", ["conv", "xcnorm", "r_xcnorm"])
@pytest.mark.parametrize(("name", "options"), [("ada", {}), ("me_ada", {"eta": 10.0})])
def test_images_move_as_in_the_publication(name, options, layer):
    method, images, labels = begun(name, layer, ascent_steps=4, step_size=100.0, batch=8, gamma=2.0, **options)
    found = method.ascend(images[:8], labels[:8])
    expected = as_published(
        method.training.network, images[:8], labels[:8], steps=4, rate=100.0, gamma=2.0, eta=options.get("eta", 0.0)
    )
    assert (expected - images[:8]).abs().max() > 0.1
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["ada", "me_ada"])
def test_a_step_goes_along_the_gradient_by_finite_differences(name):
    """Away from the original, where the distance has a gradient: from the first step to the second."""
    first, images, labels = begun(name, ascent_steps=1, step_size=40.0, batch=4, gamma=3.0)
    second, _, _ = begun(name, ascent_steps=2, step_size=40.0, batch=4, gamma=3.0)
    images, labels = images[:4], labels[:4]
    start, end = first.ascend(images, labels), second.ascend(images, labels)
    model, eta = first.training.network.eval(), getattr(first, "eta", 0.0)
    assert eta == (10.0 if name == "me_ada" else 0.0)

    def gain(inputs):
        with torch.no_grad():
            embedding, original = model.features(inputs), model.features(images)
            logits = model.classifier(embedding)
            entropy = torch.distributions.Categorical(logits=logits).entropy()
            distance = (embedding - original).square().mean(1)
            return F.cross_entropy(logits, labels) + (eta * entropy - 3.0 * distance).mean()

    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        way = torch.randn(images.shape, dtype=torch.float64, generator=generator)
        rise = (gain(start + 1e-6 * way) - gain(start - 1e-6 * way)) / 2e-6
        assert ((end - start) / 40.0 * way).sum().item() == pytest.approx(rise.item(), rel=1e-5, abs=1e-9)


def test_images_do_not_see_those_beside_them():
    method, images, labels = begun("me_ada", ascent_steps=3, step_size=300.0)
    together = method.ascend(images, labels)
    alone = [method.ascend(image[None], label[None]) for image, label in zip(images, labels, strict=True)]
    assert (together - images).abs().max() > 0.1
    torch.testing.assert_close(torch.cat(alone), together, rtol=1e-9, atol=1e-9)


def test_every_image_becomes_harder():
    method, images, labels = begun("ada", step_size=300.0)
    model = method.training.network.eval()
    hard = method.ascend(images, labels)
    before, after = (F.cross_entropy(model(each), labels, reduction="none") for each in (images, hard))
    assert (after > before).all()


def test_an_attack_leaves_the_network_alone():
    method, images, labels = begun("ada", "r_xcnorm")
    model = method.training.network
    before = {name: value.clone() for name, value in model.state_dict().items()}
    next(model.parameters()).requires_grad_(False)
    method.ascend(images, labels)
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)
    assert model.training
    assert [parameter.requires_grad for parameter in model.parameters()].count(False) == 1
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("ada", [96, 96 + 48, 96 + 96]),  # 50 images of the pool, in batches of 16
        ("me_ada", [96, 192, 384]),  # all of them
        ("m_ada", [96, 96 + 80, 96 + 80 + 32]),  # (6 - 1) batches, then (6 - 1) // 2
    ],
)
def test_the_set_grows_before_every_fourth_step(name, sizes):
    trainer = small.trainer(name)
    found = {}
    while trainer.step < 12:
        step, stepped = trainer.step, trainer.advance() is not None
        if stepped:
            found[step + 1] = len(trainer.images)
    assert [found[step] for step in (1, 3, 4, 7, 8, 12)] == [sizes[index] for index in (0, 0, 1, 1, 2, 2)]


def test_a_phase_perturbs_what_was_there_when_it_began():
    method, _, _ = begun(
        "me_ada", dtype=torch.float32, batch=8, phases=2, gap=1, ascent_steps=1, clamp=False, step_size=1e-9
    )
    generator, pool = torch.Generator().manual_seed(0), method.training.images
    while method.pending():  # the second phase is not due yet
        method.work(generator)
    assert len(pool) == 64
    method.training.step = 1
    while method.pending():
        method.work(generator)
    assert len(pool) == 128
    # Nearly unmoved, so each image is there four times, with its label.
    images, labels = pool.take(torch.arange(128))
    own = images[:32]
    nearest = torch.cdist(images.flatten(1), own.flatten(1)).argmin(1)
    assert nearest.bincount().tolist() == [4] * 32
    assert torch.equal(labels, labels[:32][nearest])


@pytest.mark.parametrize("clamp", [True, False])
def test_added_images_are_cut_to_the_range_or_not(clamp):
    method, _, _ = begun("ada", dtype=torch.float32, batch=8, phases=1, gap=1, step_size=1e3, clamp=clamp)
    while method.pending():
        method.work(torch.Generator().manual_seed(0))
    images, _ = method.training.images.take(torch.arange(32, 64))
    assert bool((images.min() < -0.01) & (images.max() > 1.01)) != clamp
    assert torch.equal((images * 255).round() / 255, images) == clamp


@pytest.mark.parametrize(
    ("name", "option", "value", "words"),
    [
        ("ada", "gamma", -1.0, "gamma of method ada must be 0 or more, not -1.0"),
        ("ada", "ascent_steps", 0, "ascent_steps of method ada must be 1 or more, not 0"),
        ("me_ada", "gap", 0, "gap of method me_ada must be 1 or more, not 0"),
        ("me_ada", "phases", -2, "phases of method me_ada must be 0 or more, not -2"),
        ("ada", "step_size", 0.0, "step_size of method ada must be above 0, not 0.0"),
        ("ada", "pool", 31, "pool of method ada must fill a batch of 32, or be 0 for all images, not 31"),
        ("me_ada", "eta", -0.1, "eta of method me_ada must be 0 or more, not -0.1"),
        ("m_ada", "beta", -1.0, "beta of method m_ada must be 0 or more, not -1.0"),
        ("m_ada", "autoencoder_epochs", 0, "autoencoder_epochs of method m_ada must be 1 or more, not 0"),
    ],
)
def test_bad_settings_are_one_line(name, option, value, words):
    with pytest.raises(UserError) as caught:
        find_method(name).check({option: value})
    assert str(caught.value) == words


@pytest.mark.parametrize("name", ["ada", "me_ada"])
def test_phases_that_do_not_fit_are_refused(name):
    with pytest.raises(
        UserError, match=f"4 phases of method {name}, 251 steps apart, do not fit into 1000 steps; make"
    ):
        begun(name, phases=4, gap=251)
    begun(name, phases=4, gap=250)


@pytest.mark.parametrize("name", ["ada", "me_ada"])
def test_too_few_images_are_refused(name):
    with pytest.raises(UserError, match=f"32 training images do not fill a batch of method {name}; make its batch, 33"):
        begun(name, batch=33)
    begun(name, batch=33, phases=0)
