"""Converted networks can be written as ONNX, where the packages for it are installed, and compute the same there."""

import pytest
import torch

from tests.conversion.test_compiling import converted


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning")
@pytest.mark.parametrize("name", ["resnet", "densenet", "mobilenet v3", "convnext"])
def test_onnx_computes_the_same(name, tmp_path):
    for package in ("onnx", "onnxscript"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    # Layers with stages of their own sharpen with a copysign, which torch's exporter does not know.
    model, images = converted(name, stages="model").eval(), torch.randn(2, 3, 32, 32)
    torch.onnx.export(model, (images,), tmp_path / "model.onnx", dynamo=True, verbose=False)
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    (output,) = session.run(None, {session.get_inputs()[0].name: images.numpy()})
    torch.testing.assert_close(torch.from_numpy(output), model(images), rtol=1e-3, atol=1e-4)
