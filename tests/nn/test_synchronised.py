"""Two processes with half a batch each learn what one learns from the whole batch; one pair of them runs all cases."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import product
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import xcnorm.nn as xnn
from tests.nn.layers import LAYERS, input_for
from xcnorm.errors import UserError
from xcnorm.models import WideResNet, Wiring, create_model

# One process for all of it: what it starts with is dear.
pytestmark = pytest.mark.xdist_group("nn_synchronised")

TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4}
EVEN, UNEVEN, IDLE = (4, 4), (3, 5), (0, 8)


@dataclass(frozen=True)
class Case:
    """A model, the shape of its images, and how many of them each process gets."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    shares: tuple[int, int] = EVEN
    dtype: torch.dtype = torch.float64

    def batches(self) -> list[Tensor]:
        """Three batches, their first half brighter and of more contrast: no process sees what is typical."""
        generator = torch.Generator().manual_seed(1)
        batches = torch.randn(3, sum(self.shares), *self.shape, generator=generator, dtype=torch.float64)
        batches[:, : batches.shape[1] // 2] *= 3
        batches[:, : batches.shape[1] // 2] += 2
        return list(batches.to(self.dtype))


def plain(rank: int, channels_in: int, channels_out: int) -> nn.Module:
    """What stands before the layer in question and learns only if the right gradient leaves the layer's input."""
    return (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)[rank](channels_in, channels_out, *(1,) * (rank > 0))


class Variants(nn.Module):
    """A plain layer and, side by side behind it, one layer of a class for every combination of options."""

    def __init__(self, rank: int, kind: type[xnn.XCNormLayer]) -> None:
        super().__init__()
        self.first = plain(rank, 6, 6)
        self.variants = nn.ModuleDict()
        norms = ("batch", "none") if kind.dense else ("batch", "instance", "none")
        scales = ("ema", "parameter", "patch") if kind.robust else ("",)
        for norm, mask, scale in product(norms, (False, True), scales):
            options = {"norm": norm, "mask": mask} | ({"scale": scale, "c_init": 2.0} if scale else {})
            self.variants[f"{norm}-{mask}-{scale}"] = kind(6, 4, *(2,) * (rank > 0), **options)

    def forward(self, input: Tensor) -> Tensor:
        input = self.first(input)
        return torch.stack([variant(input) for variant in self.variants.values()], 1)


def layer_cases() -> dict[str, Case]:
    kinds = {
        0: (xnn.XCNormLinear, xnn.RXCNormLinear),
        1: (xnn.XCNormConv1d, xnn.RXCNormConv1d),
        2: (xnn.XCNormConv2d, xnn.RXCNormConv2d),
        3: (xnn.XCNormConv3d, xnn.RXCNormConv3d),
    }
    return {
        kind.__name__: Case(partial(Variants, rank, kind), (6, *(5, 4, 3)[:rank]))
        for rank in kinds
        for kind in kinds[rank]
    }


def norm_cases() -> dict[str, Case]:
    norms = {
        "BatchNorm1d": (0, lambda: nn.BatchNorm1d(5)),
        "BatchNorm1d-positions": (1, lambda: nn.BatchNorm1d(5)),
        "BatchNorm2d": (2, lambda: nn.BatchNorm2d(5)),
        "BatchNorm2d-without-affine": (2, lambda: nn.BatchNorm2d(5, affine=False)),
        "BatchNorm2d-cumulative": (2, lambda: nn.BatchNorm2d(5, momentum=None)),
        "BatchNorm2d-untracked": (2, lambda: nn.BatchNorm2d(5, track_running_stats=False)),
        "BatchNorm3d": (3, lambda: nn.BatchNorm3d(5)),
        "BatchTestNorm": (2, lambda: xnn.BatchTestNorm(5)),
    }
    return {
        name: Case(lambda rank=rank, norm=norm: nn.Sequential(plain(rank, 4, 5), norm()), (4, *(4, 3, 2)[:rank]))
        for name, (rank, norm) in norms.items()
    }


def network_cases() -> dict[str, Case]:
    """The digits network as in the paper, and small wide ones, also with shares of 3 and 5 and of none and all."""
    digits = {
        "digits_cnn-conv": lambda: create_model("digits_cnn", "conv", "batch"),
        "digits_cnn-xcnorm": lambda: create_model("digits_cnn", "xcnorm", preset="paper"),
        "digits_cnn-r_xcnorm": lambda: create_model("digits_cnn", "r_xcnorm", preset="paper"),
    }
    wide = {
        "wide-conv": lambda: WideResNet(10, 1, Wiring("conv")),
        "wide-r_xcnorm": lambda: WideResNet(10, 1, Wiring("r_xcnorm", preset="paper")),
    }
    return (
        {name: Case(make, (3, 20, 20)) for name, make in digits.items()}
        | {name: Case(make, (3, 8, 8)) for name, make in wide.items()}
        | {f"{name}-uneven": Case(make, (3, 8, 8), UNEVEN) for name, make in wide.items()}
        | {f"{name}-idle": Case(make, (3, 8, 8), IDLE) for name, make in wide.items()}
    )


def dictionary_cases() -> dict[str, Case]:
    """Of eight words, so that each process proposes four, from four equal parts of its half."""

    def make() -> nn.Module:
        return nn.Sequential(
            xnn.Rebuilt(nn.Conv2d(3, 6, 3), xnn.Dictionary(6, words=8, chosen=3, momentum=0.3)),
            nn.ReLU(),
            nn.Conv2d(6, 4, 2),
        )

    return {"Dictionary": Case(make, (3, 6, 6))}


CASES = layer_cases() | norm_cases() | network_cases() | dictionary_cases()
CASES |= {
    f"{name}-float32": replace(case, dtype=torch.float32)
    for name, case in CASES.items()
    if not name.startswith("digits")  # five million weights: once is enough
}


@dataclass
class Training:
    """What is left of three steps: the outputs, the last gradients and the buffers."""

    outputs: list[Tensor]
    gradients: dict[str, Tensor]
    buffers: dict[str, Tensor]


def train(case: Case, process: int | None = None, synchronised: bool = True) -> Training:
    """Train on the whole batch, or as one of two processes on a share of it."""
    torch.manual_seed(0)
    model = case.make().to(case.dtype)
    learner, share, processes = model, slice(None), 1
    if process is not None:
        if synchronised:
            xnn.synchronise(model)
        learner = DistributedDataParallel(model)
        share, processes = (slice(case.shares[0]), slice(case.shares[0], None))[process], 2
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    outputs = []
    for images in case.batches():
        optimiser.zero_grad()
        output = learner(images[share])
        # The mean over the whole batch, once the processes' gradients are averaged.
        (output.sin().sum() * processes / (len(images) * output.shape[1:].numel())).backward()
        optimiser.step()
        outputs.append(output.detach())
    return Training(outputs, {name: p.grad for name, p in model.named_parameters()}, dict(model.named_buffers()))


# Values far from zero, with a level of their own in each half; and the precisions that autocast may ask for.
HARD = {
    "far": (torch.float32, 3000.0),
    "bfloat16": (torch.bfloat16, 1.0),
    "float16": (torch.float16, 1.0),
}


def hard_batch(name: str) -> tuple[Tensor, Tensor]:
    """Values ``(8, 3, 4, 4)`` and a gradient for them."""
    dtype, level = HARD[name]
    generator = torch.Generator().manual_seed(2)
    values = torch.randn(8, 3, 4, 4, generator=generator, dtype=torch.float64) + level
    values[:4] += 10
    return values.to(dtype), torch.randn(8, 3, 4, 4, generator=generator, dtype=torch.float64).to(dtype)


def normalise_hard_batch(name: str, process: int) -> dict[str, Tensor]:
    values, grad = (half.chunk(2)[process] for half in hard_batch(name))
    values = values.clone().requires_grad_()
    norm = xnn.synchronise(nn.BatchNorm2d(3))
    with torch.autocast("cpu", torch.bfloat16, enabled=name == "bfloat16"):
        output = norm(values)
    output.backward(grad)
    return {"output": output.detach(), "grad": values.grad, "mean": norm.running_mean, "variance": norm.running_var}


def paper_layer() -> nn.Module:
    torch.manual_seed(0)
    return xnn.RXCNormConv2d(4, 6, 3, preset="paper")


def learn_nothing() -> dict[str, tuple[Tensor, Tensor]]:
    """Every buffer after a batch, and after one more of which no process has any."""
    torch.manual_seed(0)
    layers = nn.Sequential(paper_layer(), nn.BatchNorm2d(6), xnn.Dictionary(6, words=8, chosen=3))
    images = input_for(layers[0])
    xnn.synchronise(layers)(images)
    before = {name: buffer.clone() for name, buffer in layers.named_buffers()}
    layers(images[:0])
    return {name: (before[name], buffer) for name, buffer in layers.named_buffers()}


def work(process: int, folder: Path) -> None:
    """What each of the two processes does."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting",
        rank=process,
        world_size=2,
        timeout=timedelta(seconds=120),
    )
    results = {name: train(case, process) for name, case in CASES.items()}
    if process == 1:
        for training in results.values():
            training.gradients.clear()  # averaged, so those of process 0
    results |= {name: normalise_hard_batch(name, process) for name in HARD}
    results["apart"] = train(CASES["wide-conv"], process, synchronised=False)
    results["idle dictionary"] = train(replace(CASES["Dictionary"], shares=IDLE), process)
    results["nothing"] = learn_nothing()
    if process == 0:  # alone: it would wait for the other for ever if there were anything to say
        layer = xnn.synchronise(paper_layer()).eval()
        results["evaluation"] = layer(input_for(layer))
    dist.barrier()
    torch.save(results, folder / f"{process}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> list[dict]:
    folder = tmp_path_factory.mktemp("processes")
    torch.multiprocessing.spawn(work, (folder,), nprocs=2)
    files = [folder / f"{process}.pt" for process in range(2)]
    results = [torch.load(file, weights_only=False) for file in files]
    for file in files:
        file.unlink()
    return results


@pytest.mark.parametrize("name", CASES)
def test_two_processes_learn_what_one_does(results, name):
    first, second = (result[name] for result in results)
    whole = train(CASES[name])
    close = dict.fromkeys(("rtol", "atol"), TOLERANCE[CASES[name].dtype])
    together = [torch.cat(outputs) for outputs in zip(first.outputs, second.outputs, strict=True)]
    torch.testing.assert_close(together, whole.outputs, **close)
    torch.testing.assert_close(first.gradients, whole.gradients, **close)
    torch.testing.assert_close(first.buffers, whole.buffers, **close)
    torch.testing.assert_close(second.buffers, first.buffers, rtol=0, atol=0)


def test_without_synchronisation_they_learn_something_else(results):
    outputs = torch.cat([result["apart"].outputs[0] for result in results])
    assert (outputs - train(CASES["wide-conv"]).outputs[0]).abs().max() > 0.1


def test_a_process_without_images_has_the_dictionary_of_the_others(results):
    first, second = (result["idle dictionary"].buffers for result in results)
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    assert all(buffer.isfinite().all() for buffer in first.values())
    assert first["0.dictionary.num_batches_tracked"] == 3


def test_a_batch_that_no_process_has_teaches_nothing(results):
    for name, (before, after) in results[0]["nothing"].items():
        if name.endswith("norm.num_batches_tracked") or name == "1.num_batches_tracked":  # torch's norms count it
            continue
        assert torch.equal(before, after), name


@pytest.mark.parametrize("name", HARD)
def test_statistics_are_accurate_whatever_the_values_and_their_precision(results, name):
    values, grad = (half.double() for half in hard_batch(name))
    values.requires_grad_()
    mean, variance = torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    output = F.batch_norm(values, mean, variance, training=True)
    output.backward(grad)
    dtype = HARD[name][0]
    rounding = 1e-3 if name == "far" else 2 * torch.finfo(dtype).eps
    for process, result in enumerate(item[name] for item in results):
        assert result["output"].dtype == result["grad"].dtype == dtype
        assert result["mean"].dtype == torch.float32
        for actual, expected in ((result["output"], output), (result["grad"], values.grad)):
            torch.testing.assert_close(
                actual.double(), expected.detach().chunk(2)[process], rtol=rounding, atol=rounding
            )
        torch.testing.assert_close(result["mean"].double(), mean, rtol=1e-6, atol=0)
        torch.testing.assert_close(result["variance"].double(), variance, rtol=1e-4, atol=0)


def test_nothing_is_communicated_in_evaluation_mode(results):
    layer = paper_layer().eval()
    assert torch.equal(results[0]["evaluation"], layer(input_for(layer)))


@pytest.mark.parametrize("name", LAYERS)
def test_one_process_notices_nothing(name):
    torch.manual_seed(0)
    expected = LAYERS[name]()
    actual = xnn.synchronise(copy.deepcopy(expected))
    for training in (True, False):
        images = input_for(expected)
        assert torch.equal(actual.train(training)(images), expected.train(training)(images))
    torch.testing.assert_close(actual.state_dict(), expected.state_dict(), rtol=0, atol=0)


def test_synchronise_keeps_modules_parameters_and_buffers():
    model = WideResNet(10, 1, Wiring("r_xcnorm", preset="paper"))
    modules, state = list(model.modules()), model.state_dict()
    plain_norms = [m for m in modules if isinstance(m, nn.BatchNorm2d)]
    scales = [m for m in modules if isinstance(m, xnn.MovingScale)]
    assert plain_norms
    assert scales
    for _ in range(2):  # the second time there is nothing left to do
        assert xnn.synchronise(model) is model
        assert all(type(m) is xnn.SyncBatchNorm for m in plain_norms)
        assert all(type(m) is xnn.SyncMovingScale for m in scales)
        assert list(model.modules()) == modules
        after = model.state_dict()
        assert list(after) == list(state)
        assert all(after[key].data_ptr() == state[key].data_ptr() for key in state)
    WideResNet(10, 1, Wiring("r_xcnorm", preset="paper")).load_state_dict(after)
    images = torch.randn(2, 3, 8, 8)
    expected = model.eval()(images)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(images), expected)


def test_a_norm_alone_or_in_two_places_is_synchronised():
    shared = nn.BatchNorm1d(3)
    model = nn.ModuleList([shared, nn.Sequential(shared)])
    xnn.synchronise(model)
    assert model[0] is model[1][0] is shared
    assert type(shared) is xnn.SyncBatchNorm
    assert type(xnn.synchronise(nn.BatchNorm3d(3))) is xnn.SyncBatchNorm


@pytest.mark.parametrize("kind", ["instance", "group", "layer", "none"])
def test_norms_of_one_image_are_left_alone(kind):
    norm = xnn.make_norm(kind, 4, 2)
    before = type(norm)
    assert type(xnn.synchronise(norm)) is before
    assert type(xnn.synchronise(nn.InstanceNorm2d(4, track_running_stats=True))) is nn.InstanceNorm2d


def test_another_batch_norm_is_refused():
    class Own(nn.BatchNorm2d):
        pass

    with pytest.raises(UserError, match=r"^block\.norm is a Own, .*; use torch\.nn\.BatchNorm1d, 2d or 3d"):
        xnn.synchronise(nn.ModuleDict({"block": nn.ModuleDict({"norm": Own(3)})}))
    with pytest.raises(UserError, match=r"^the model is a LazyBatchNorm2d"):
        xnn.synchronise(nn.LazyBatchNorm2d())


@pytest.mark.parametrize("shape", [(3,), (2, 4), (2, 1, 5)])
def test_wrong_shape_is_refused(shape):
    with pytest.raises(ValueError, match=r"input must have shape \(N, 3, then any positions\), got"):
        xnn.SyncBatchNorm(3)(torch.randn(shape))
