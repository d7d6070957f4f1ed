"""A network comes back from its folder bit for bit, and a stranger's folder can only be refused in one line."""

import json
import struct

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import xcnorm
from xcnorm.conversion import add_dictionaries
from xcnorm.errors import UserError
from xcnorm.models import About, about_pretrained
from xcnorm.nn import FORMS

IMAGES = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))
OPTIONS = {
    "xcnorm": {"preset": "paper", "tau": 1.5, "norm": "mixed"},
    "r_xcnorm": {"channelwise": True, "scale": "parameter"},
    "bcos": {"b": 1.5, "max_out": 2},
    "kervolution": {"kernel": "gaussian"},
    "scs": {"gain": False},
}


def assert_same(one, other, images=IMAGES):
    with torch.no_grad():
        assert torch.equal(one(images), other.eval()(images))


@pytest.mark.parametrize("layer", FORMS)
def test_every_form_comes_back_bit_for_bit(layer, tmp_path):
    network = xcnorm.create_model("wrn16_4", layer, num_classes=4, **OPTIONS.get(layer, {}))
    assert_same(xcnorm.from_pretrained(xcnorm.save_pretrained(network, tmp_path / "network")), network)


@pytest.mark.parametrize("layer", [layer for layer in FORMS if layer != "conv"])
def test_every_converted_network_comes_back_bit_for_bit(layer, tmp_path):
    network = xcnorm.create_model("wrn16_4", "conv", num_classes=4)
    xcnorm.convert(network, layer, skip="trunk.0*", **OPTIONS.get(layer, {}))
    loaded = xcnorm.from_pretrained(xcnorm.save_pretrained(network, tmp_path / "network"))
    assert_same(loaded, network)
    assert type(loaded.trunk[0]) is nn.Conv2d


def plain():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.SiLU(), nn.Conv2d(16, 8, 3, padding="same"), nn.ReLU(), nn.Flatten()
    )


def test_a_converted_network_of_ones_own_comes_back_into_what_it_was(tmp_path):
    model = xcnorm.convert(plain(), "xcnorm").double()
    folder = xcnorm.save_pretrained(model, tmp_path / "network")
    loaded = xcnorm.from_pretrained(folder, model=plain())
    assert_same(loaded, model, IMAGES.double())
    with pytest.raises(UserError, match="create_model did not make this network: give it"):
        xcnorm.from_pretrained(folder)
    with pytest.raises(UserError, match="does not fit the network: it lacks 6"):
        xcnorm.from_pretrained(folder, model=nn.Sequential(*plain(), nn.Linear(1, 1)))
    with pytest.raises(UserError, match="leave model out"):
        xcnorm.from_pretrained(xcnorm.save_pretrained(xcnorm.create_model("wrn16_4"), tmp_path / "other"), plain())


def test_a_network_is_a_model_that_can_be_trained_on(tmp_path):
    network = xcnorm.create_model("digits_cnn", "xcnorm", num_classes=3)
    loaded = xcnorm.from_pretrained(xcnorm.save_pretrained(network, tmp_path / "network"))
    assert not loaded.training
    loaded.train()(torch.rand(2, 3, 32, 32)).sum().backward()
    assert all(parameter.grad is not None for parameter in loaded.parameters())


def test_what_is_known_comes_back_and_stands_on_the_card(tmp_path):
    about = About("my net", ("a|b", "<cat>"), (0.5,), (0.25,), 32, "MNIST")
    network = xcnorm.create_model("wrn16_4", "xcnorm", num_classes=2, tau=1.5)
    folder = xcnorm.save_pretrained(network, tmp_path / "network", about=about, metrics={"SVHN": 0.625})
    assert about_pretrained(folder) == about
    card = (folder / "README.md").read_text()
    for words in (
        "`wrn16_4`, `layer='xcnorm'`",
        "`tau=1.5`",
        "| MNIST |",
        "| SVHN | 62.50 |",
        "a\\|b, &lt;cat>",
        "mean 0.5",
    ):
        assert words in card
    assert "from_pretrained" in card
    assert {each.name for each in folder.iterdir()} == {"config.json", "model.safetensors", "README.md"}


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="holds other files"):
        xcnorm.save_pretrained(xcnorm.create_model("wrn16_4"), tmp_path)
    folder = xcnorm.save_pretrained(xcnorm.create_model("wrn16_4"), tmp_path / "network")
    assert xcnorm.save_pretrained(xcnorm.create_model("wrn16_4", "sphere"), folder) == folder
    assert json.loads((folder / "config.json").read_text())["description"]["network"]["layer"] == "sphere"
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_create_model_takes_weights_of_the_same_network(tmp_path):
    network = xcnorm.create_model("wrn16_4", "xcnorm")
    folder = xcnorm.save_pretrained(network, tmp_path / "network")
    for source in (folder, folder / "model.safetensors", str(folder)):
        assert_same(xcnorm.create_model("wrn16_4", "xcnorm", pretrained=source).eval(), network)
    for arguments, words in (
        ({"layer": "r_xcnorm"}, "is another network, by layer='xcnorm'"),
        ({"layer": "xcnorm", "tau": 2.0}, "is another network, by tau=None"),
        ({"layer": "xcnorm", "num_classes": 3}, "another network, by num_classes=10"),
    ):
        with pytest.raises(UserError, match=words):
            xcnorm.create_model("wrn16_4", **arguments, pretrained=folder)
    with pytest.raises(UserError, match=r"has classifier\.bias of shape \(10,\), not \(3,\)|of shape \(10, 256\)"):
        xcnorm.create_model("wrn16_4", "xcnorm", num_classes=3, pretrained=folder / "model.safetensors")
    with pytest.raises(UserError, match=r"no folder of save_pretrained and no \.safetensors file"):
        xcnorm.create_model("wrn16_4", pretrained=tmp_path / "weights.pth")
    with pytest.raises(UserError, match="is not there"):
        xcnorm.create_model("wrn16_4", pretrained=tmp_path / "weights.safetensors")


def changed(network):
    network.trunk[0] = nn.Conv2d(3, 16, 5, padding=2)
    return network


def built():
    network = xcnorm.create_model("wrn16_4")
    xcnorm.convert(network, "xcnorm")
    network.trunk[0] = xcnorm.XCNormConv2d(3, 16, 3, norm="batch")
    return network


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda: changed(xcnorm.create_model("wrn16_4")), r"do not make trunk\.0, Conv2d\(3, 16, kernel_size=\(5, 5\)"),
        (lambda: xcnorm.fuse(xcnorm.create_model("wrn16_4", "xcnorm")), "do not make"),
        (lambda: add_dictionaries(xcnorm.create_model("wrn16_4"), words=32), "do not make"),
    ],
)
def test_what_cannot_be_made_again_is_not_saved(model, words, tmp_path):
    with pytest.raises(UserError, match=words):
        xcnorm.save_pretrained(model(), tmp_path / "network")
    assert list(tmp_path.iterdir()) == []


def test_a_layer_that_was_put_in_later_is_saved_where_a_recipe_has_words_for_it(tmp_path):
    network = built()
    assert_same(xcnorm.from_pretrained(xcnorm.save_pretrained(network, tmp_path / "network")), network)


@pytest.fixture
def stranger(tmp_path):
    """A folder that can be damaged: by a change of its config, or of its weights."""
    return xcnorm.save_pretrained(xcnorm.create_model("wrn16_4", "xcnorm"), tmp_path / "network")


def configured(folder, change):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c["description"]["network"].update(name="wrn16_5"), "unknown model 'wrn16_5'; did you mean"),
        (lambda c: c["description"]["network"].update(layer="os.system"), "unknown layer 'os.system'"),
        (lambda c: c["description"]["network"].update(strange=1), "unknown option 'strange'"),
        (lambda c: c["description"]["network"].update(num_classes=10**12), "has classifier.weight of shape"),
        (lambda c: c["description"]["network"].update(num_classes="many"), "num_classes must be an integer"),
        (lambda c: c["description"]["network"].update(pretrained="/etc/passwd"), "asks for another file"),
        (lambda c: c["description"].update(network=[1]), "cannot be made from"),
        (lambda c: c["description"].update(layers={"trunk.0": {"kind": "Module"}}), "cannot be made from"),
        (lambda c: c["description"].update(layers={"absent.0": {"kind": "Identity"}}), "cannot be made from"),
        (lambda c: c["description"].update(layers={"trunk": {"kind": "Identity"}}), "which the network has not"),
        (lambda c: c["description"].update(layers={"trunk.0": {"kind": "Conv2d", "form": "conv"}}), "cannot be made"),
        (lambda c: c.update(format=2), "has format 2, and this xcnorm reads 1"),
        (lambda c: c.pop("description"), "lacks 'description'"),
        (lambda c: c.pop("about"), "lacks 'about'"),
    ],
)  # fmt: skip
def test_a_strangers_description_gets_one_line(change, words, stranger):
    configured(stranger, change)
    with pytest.raises(UserError, match=words) as error:
        xcnorm.from_pretrained(stranger)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "cannot read"),
        ("[" * 100000, "cannot read"),
        ("[]", "cannot read"),
        ('{"format": 1, "x": "' + 10_000_001 * "a" + '"}', "too long"),
    ],
    ids=["empty", "deep", "list", "long"],
)
def test_a_damaged_config_gets_one_line(content, words, stranger):
    (stranger / "config.json").write_text(content)
    with pytest.raises(UserError, match=words):
        xcnorm.from_pretrained(stranger)


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def flipped(path):
    content = bytearray(path.read_bytes())
    content[-7] ^= 1
    path.write_bytes(content)


def rewritten(change):
    def rewrite(path):
        weights = load_file(path)
        change(weights)
        save_file(weights, path)

    return rewrite


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.unlink(), "is not there"),
        (cut, "cannot read"),
        (flipped, "cannot read .* not what was written"),
        (lambda path: path.write_bytes(struct.pack("<Q", 1 << 60) + b"{}"), "cannot read"),
        (lambda path: path.write_bytes(b""), "cannot read"),
        (rewritten(lambda w: w.pop("classifier.bias")), r"lacks classifier\.bias"),
        (rewritten(lambda w: w.update(more=torch.ones(1))), "has more, which the network has not"),
        (rewritten(lambda w: w.update({"classifier.bias": torch.ones(11)})), r"shape \(11,\), not \(10,\)"),
        (
            rewritten(lambda w: w.update({"classifier.bias": torch.ones(10, dtype=torch.int64)})),
            r"as torch\.int64, not",
        ),
    ],
    ids=["missing", "cut", "flipped", "huge", "empty", "lacking", "extra", "shape", "type"],
)
def test_damaged_weights_get_one_line(damage, words, stranger):
    damage(stranger / "model.safetensors")
    with pytest.raises(UserError, match=words) as error:
        xcnorm.from_pretrained(stranger)
    assert "\n" not in str(error.value)


def test_what_is_no_such_folder_is_said(tmp_path):
    with pytest.raises(UserError, match=r"no folder of save_pretrained: it has no config\.json"):
        xcnorm.from_pretrained(tmp_path)


def test_a_pickle_in_place_of_weights_is_never_run(stranger, tmp_path):
    class Bomb:
        def __reduce__(self):
            return exec, (f"open({str(tmp_path / 'exploded')!r}, 'w')",)

    torch.save({"classifier.bias": Bomb()}, stranger / "model.safetensors")
    with pytest.raises(UserError, match="cannot read"):
        xcnorm.from_pretrained(stranger)
    assert not (tmp_path / "exploded").exists()
