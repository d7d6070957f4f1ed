"""Writes what the next version must still load: ``python -m tests.compatibility.make tests/compatibility/VERSION``.

A finished run, an interrupted one with what it came to when it went on, and the weights and outputs of single layers.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn

import xcnorm
from xcnorm.models import Network, Wiring, register_model

CLASSES = ("upright", "level")
STOPPED = 6
SETTINGS = {
    "benchmark": "folder",
    "benchmark_options": {"source": "source", "validation": 0.2},
    "model": {"name": "compatibility", "layer": "r_xcnorm", "options": {"preset": "paper"}},
    "method": {"name": "randconv"},
    "schedule": {"iterations": 12, "batch": 8},
    "run": {"checkpoint_every": 3, "evaluate_every": 4, "selection": ["last", "best_on_source"]},
}
LAYERS = {
    "xcnorm": ("XCNormConv2d", {}),
    "xcnorm_paper": ("XCNormConv2d", {"preset": "paper"}),
    "xcnorm_mask_groups": ("XCNormConv2d", {"mask": True, "groups": 2, "gain": "after_norm", "norm": "group"}),
    "r_xcnorm": ("RXCNormConv2d", {}),
    "r_xcnorm_paper": ("RXCNormConv2d", {"preset": "paper"}),
    "r_xcnorm_parameter": ("RXCNormConv2d", {"scale": "parameter", "robust": "huber", "rectify": "abs"}),
    "channelwise": ("XCNormConv2d", {"channelwise": True, "tau": "none", "gain": "none", "norm": "none"}),
    "linear": ("RXCNormLinear", {"preset": "paper"}),
}


@register_model("compatibility", hidden_dense=True)
def compatibility(wiring: Wiring, num_classes: int, in_channels: int) -> Network:
    """As small as a network can be."""
    trunk = nn.Sequential(
        wiring.unit(in_channels, 8, 5, first=True),
        nn.MaxPool2d(2),
        wiring.unit(8, 8, 3),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        wiring.dense(32, 16),
    )
    return Network(trunk, 16, num_classes)


def pictures(root: Path) -> Path:
    """Noise with an edge that stands or lies, in two domains."""
    generator = torch.Generator().manual_seed(0)
    for domain, brightness in (("source", 1.0), ("dark", 0.4)):
        images = torch.randint(0, 128, (40, 16, 16), generator=generator)
        images[::2, :, :8] += 120
        images[1::2, :8] += 120
        for number, image in enumerate((images * brightness).to(torch.uint8)):
            path = root / domain / CLASSES[number % 2] / f"{number:03d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image.numpy()).convert("RGB").save(path)
    return root


def layer(kind: str) -> nn.Module:
    """One of `LAYERS`, with random weights."""
    name, options = LAYERS[kind]
    torch.manual_seed(0)
    sizes = (12, 8) if name.endswith("Linear") else (4, 8, 3)
    return getattr(xcnorm, name)(*sizes, **({} if name.endswith("Linear") else {"padding": 1}), **options)


def inputs(kind: str) -> Tensor:
    """What a layer is fed with."""
    shape = (6, 12) if kind == "linear" else (6, 4, 9, 9)
    return torch.rand(shape, generator=torch.Generator().manual_seed(1))


def main(folder: Path) -> None:
    """Write all of it."""
    from xcnorm.engine import World, make_experiment, run_experiment

    shutil.rmtree(folder, ignore_errors=True)
    tensors: dict[str, Tensor] = {}
    for kind in LAYERS:
        made = layer(kind)
        made(inputs(kind)), made(inputs(kind))  # moves what averages there are
        made.eval()
        tensors |= {f"{kind}/state/{name}": value.clone() for name, value in made.state_dict().items()}
        tensors[f"{kind}/output"] = made(inputs(kind)).detach()
    folder.mkdir(parents=True)
    save_file(tensors, folder / "layers.safetensors")

    data, alone = pictures(folder / "pictures"), World(0, 1, torch.device("cpu"))
    run_experiment(make_experiment(SETTINGS), folder / "finished", alone, data=data)

    def stop(step: int, steps: int, loss: float) -> None:
        if step == STOPPED:
            raise KeyboardInterrupt

    try:
        run_experiment(make_experiment(SETTINGS | {"seed": 1}), folder / "interrupted", alone, data=data, progress=stop)
    except KeyboardInterrupt:
        shutil.copytree(folder / "interrupted", folder / "continued")
    run_experiment(make_experiment(SETTINGS | {"seed": 1}), folder / "continued", alone, data=data)
    for path in (*folder.glob("continued/**/checkpoint"), *folder.glob("finished/**/checkpoint"), folder / "pictures"):
        shutil.rmtree(path)
    for path in (*folder.glob("*/**/lock"), *folder.glob("*/**/environment.json")):
        path.unlink()
    print(json.dumps(sorted(str(path.relative_to(folder)) for path in folder.glob("**/*") if path.is_file()), indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
