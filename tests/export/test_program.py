"""Program and package files: they answer as the network does, hold plain operators, and open in an audit."""

import subprocess
import sys
import zipfile

import pytest
import torch
from torch import nn

import xcnorm
from tests.export.networks import assert_alike, make
from xcnorm.auditing import open_model
from xcnorm.auditing.subject import Normalisation
from xcnorm.errors import UserError
from xcnorm.export import FORMATS, exporting
from xcnorm.export.exporting import find_format
from xcnorm.models import About

CPU = torch.device("cpu")
ABOUT = About(classes=("cat", "dog"), mean=(0.25,), std=(0.5, 0.5, 0.75), pixels=12)


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        xcnorm.RXCNormConv2d(3, 8, 3, padding=1, padding_mode="replicate", preset="paper"),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 2),
    ).eval()


LOAD = """
import sys, torch
assert torch.export.load(sys.argv[1]).module()(torch.ones(1, 3, 12, 15)).shape == (1, 2)
assert "xcnorm" not in sys.modules
"""


def test_a_program_needs_nothing_of_ours_and_opens_in_an_audit(tmp_path):
    model, path = network(), tmp_path / "network.pt2"
    model.train()
    written = xcnorm.export_model(model, path, about=ABOUT)
    assert model.training
    assert written.any_size
    assert written.difference < 1e-5
    model.eval()
    program = torch.export.load(path)
    calls = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert not [call for call in calls if "xcnorm" in call]
    for shape in ((1, 3, 12, 12), (3, 3, 17, 9)):
        images = torch.rand(shape)
        assert_alike(program.module()(images), model, images)
    subject = open_model(path, CPU)
    assert (subject.classes, subject.pixels) == (("cat", "dog"), 12)
    assert subject.normalisation == Normalisation((0.25,), (0.5, 0.5, 0.75), "the file's own")
    pictures = torch.randint(0, 256, (2, 3, 12, 12), dtype=torch.uint8)
    with torch.no_grad():
        expected = model((pictures / 255 - 0.25) / torch.tensor([0.5, 0.5, 0.75]).view(3, 1, 1)).softmax(1)
    torch.testing.assert_close(subject.probabilities(pictures, subject.normalisation), expected)
    done = subprocess.run([sys.executable, "-c", LOAD, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_onnx_file_opens_in_an_audit_with_all_that_is_known(tmp_path):
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    model = network()
    xcnorm.export_model(model, tmp_path / "network.onnx", about=ABOUT)
    subject = open_model(tmp_path / "network.onnx", CPU)
    assert (subject.classes, subject.pixels, subject.batch) == (("cat", "dog"), 12, None)
    assert subject.normalisation == Normalisation((0.25,), (0.5, 0.5, 0.75), "the file's own")
    pictures = torch.randint(0, 256, (2, 3, 12, 12), dtype=torch.uint8)
    torch.testing.assert_close(
        subject.answers(pictures, subject.normalisation),
        open_model(model, CPU).answers(pictures, subject.normalisation),
        rtol=1e-4, atol=1e-5,
    )  # fmt: skip


def test_what_a_strangers_file_says_of_itself_is_looked_at(tmp_path):
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 2))
    torch.export.save(torch.export.export(model, (torch.ones(2, 3, 4, 4),)), tmp_path / "network.pt2")
    told = {
        "[1]": "no attribute",
        '{"classes": [1]}': "no text",
        '{"mean": ["a"]}': "no number",
        '{"std": [0]}': "no deviation",
        '{"pixels": -1}': "no size",
        "[" * 100000: "",
    }
    for text, words in told.items():
        with zipfile.ZipFile(tmp_path / "network.pt2") as source, zipfile.ZipFile(tmp_path / "told.pt2", "w") as made:
            for member in source.infolist():
                made.writestr(member, source.read(member))
            made.writestr("archive/extra/xcnorm", text)
        with pytest.raises(UserError, match=f"says about its network is damaged: .*{words}"):
            open_model(tmp_path / "told.pt2", CPU)


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")  # inductor's own
def test_a_package_is_native_code(tmp_path):
    model = nn.Sequential(nn.Flatten(), xcnorm.XCNormLinear(48, 6, norm="none"), nn.Linear(6, 2)).eval()
    with torch._inductor.config.patch({"cpp.simdlen": 1}):
        written = xcnorm.export_model(model, tmp_path / "network.aoti.pt2", pixels=4, about=ABOUT)
    assert written.difference < 1e-5
    package = torch._inductor.aoti_load_package(str(tmp_path / "network.aoti.pt2"))
    images = torch.rand(3, 3, 4, 4)
    assert_alike(package(images), model, images)
    assert About.of(package.get_metadata()["xcnorm"], "it").classes == ("cat", "dog")
    with pytest.raises(UserError, match="more than a graph and plain tensors"):
        open_model(tmp_path / "network.aoti.pt2", CPU)


def test_a_package_needs_a_compiler(tmp_path, monkeypatch):
    from torch._inductor import cpp_builder, exc

    def none():
        raise exc.InvalidCxxCompiler

    monkeypatch.setattr(cpp_builder, "get_cpp_compiler", none)
    with pytest.raises(UserError, match="needs a C\\+\\+ compiler, and none is found"):
        xcnorm.export_model(network(), tmp_path / "network.aoti.pt2", pixels=12)


def test_a_file_that_answers_differently_is_never_there(tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "fuse", lambda model: nn.Sequential(model, nn.Softplus()))
    (tmp_path / "network.pt2").write_text("the one before")
    with pytest.raises(UserError, match="answers differently, by"):
        xcnorm.export_model(nn.Sequential(nn.Flatten(), nn.Linear(48, 2)), tmp_path / "network.pt2", pixels=4)
    assert [each.read_text() for each in tmp_path.iterdir()] == ["the one before"]


def test_what_depends_on_the_size_is_written_for_one_size(tmp_path):
    class Sized(nn.Module):
        """Answers another thing to large images."""

        def forward(self, images):
            return images.mean((2, 3)) * (2.0 if images.shape[2] > 12 else 1.0)

    assert not xcnorm.export_model(Sized(), tmp_path / "sized.pt2", pixels=12).any_size


def test_a_fused_network_is_exported_as_it_is(tmp_path):
    model = nn.Sequential(xcnorm.XCNormConv2d(3, 4, 3, norm="batch"), nn.Flatten()).eval()
    written = xcnorm.export_model(xcnorm.fuse(model), tmp_path / "network.pt2", pixels=6)
    assert written.difference < 1e-5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"path": "network.pth", "pixels": 12}, r"network\.pth names no format; write one of NAME\.onnx \(ONNX\)"),
        ({"path": "network.pt2"}, "size of its images is not known"),
        ({"path": "network.onnx", "pixels": 12, "device": "cuda"}, "not for ONNX files"),
        ({"path": "network.pt2", "pixels": 12, "channels": 5}, "cannot trace this network"),
    ],
)
def test_what_cannot_be_honoured_is_refused(arguments, words, tmp_path):
    with pytest.raises(UserError, match=words):
        xcnorm.export_model(network(), **arguments | {"path": tmp_path / arguments["path"]})
    assert list(tmp_path.iterdir()) == []


def test_formats_are_found_by_the_end_of_a_name(tmp_path):
    assert [find_format(tmp_path / f"a{each.suffix}") for each in FORMATS] == list(FORMATS)


def test_a_network_in_float64_is_exported_in_float32(tmp_path):
    model = make("wide_resnet", "conv").double()
    assert xcnorm.export_model(model, tmp_path / "network.pt2", pixels=16).difference < 1e-4
    assert next(model.parameters()).dtype == torch.float64
