import importlib.metadata
import io
import json
import re
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rich.console import Console

from xcnorm import ops
from xcnorm.cli import doctor, main


@pytest.fixture(autouse=True)
def no_backend_setting(monkeypatch):
    monkeypatch.delenv("XCNORM_BACKEND", raising=False)


def report(capsys) -> dict[str, Any]:
    code = main(["doctor", "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert code == (1 if found["problems"] else 0)
    return found


def test_json_says_what_is_here(capsys):
    found = report(capsys)
    assert found["versions"]["torch"] == torch.__version__
    assert found["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["torch"]["threads"] == torch.get_num_threads()
    assert [backend["name"] for backend in found["torch"]["backends"]] == [b.name for b in ops.backends()]
    provided = set(importlib.metadata.metadata("xcnorm").get_all("Provides-Extra") or ())
    assert {extra["name"] for extra in found["extras"]} == provided - {"docs", "test", "dev"}
    assert found["problems"] == []


def test_the_page_names_every_backend_and_says_why_one_cannot_run(monkeypatch, capsys):
    reason = "no CUDA device" + 20 * " at all"
    works = SimpleNamespace(name="works", summary="always", unavailable=lambda: None)
    cannot = SimpleNamespace(name="cannot", summary="never", unavailable=lambda: reason)
    monkeypatch.setattr(ops, "backends", lambda: (works, cannot))
    assert main(["doctor"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "works yes: always" in lines
    # Piped, a line is never folded.
    assert f"cannot no: {reason}" in lines


@pytest.mark.parametrize(
    ("setting", "problem"),
    [("plan", "did you mean 'plain'?"), ("cannot", "cannot run here: no CUDA device")],
)
def test_a_backend_setting_that_cannot_work_is_a_problem(setting, problem, monkeypatch, capsys):
    backends = [
        SimpleNamespace(name="plain", summary="", unavailable=lambda: None),
        SimpleNamespace(name="cannot", summary="", unavailable=lambda: "no CUDA device"),
    ]
    monkeypatch.setattr(ops, "backends", lambda: backends)
    monkeypatch.setenv("XCNORM_BACKEND", setting)
    (found,) = report(capsys)["problems"]
    assert "XCNORM_BACKEND" in found
    assert problem in found


def test_a_torch_that_cannot_be_imported_is_a_problem(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)
    (found,) = report(capsys)["problems"]
    assert found.startswith("torch cannot be imported: ModuleNotFoundError")
    assert main(["doctor"]) == 1
    assert found in capsys.readouterr().out


def test_a_missing_extra_comes_with_the_command_that_adds_it(monkeypatch, capsys):
    version = importlib.metadata.version

    def without_matplotlib(name: str) -> str:
        if name == "matplotlib":
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(importlib.metadata, "version", without_matplotlib)
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert 'no matplotlib: pip install "xcnorm[report]"' in out
    assert "xcnorm[data]" not in out


def test_a_broken_torchvision_is_named_and_is_not_fatal(tmp_path, monkeypatch, capsys):
    (tmp_path / "torchvision.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "installed but broken: RuntimeError: operator torchvision::nms does not exist; remove it" in out
    assert "torchvision" not in sys.modules


def test_a_terminal_gets_colours_and_lines_that_fit(monkeypatch):
    reason = "the kernels are compiled for a device that this machine does not have"
    backend = SimpleNamespace(name="cannot", summary="", unavailable=lambda: reason)
    monkeypatch.setattr(ops, "backends", lambda: [backend])
    page = io.StringIO()
    terminal = Console(file=page, force_terminal=True, color_system="standard", width=40)
    doctor._render(doctor.examine(), terminal)
    assert "\x1b[33m" in page.getvalue()
    lines = re.sub(r"\x1b\[[\d;]*m", "", page.getvalue()).splitlines()
    assert max(map(len, lines)) <= 40
    # Folded inside its column, not cut.
    assert f"no: {reason}" in " ".join(line[18:].strip() for line in lines)
