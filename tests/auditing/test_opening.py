"""Opening models: every form is the same network, and nothing that could run code is loaded."""

import sys

import pytest
import torch
from torch import nn

import xcnorm
from tests.auditing.small import CLASSES, Brightness, folder
from tests.report.folders import settings, write_run
from xcnorm.auditing import open_model
from xcnorm.auditing.subject import Normalisation
from xcnorm.engine import RunFolder
from xcnorm.engine.experiment import make_experiment
from xcnorm.engine.networks import build_network
from xcnorm.errors import UserError

CPU = torch.device("cpu")
HALF = Normalisation((0.5,), (0.5,))
IMAGES = torch.randint(0, 256, (5, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))
EXPECTED = Brightness().eval()((IMAGES.float() / 255 - 0.5) / 0.5).softmax(1).detach()


def exported(path, batch):
    shapes = None if batch else ({0: torch.export.Dim("batch", min=1)},)
    program = torch.export.export(Brightness().eval(), (torch.zeros(batch or 2, 3, 16, 16),), dynamic_shapes=shapes)
    torch.export.save(program, path)
    return path


def test_an_import_path_is_called(tmp_path, monkeypatch):
    (tmp_path / "my_networks.py").write_text(
        "from tests.auditing.small import Brightness\nbuild = Brightness\nready = Brightness()\nnumber = 3\n"
        "def fail():\n    raise RuntimeError('no weights')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("my_networks:build", "my_networks:ready"):
        assert torch.allclose(open_model(name, CPU).probabilities(IMAGES, HALF), EXPECTED, atol=1e-6)
    for name, words in (
        ("my_networks:number", "neither a network nor"),
        ("my_networks:fail", "RuntimeError: no weights"),
        ("my_networks:absent", "has no absent"),
        ("my_absent:build", "cannot import my_absent"),
    ):
        with pytest.raises(UserError, match=words):
            open_model(name, CPU)
    sys.modules.pop("my_networks")


@pytest.mark.parametrize("batch", [None, 2], ids=["any", "two"])
def test_an_exported_program_answers_to_any_number_of_pictures(batch, tmp_path):
    subject = open_model(exported(tmp_path / "network.pt2", batch), CPU)
    assert (subject.pixels, subject.batch) == (16, batch)
    assert torch.allclose(subject.probabilities(IMAGES, HALF), EXPECTED, atol=1e-6)


def test_a_run_brings_its_classes_its_size_and_its_normalisation(tmp_path):
    config = settings(data__mean=0.25, data__std=[0.5, 0.5, 0.75])
    path = write_run(tmp_path, config, {"mnist_m": 0.5})
    network = build_network(make_experiment(config), 10, CPU)
    RunFolder(path).save_weights("last", network.state_dict())
    subject = open_model(path, CPU)
    assert subject.classes == tuple("0123456789")
    assert subject.pixels == 32
    assert subject.normalisation == Normalisation((0.25,), (0.5, 0.5, 0.75), "the run's own")
    images = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    with torch.no_grad():
        expected = network.eval()((images / 255 - 0.25) / torch.tensor([0.5, 0.5, 0.75]).view(3, 1, 1)).softmax(1)
    assert torch.allclose(subject.probabilities(images, subject.normalisation), expected, atol=1e-5)
    data = folder(tmp_path / "pictures", 2, dict(zip(CLASSES, ("7", "1", "3"), strict=True)))
    found = xcnorm.audit(path, data, corruptions="contrast", device="cpu")
    assert [scored.name for scored in found.models[0].classes] == ["1", "3", "7"]
    (data / "1").rename(data / "one")
    with pytest.raises(UserError, match="unknown class 'one'"):
        xcnorm.audit(path, data, corruptions="contrast", device="cpu")


def test_an_onnx_file_needs_its_extra_or_runs(tmp_path):
    path = tmp_path / "network.onnx"
    path.write_bytes(b"")
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        words = r'onnxruntime\); install it with: pip install "xcnorm\[audit\]"'
    else:
        words = "cannot be read as an ONNX file"
    with pytest.raises(UserError, match=words):
        open_model(path, CPU)


def test_onnx_runs_as_torch_does(tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    weight = torch.randn(3 * 16 * 16, 4)
    info, node = onnx.helper.make_tensor_value_info, onnx.helper.make_node
    graph = onnx.helper.make_graph(
        [node("Flatten", ["x"], ["flat"]), node("MatMul", ["flat", "w"], ["y"])],
        "linear",
        [info("x", onnx.TensorProto.FLOAT, [2, 3, 16, 16])],
        [info("y", onnx.TensorProto.FLOAT, [2, 4])],
        [onnx.numpy_helper.from_array(weight.numpy(), "w")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "linear.onnx")
    subject = open_model(tmp_path / "linear.onnx", CPU)
    assert (subject.pixels, subject.batch) == (16, 2)
    expected = ((IMAGES.float() / 255 - 0.5) / 0.5).flatten(1) @ weight
    assert torch.allclose(subject.answers(IMAGES, HALF), expected, atol=1e-3)


class Odd(nn.Module):
    """Answers in ways that call for a word."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, images: torch.Tensor) -> object:
        rows = images.mean((2, 3))
        if self.how == "random":
            return rows + torch.rand_like(rows)
        if self.how == "batch":
            return rows - rows.mean(0)
        return rows.softmax(1) if self.how == "probabilities" else {"logits": rows}


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("random", "asked again"),
        ("batch", "depends on the other pictures"),
        ("probabilities", "no softmax was applied"),
        ("mapping", None),
    ],
)
def test_answers_that_cannot_be_relied_on_are_told(how, words):
    subject = open_model(Odd(how), CPU)
    subject.look_at_answers(IMAGES[:4], HALF, 3)
    assert (words is None and subject.notes == []) or words in subject.notes[0]
    assert subject.probabilities(IMAGES, HALF).sum(1) == pytest.approx(torch.ones(5))
