"""The commands of the documentation are read by the command line itself, as far as they can be without their data."""

import contextlib
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import typer

from tests.test_docs import PAGES, ROOT, blocks
from tests.test_glossary import find
from xcnorm.cli import _app, main

# What typer raises where something is left out has no public name.
USAGE = typer.BadParameter.__mro__[1]
LEFT_OUT = tuple(
    kind
    for kind in (*USAGE.__subclasses__(), *typer.BadParameter.__subclasses__())
    if kind.__name__ in ("MissingParameter", "BadOptionUsage")
)


def commands(page: Path) -> list[str]:
    """The commands in a page's blocks, without the comments behind them, but for those that are shown to fail."""
    shell = "\n".join(blocks(page, "sh") + blocks(page, "bash")).replace("\\\n", " ")
    session = "\n".join(re.findall(r"^\$ (.+)\n(?!xcnorm: )", "\n".join(blocks(page, "text")), re.MULTILINE))
    found = (re.split(r"\s#|\s\|", line)[0].strip() for line in f"{shell}\n{session}".splitlines())
    return [line for line in found if line and not line.startswith("#")]


def mentioned(page: Path) -> list[str]:
    """The commands between a page's words, which may stop short."""
    return re.findall(r"(?<!`)`(xcnorm [a-z][^`]*)`(?!`)", page.read_text())


def read(line: str) -> None:
    """Let the command line read the arguments of a command of ours, without doing anything."""
    context, rest = typer.main.get_command(_app()), shlex.split(line[re.search(r"\bxcnorm ", line).end() :])
    parent = context.make_context("xcnorm", [], resilient_parsing=True)
    while rest and hasattr(context, "commands") and not rest[0].startswith("-"):  # a command with commands of its own
        assert rest[0] in context.commands, f"{line}: there is no command {rest[0]}"
        context, rest = context.commands[rest[0]], rest[1:]
    if "--help" not in rest:
        context.make_context(line, [word for word in rest if word != "..."], parent=parent)


OURS = re.compile(r"(PYTHONPATH=\S+ |torchrun .* -m )?xcnorm ")


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.name)
def test_commands_are_such_that_the_command_line_takes_them(page):
    ours = [line for line in commands(page) if OURS.match(line)]
    for line in ours:
        read(line)


def test_commands_between_words_are_there():
    found = {line.replace("\n", " ") for page in PAGES for line in mentioned(page)}
    assert len(found) > 40
    assert len(LEFT_OUT) == 2
    for line in found:
        with contextlib.suppress(*LEFT_OUT):
            read(line)


def test_other_commands_name_what_is_there():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for page in PAGES:
        for line in commands(page):
            if line.startswith("make "):
                assert line.split()[-1] in targets, line
            for module in re.findall(r"python -m (benchmarks\.\w+)", line):
                assert find(module), line
            for script in re.findall(r"python ((?:examples|tests)/\S+\.py)", line):
                assert (ROOT / script).exists(), line
            for names in re.findall(r"pip install .*\[(.+)\]", line):
                assert set(names.split(",")) <= set(extras), line


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "toml")], ids=lambda page: page.name)
def test_toml_is_toml(page):
    for block in blocks(page, "toml"):
        tomllib.loads(block)


def test_experiments_that_are_printed_can_be_planned(capsys):
    """Names and values of what is trained: docs/extending names what is added there, and some need a file or a run."""
    here = [page for page in PAGES if page.parent.name != "extending"]
    alone = re.compile(r"xcnorm train (?!.*--(?:config|start))")
    planned = {line for page in here for line in commands(page) if alone.match(line)}
    assert len(planned) > 20
    for line in planned:
        arguments = [word for word in shlex.split(line)[1:] if word not in ("...", "--dry-run")]
        assert main([*arguments, "--dry-run"]) == 0, f"{line}: {capsys.readouterr().err}"
