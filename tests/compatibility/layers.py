"""Small checkpoints of every kind of layer, and what each answers: ``python -m tests.compatibility.layers``.

Only kinds that are new are added to the file; what it holds already must go on loading.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.soak.variants import SHAPES, VARIANTS, Tiny

FILE = Path(__file__).with_name("layers.safetensors")


def images(rank: str) -> Tensor:
    """What a layer is asked about."""
    count = torch.arange(torch.Size(SHAPES[rank]).numel(), dtype=torch.float32)
    return torch.sin(count * 1.7).view(SHAPES[rank])


def trained(name: str) -> Tiny:
    """A network of a kind whose averages and learnt numbers are no longer those that it starts with."""
    torch.manual_seed(0)
    network = VARIANTS[name]()
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1)
    for factor in (1.0, 3.0):
        loss = network(factor * images(network.rank) + 1).square().sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return network.eval()


def stored() -> dict[str, dict[str, Tensor]]:
    """By kind the state, and the output under the name ``output``."""
    found: dict[str, dict[str, Tensor]] = {}
    for key, value in load_file(FILE).items():
        name, _, tensor = key.partition("/")
        found.setdefault(name, {})[tensor] = value
    return found


def main() -> None:
    """Add what is not there yet."""
    kinds = stored() if FILE.exists() else {}
    for name in VARIANTS:
        if name not in kinds:
            network = trained(name)
            output = network(images(network.rank)).detach()
            kinds[name] = {**network.state_dict(), "output": output}
    save_file({f"{name}/{key}": value for name, kind in kinds.items() for key, value in kind.items()}, FILE)


if __name__ == "__main__":
    main()
