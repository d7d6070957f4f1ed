"""ONNX files of every network in every form answer as torch does, for any number of images of any size."""

import importlib.util
import json

import pytest
import torch
from torch import nn

import xcnorm
from tests.export.networks import SMALL, assert_alike, make, run_onnx
from xcnorm.errors import UserError
from xcnorm.functional.robust.function import ROBUST_FUNCTIONS, RobustFunction
from xcnorm.models import About

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("onnxscript") is None or importlib.util.find_spec("onnxruntime") is None,
    reason="the extra export is not installed",
)

# An R-XCNorm layer has all that an XCNorm layer has; what is plain in a network is plain in every form.
PAIRS = [(name, "r_xcnorm") for name in SMALL]
PAIRS += [("wide_resnet", layer) for layer in ("conv", "xcnorm", "bcos", "decoupled")]


def assert_exported(model, path, pixels, *sizes):
    written = xcnorm.export_model(model, path, pixels=pixels)
    assert written.difference < 2e-4
    assert written.any_size
    for shape in ((1, 3, pixels, pixels), *sizes):
        images = torch.rand(shape)
        assert_alike(run_onnx(path, images), model, images)
    return written


@pytest.mark.parametrize(("name", "layer"), PAIRS)
def test_networks_and_forms(name, layer, tmp_path):
    pixels = SMALL[name][0]
    model = make(name, layer)
    assert_exported(model, tmp_path / "network.onnx", pixels, (3, 3, pixels + 8, 2 * pixels))


def test_the_operator_as_printed(tmp_path):
    model = make("wide_resnet", "r_xcnorm", preset="paper")
    assert_exported(model, tmp_path / "network.onnx", 16, (3, 3, 24, 17))
    images = torch.zeros(1, 3, 16, 16)  # a flat one, where there is nothing to correlate
    assert_alike(run_onnx(tmp_path / "network.onnx", images), model, images)


class Branches(nn.ModuleList):
    """Layers side by side, so that one export is about all of them."""

    def forward(self, images):
        return torch.cat([layer(images).flatten(2).square().mean(2) for layer in self], 1)


GEOMETRIES = [
    {"padding": 1, "padding_mode": "replicate"},
    {"padding": (1, 2), "stride": (1, 2)},
    {"groups": 2, "padding": 2, "dilation": 2, "padding_mode": "circular"},
    {"padding": 1, "padding_mode": "reflect", "groups": 2},
]


def branch(kind, number, **options):
    layer = kind(4, 32, 3, **GEOMETRIES[number % len(GEOMETRIES)], **options)
    if layer.stages.mask is not None:
        nn.init.normal_(layer.stages.mask.weight)
    return layer


def test_every_stage_every_geometry_and_every_robust_function(tmp_path):
    options = [
        {"mask": True, "norm": "batch"},
        {"channelwise": True, "mask": True, "gain": "after_norm"},
        {"rectify": "none", "norm": "none"},
        {"rectify": "abs", "tau": "none", "gain": "none"},
        {"rectify": "none", "tau": "none", "norm": "none", "channelwise": True},
        {"tau": 1.7, "gain": "after_norm", "norm": "batch"},
        {"norm": "group", "gain": "after_norm"},
        {"norm": "asr", "gain": "before_norm"},
    ]
    scales = [{"scale": "ema", "c_init": 0.3}, {"scale": "parameter", "c_init": 0.3}, {"scale": "patch"}]
    torch.manual_seed(0)
    layers = [
        branch(kind, number + kind.robust, **each)
        for kind in (xcnorm.XCNormConv2d, xcnorm.RXCNormConv2d)
        for number, each in enumerate(options)
    ]
    for number, name in enumerate(2 * list(ROBUST_FUNCTIONS)):
        layers.append(branch(xcnorm.RXCNormConv2d, number, robust=name, **scales[number % 3]))
    layers.append(branch(xcnorm.RXCNormConv2d, 2, scale="ema", c_init=10.0, robust="welsch", norm="none"))
    model = Branches(layers).eval()
    written = xcnorm.export_model(model, tmp_path / "branches.onnx", pixels=12)
    assert written.any_size
    for shape in ((3, 4, 12, 12), (1, 4, 9, 16)):
        images = torch.rand(shape)
        assert_alike(run_onnx(tmp_path / "branches.onnx", images), model, images)


def test_dense_layers_and_layers_that_pool_a_batch(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(
        xcnorm.RXCNormConv2d(3, 16, 3, norm="batch_test"),
        nn.Flatten(),
        xcnorm.XCNormLinear(16 * 36, 24, mask=True),
        xcnorm.RXCNormLinear(24, 8, norm="none", rectify="none"),
    ).eval()
    written = xcnorm.export_model(model, tmp_path / "dense.onnx", pixels=8)
    assert not written.any_size
    images = torch.rand(3, 3, 8, 8)
    assert_alike(run_onnx(tmp_path / "dense.onnx", images), model, images)


def test_a_map_of_one_position_is_not_normalised_by_itself(tmp_path):
    model = nn.Sequential(xcnorm.XCNormConv2d(3, 8, 4), nn.Flatten())
    written = xcnorm.export_model(model, tmp_path / "single.onnx", pixels=4)
    assert not written.any_size
    assert run_onnx(tmp_path / "single.onnx", torch.rand(2, 3, 4, 4)).abs().max() > 0


def test_a_robust_function_of_ones_own_is_traced_as_torch_has_it(tmp_path, monkeypatch):
    monkeypatch.setitem(ROBUST_FUNCTIONS._items, "of_ones_own", RobustFunction("of_ones_own", torch.sin, torch.cos))
    model = nn.Sequential(xcnorm.RXCNormConv2d(3, 8, 3, robust="of_ones_own", rectify="none"), nn.Flatten())
    written = xcnorm.export_model(model, tmp_path / "own.onnx", pixels=6)
    assert written.difference < 1e-4


def test_only_onnx_s_own_operators_of_one_opset_are_in_it_and_what_is_known(tmp_path):
    onnx = pytest.importorskip("onnx")
    about = About(network="wrn", classes=("cat", "dog"), mean=(0.5,), std=(0.25,))
    xcnorm.export_model(make("wide_resnet", "r_xcnorm"), tmp_path / "network.onnx", pixels=16, about=about)
    model = onnx.load(tmp_path / "network.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert {node.domain for node in model.graph.node} == {""}
    assert not model.functions
    assert [(each.domain, each.version) for each in model.opset_import] == [("", 18)]
    (entry,) = model.metadata_props
    assert entry.key == "xcnorm"
    told = json.loads(entry.value)
    assert (told["classes"], told["mean"], told["std"], told["pixels"]) == (["cat", "dog"], [0.5], [0.25], 16)
    assert told["version"] == xcnorm.__version__


def test_what_onnx_has_no_operator_for_is_told_in_one_line(tmp_path):
    class Odd(nn.Module):
        def forward(self, images):
            return torch.linalg.svdvals(images.mean(1))

    with pytest.raises(UserError, match="cannot write this network as ONNX") as error:
        xcnorm.export_model(Odd(), tmp_path / "odd.onnx", pixels=8)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []
