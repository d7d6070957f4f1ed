"""`xcnorm doctor`."""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata, util
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from xcnorm._version import __version__
from xcnorm.cli import _output
from xcnorm.errors import unknown_name

PACKAGES = ("torch", "triton", "numpy", "pillow", "safetensors", "pydantic", "typer", "rich")
DEVELOPER_EXTRAS = {"dev", "docs", "test"}


def command(json: _output.Json = False) -> int:
    """Show what runs here and, for what does not, why: versions, devices, operator backends, extras.

    The exit code is 1 when networks cannot run.
    """
    report = examine()
    if json:
        _output.print_json(report)
    else:
        _render(report, _output.results())
    return 1 if report["problems"] else 0


def examine() -> dict[str, Any]:
    """Look at this installation and this machine; the result holds nothing but what JSON can hold."""
    torch = _torch()
    setting = os.environ.get("XCNORM_BACKEND")
    problems = []
    if torch["error"]:
        problems.append(f"torch cannot be imported: {torch['error']}")
    elif setting:
        reasons = {backend["name"]: backend["unavailable"] for backend in torch["backends"]}
        if setting not in reasons:
            problems.append(unknown_name("XCNORM_BACKEND", setting, reasons))
        elif reasons[setting]:
            problems.append(f"XCNORM_BACKEND asks for {setting!r}, which cannot run here: {reasons[setting]}")
    return {
        "versions": {"python": platform.python_version(), "xcnorm": __version__}
        | {name: _version(name) for name in PACKAGES},
        "platform": platform.platform(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "compiler": shutil.which(_compiler()),
        "torch": torch,
        "backend_setting": setting,
        "extras": _extras(),
        "torchvision": _torchvision(),
        "problems": problems,
    }


def _torch() -> dict[str, Any]:
    try:
        import torch
    except Exception as error:  # a torch that does not fit its libraries may raise anything
        return {"error": _one_line(error), "threads": None, "devices": [], "no_cuda": None, "backends": []}
    from xcnorm import ops

    devices = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        devices.append(
            {
                "device": f"cuda:{index}",
                "name": properties.name,
                "compute_capability": f"{properties.major}.{properties.minor}",
                "memory_gib": round(properties.total_memory / 2**30, 1),
            }
        )
    if torch.backends.mps.is_available():
        devices.append({"device": "mps", "name": platform.processor()})
    if torch.cuda.is_available():
        no_cuda = None
    elif torch.version.cuda or torch.version.hip:
        no_cuda = "torch finds no driver or no device"
    else:
        no_cuda = "this torch is built without it"
    backends = [
        {"name": backend.name, "summary": backend.summary, "unavailable": backend.unavailable()}
        for backend in ops.backends()
    ]
    return {
        "error": None,
        "threads": torch.get_num_threads(),
        "devices": devices,
        "no_cuda": no_cuda,
        "backends": backends,
    }


def _torchvision() -> dict[str, Any]:
    """Say whether torchvision is here and works; xcnorm does not use it, but its neighbours break with it."""
    if util.find_spec("torchvision") is None:
        return {"installed": False, "error": None}
    # In a process of its own: a torchvision that fails halfway leaves torch's operator registry damaged.
    attempt = subprocess.run([sys.executable, "-c", "import torchvision"], capture_output=True, text=True)
    error = (attempt.stderr.strip() or f"exit code {attempt.returncode}") if attempt.returncode else None
    return {"installed": True, "error": error and error.splitlines()[-1]}


def _extras() -> list[dict[str, Any]]:
    """List the extras a user may want; what they hold is read from the metadata of the installation."""
    needs: dict[str, list[str]] = {}
    for requirement in _requirements():
        extra = re.search(r"""extra\s*==\s*["']([\w-]+)""", requirement)
        if extra and extra[1] not in DEVELOPER_EXTRAS:
            needs.setdefault(extra[1], []).append(re.split(r"[^\w.-]", requirement)[0])
    return [
        {
            "name": extra,
            "missing": [name for name in names if _version(name) is None],
            "install": f'pip install "xcnorm[{extra}]"',
        }
        for extra, names in needs.items()
    ]


def _requirements() -> Iterable[str]:
    try:
        return metadata.requires("xcnorm") or ()
    except metadata.PackageNotFoundError:  # run from a source tree that is not installed
        return ()


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _compiler() -> str:
    """The C++ compiler that torch.compile calls on the CPU."""
    return os.environ.get("CXX") or {"darwin": "clang++", "win32": "cl"}.get(sys.platform, "g++")


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


class _Row(NamedTuple):
    name: str
    text: str
    style: str = ""


def _good(name: str, text: str) -> _Row:
    return _Row(name, text, "green")


def _absent(name: str, text: str) -> _Row:
    return _Row(name, text, "yellow")


def _bad(name: str, text: str) -> _Row:
    return _Row(name, text, "red")


def _render(report: dict[str, Any], console: Console) -> None:
    sections = {
        "versions": _version_rows(report),
        "machine": _machine_rows(report),
        "operator backends": _backend_rows(report),
        "extras": _extra_rows(report),
        "problems": (_bad(str(number), text) for number, text in enumerate(report["problems"], start=1)),
    }
    for title, lines in sections.items():
        rows = list(lines)
        if not rows:
            continue
        console.print(Text(title, style="bold"))
        if console.is_terminal:
            grid = Table.grid(padding=(0, 2))
            for row in rows:
                grid.add_row(Text(f"  {row.name}"), Text(row.text, style=row.style))
            console.print(grid)
        else:  # one line each, however long, for grep and for pasting into an issue
            width = max(len(row.name) for row in rows)
            for row in rows:
                console.out(f"  {row.name:<{width}}  {row.text}")


def _version_rows(report: dict[str, Any]) -> Iterator[_Row]:
    for name, version in report["versions"].items():
        yield _Row(name, version) if version else _absent(name, "not installed")
    torchvision = report["torchvision"]
    if torchvision["error"]:
        remedy = "remove it (pip uninstall torchvision) or install the build that matches torch"
        yield _bad("torchvision", f"installed but broken: {torchvision['error']}; {remedy}")
    elif torchvision["installed"]:
        yield _Row("torchvision", _version("torchvision") or "works")
    else:
        yield _Row("torchvision", "not installed, not needed")


def _machine_rows(report: dict[str, Any]) -> Iterator[_Row]:
    torch = report["torch"]
    yield _Row("platform", report["platform"])
    threads = f", torch uses {torch['threads']} threads" if torch["threads"] else ""
    yield _Row("cores", f"{report['cores']}{threads}")
    if report["compiler"]:
        yield _good("compiler", report["compiler"])
    else:
        yield _absent("compiler", f"no {_compiler()}: torch.compile does not work on the CPU")
    for device in torch["devices"]:
        details = [device["name"]]
        if "memory_gib" in device:
            details.append(f"compute capability {device['compute_capability']}")
            details.append(f"{device['memory_gib']} GiB")
        yield _good(device["device"], ", ".join(details))
    if torch["no_cuda"]:
        yield _absent("cuda", f"no: {torch['no_cuda']}")


def _backend_rows(report: dict[str, Any]) -> Iterator[_Row]:
    for backend in report["torch"]["backends"]:
        name, reason = backend["name"], backend["unavailable"]
        yield _absent(name, f"no: {reason}") if reason else _good(name, f"yes: {backend['summary']}")
    yield _Row("XCNORM_BACKEND", report["backend_setting"] or "not set: the best one for each call")


def _extra_rows(report: dict[str, Any]) -> Iterator[_Row]:
    for extra in report["extras"]:
        if extra["missing"]:
            yield _absent(extra["name"], f"no {', '.join(extra['missing'])}: {extra['install']}")
        else:
            yield _good(extra["name"], "installed")
