"""Files of settings and results as entrances: configs, presets, checkpoints, weights, metrics, audits, model files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

import xcnorm
from tests.auditing.small import TYPES, Brightness
from tests.fuzzing.entrance import Entrance, Prepared, file
from tests.report.folders import settings, write_run
from xcnorm.auditing import cells, load_audit, open_model
from xcnorm.cli._arguments import parse_changes
from xcnorm.engine import RunFolder, list_presets, load_preset, make_experiment
from xcnorm.engine.checkpoint import load_checkpoint, save_checkpoint
from xcnorm.engine.experiment import Experiment, merge
from xcnorm.engine.runs import mean_over_targets, read_config
from xcnorm.engine.shipped import _FOLDER
from xcnorm.methods import list_methods
from xcnorm.models import list_models
from xcnorm.nn import FORMS
from xcnorm.report import build, find_runs
from xcnorm.report.write import TEXTS

CPU = torch.device("cpu")
_NAMES = (*list_models(), *FORMS, *list_methods())
_WORDS = tuple(
    f"{word}".encode()
    for word in (*_NAMES, *Experiment.model_fields, "options", "[model.options]\n", '"', "'''", "\\u0000", "inf", "nan")
)


def _config(folder: Path) -> Entrance:
    seeds = [
        Experiment(),
        make_experiment({"model": {"layer": "r_xcnorm", "options": {"preset": "paper", "tau": 2.0}}}),
        make_experiment({"model": {"name": "wrn16_4", "layer": "bcos"}, "schedule": {"epochs": 3}}),
        make_experiment({"method": {"name": "pden", "augment": "randconv", "options": {"domains": 2}}}),
    ]
    path = folder / "config.toml"
    return Entrance(
        tuple(seed.to_toml().encode() for seed in seeds),
        file(path, lambda: make_experiment(read_config(path)).hash),
        _WORDS,
        structured=True,
    )


def _preset(folder: Path) -> Entrance:
    path = folder / "own.toml"
    files = sorted(_FOLDER.rglob("*.toml"))  # type: ignore[attr-defined]
    own = b"""
title = "t"
seeds = [0, 1]
base = {benchmark = "digits-mini"}
across = {"model.name" = ["digits_cnn", "wrn16_4"]}
[[arms]]
label = "a"
set = {"model.layer" = "xcnorm"}
paper = {mnist_m = 61.3}
[[arms]]
preset = "methods/randconv"
[[published]]
label = "b"
mnist_m = 50
"""
    seeds = [own, *(each.read_bytes() for each in files if b"[[arms]]" in each.read_bytes())]
    tokens = (*_WORDS, *(name.encode() for name in list_presets()[:30]), b"across", b"[[published]]\n", b"preset = ")
    small = [seed for seed in seeds if len(seed) < 1500]
    return Entrance(tuple(small), file(path, lambda: load_preset(path).experiments()), tokens, structured=True)


def _changes(folder: Path) -> Entrance:
    del folder
    base = Experiment().model_dump(mode="json")

    def run(data: bytes) -> object:
        lines = data.decode("utf-8", "surrogateescape").split("\n")
        return make_experiment(merge(base, parse_changes(lines))).hash

    seeds = (
        b"schedule.iterations=3\nmodel.layer=xcnorm\nmodel.options.tau=2.0",
        b'data.augment=["flip"]\nrun.precision=bf16\nseed=3',
        b'method.name=randconv\nmethod.options={"mix": true}\noptimiser.learning_rate=1e-3',
    )
    return Entrance(seeds, run, (*_WORDS, b"=", b".", b"{", b"[", b"1e999", b"NaN"))


def _checkpoint(name: str, folder: Path) -> Entrance:
    state = {"model": {"w": torch.arange(6.0).view(2, 3), "n": torch.tensor(3)}, "list": [1, None, (2.5, "x")], 7: True}
    save_checkpoint(folder, 12, state)
    path = folder / "step-000000012" / name

    def run() -> None:
        found = load_checkpoint(folder)
        assert found is None or found[0] == 12

    tokens = (b'{"tensor": "0"}', b'{"items": []}', b'{"list": []}', b"[")
    return Entrance((path.read_bytes(),), file(path, run), tokens, structured=name == "state.json")


def _weights(folder: Path) -> Entrance:
    path = folder / "last.safetensors"
    tensors = {"a.weight": torch.randn(2, 3), "b": torch.zeros((), dtype=torch.int64), "h": torch.ones(3).bfloat16()}
    save_file(tensors, path)
    return Entrance((path.read_bytes(),), file(path, lambda: RunFolder(folder).weights("last")), (b'"data_offsets"',))


def _run_file(name: str, folder: Path) -> Entrance:
    """A run's files as reports and the tables of `xcnorm train` read them."""
    run = write_run(folder, settings(benchmark="digits-mini"), {"mnist_m": 0.7, "inverted": 0.4})

    def read() -> object:
        TEXTS["markdown"](build(find_runs(folder)))
        if name == "metrics.json":
            with RunFolder(run).metrics() as metrics:
                mean_over_targets(metrics, "last")
            return RunFolder(run).trained()
        return None

    return Entrance(
        ((run / name).read_bytes(),), file(run / name, read), (b"null", b"NaN", b"[]", b"{}"), structured=True
    )


def _audit(folder: Path) -> Entrance:
    pictures = torch.rand(6, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    batches = [(pictures, torch.arange(6) % 3)]
    found = xcnorm.audit(Brightness(), batches, corruptions=",".join(TYPES), mean=0.5, std=0.5, device="cpu")
    path = folder / "audit.json"

    def read() -> object:
        audit = load_audit(path)
        return str(audit), [model.corrupted for model in audit.models]

    return Entrance((found.to_json().encode(),), file(path, read), (b"null", b"NaN", b"[]", b"1e400"), structured=True)


def _cell(folder: Path) -> Entrance:
    path = folder / "cell-fog.npz"
    cells._write(path, cells.Answered(np.zeros((5, 4), np.int32), np.ones((5, 4), np.float32), np.zeros((5, 4))))
    return Entrance((path.read_bytes(),), file(path, lambda: cells._read(path, "fog", 4)))


def _exported(folder: Path) -> Entrance:
    path = folder / "network.pt2"
    torch.export.save(torch.export.export(Brightness().eval(), (torch.zeros(2, 3, 16, 16),)), path)
    return Entrance((path.read_bytes(),), file(path, lambda: open_model(path, CPU)), (b'"use_pickle": true',))


STATES: dict[str, Prepared] = {
    "read a config": _config,
    "read a preset": _preset,
    "read --set": _changes,
    "load a checkpoint's state": lambda folder: _checkpoint("state.json", folder),
    "load a checkpoint's tensors": lambda folder: _checkpoint("tensors.safetensors", folder),
    "load weights": _weights,
    "report on a config": lambda folder: _run_file("config.toml", folder),
    "report on metrics": lambda folder: _run_file("metrics.json", folder),
    "report on a log": lambda folder: _run_file("log.jsonl", folder),
    "load an audit": _audit,
    "read an audit's cell": _cell,
    "open an exported model": _exported,
}
