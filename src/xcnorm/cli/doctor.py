"""`xcnorm doctor`: what runs on this machine and, for what does not, why."""

import os
import platform
import re
import shutil
import subprocess
import sys
from importlib import metadata, util
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from xcnorm._version import __version__
from xcnorm.cli import _output
from xcnorm.environment import cores
from xcnorm.errors import unknown_name

PACKAGES = ("torch", "triton", "numpy", "pillow", "safetensors", "pydantic", "typer", "rich")
DEVELOPER_EXTRAS = {"dev", "docs", "test"}

Line = tuple[str, str, str]
"""What is spoken of, what is said, and in which colour."""


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
        "cores": cores(),
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
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return {"error": reason, "threads": None, "devices": [], "no_cuda": None, "backends": []}
    from xcnorm import ops

    devices: list[dict[str, Any]] = []
    for index in range(torch.cuda.device_count()):
        found = torch.cuda.get_device_properties(index)
        capability, memory = f"{found.major}.{found.minor}", round(found.total_memory / 2**30, 1)
        device = {"device": f"cuda:{index}", "name": found.name}
        devices.append(device | {"compute_capability": capability, "memory_gib": memory})
    if torch.backends.mps.is_available():
        devices.append({"device": "mps", "name": platform.processor()})
    no_cuda = None
    if not torch.cuda.is_available():
        built = torch.version.cuda or torch.version.hip
        no_cuda = "torch finds no driver or no device" if built else "this torch is built without it"
    return {
        "error": None,
        "threads": torch.get_num_threads(),
        "devices": devices,
        "no_cuda": no_cuda,
        "backends": [
            {"name": backend.name, "summary": backend.summary, "unavailable": backend.unavailable()}
            for backend in ops.backends()
        ],
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
    try:
        requirements = metadata.requires("xcnorm") or ()
    except metadata.PackageNotFoundError:  # run from a source tree that is not installed
        requirements = ()
    missing: dict[str, list[str]] = {}
    for requirement in requirements:
        extra = re.search(r"""extra\s*==\s*["']([\w-]+)""", requirement)
        if extra and extra[1] not in DEVELOPER_EXTRAS:
            name = re.split(r"[^\w.-]", requirement)[0]
            missing.setdefault(extra[1], []).extend([] if _version(name) else [name])
    return [
        {"name": extra, "missing": names, "install": f'pip install "xcnorm[{extra}]"'}
        for extra, names in missing.items()
    ]


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _compiler() -> str:
    """The C++ compiler that torch.compile calls on the CPU."""
    return os.environ.get("CXX") or {"darwin": "clang++", "win32": "cl"}.get(sys.platform, "g++")


def _render(report: dict[str, Any], console: Console) -> None:
    for title, rows in _sections(report).items():
        if not rows:
            continue
        console.print(Text(title, style="bold"))
        if console.is_terminal:
            grid = Table.grid(padding=(0, 2))
            for name, text, colour in rows:
                grid.add_row(Text(f"  {name}"), Text(text, style=colour))
            console.print(grid)
        else:  # one line each, however long, for grep and for pasting into an issue
            width = max(len(name) for name, *_ in rows)
            for name, text, _ in rows:
                console.out(f"  {name:<{width}}  {text}")


def _sections(report: dict[str, Any]) -> dict[str, list[Line]]:
    torch, compiler = report["torch"], report["compiler"]
    threads = f", torch uses {torch['threads']} threads" if torch["threads"] else ""
    no_compiler = f"no {_compiler()}: torch.compile does not work on the CPU"
    machine = [
        ("platform", report["platform"], ""),
        ("cores", f"{report['cores']}{threads}", ""),
        ("compiler", compiler, "green") if compiler else ("compiler", no_compiler, "yellow"),
        *(_about_device(device) for device in torch["devices"]),
    ]
    if torch["no_cuda"]:
        machine.append(("cuda", f"no: {torch['no_cuda']}", "yellow"))
    setting = report["backend_setting"] or "not set: the best one for each call"
    return {
        "versions": [
            *(
                (name, version or "not installed", "" if version else "yellow")
                for name, version in report["versions"].items()
            ),
            _about_torchvision(report["torchvision"]),
        ],
        "machine": machine,
        "operator backends": [*map(_about_backend, torch["backends"]), ("XCNORM_BACKEND", setting, "")],
        "extras": [*map(_about_extra, report["extras"])],
        "problems": [(str(number), text, "red") for number, text in enumerate(report["problems"], start=1)],
    }


def _about_torchvision(found: dict[str, Any]) -> Line:
    if found["error"]:
        remedy = "remove it (pip uninstall torchvision) or install the build that matches torch"
        return "torchvision", f"installed but broken: {found['error']}; {remedy}", "red"
    installed = found["installed"]
    return "torchvision", (_version("torchvision") or "works") if installed else "not installed, not needed", ""


def _about_device(device: dict[str, Any]) -> Line:
    details = [device["name"]]
    if "memory_gib" in device:
        details += [f"compute capability {device['compute_capability']}", f"{device['memory_gib']} GiB"]
    return device["device"], ", ".join(details), "green"


def _about_backend(backend: dict[str, Any]) -> Line:
    if backend["unavailable"]:
        return backend["name"], f"no: {backend['unavailable']}", "yellow"
    return backend["name"], f"yes: {backend['summary']}", "green"


def _about_extra(extra: dict[str, Any]) -> Line:
    if extra["missing"]:
        return extra["name"], f"no {', '.join(extra['missing'])}: {extra['install']}", "yellow"
    return extra["name"], "installed", "green"
