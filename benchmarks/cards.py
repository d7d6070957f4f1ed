"""Cards of benchmarks and methods, written from the code: what each is, what it needs, what can be set.

    python -m benchmarks.cards docs

writes ``docs/data-cards.md`` and ``docs/methods/cards.md``.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

from xcnorm import data
from xcnorm.data import list_benchmarks
from xcnorm.data.card import Card
from xcnorm.data.download.remote import RemoteFile
from xcnorm.methods import Augmentation, Method, find_method, list_methods

SCORES = {"accuracy": "accuracy", "balanced_accuracy": "balanced accuracy", "auroc": "AUROC"}


def data_cards() -> str:
    """The page of all benchmarks."""
    head = (
        "# Data cards\n\nWhat every benchmark is, who made it, and what it is read from, as `xcnorm data list NAME` "
        "tells it. [Data](data.md) says how to get it and which options there are.\n\n"
        "This page is written by `python -m benchmarks.cards docs`."
    )
    return "\n\n".join([head, *(_data_card(data.card(name)) for name in list_benchmarks())]) + "\n"


def _data_card(card: Card) -> str:
    classes = f"{len(card.classes)}: {', '.join(card.classes)}" if card.classes else "your folders'"
    rows = {
        "learned and tested": card.summary,
        "classes": classes,
        "pixels": str(card.pixels or "your pictures'"),
        "scored by": SCORES[card.metric],
        "terms": card.licence,
        "to cite": card.citation,
    }
    parts = [f"## `{card.name}`", f"**{card.title}**", _table(("", ""), rows.items())]
    if card.files:
        parts.append(_table(("file", "size", "checksum", "from"), map(_file, card.files)))
    return "\n\n".join(parts)


def _file(file: RemoteFile) -> tuple[str, ...]:
    checksum = (
        f"SHA-256 `{file.sha256[:12]}…`" if file.sha256 else f"MD5 `{file.md5}`" if file.md5 else "none published"
    )
    hosts = ", ".join(dict.fromkeys(re.findall(r"//([^/]+)/", " ".join(file.urls))))
    return f"`{file.path}`", f"{file.size:,}" if file.size else "", checksum, hosts or file.manual


def method_cards() -> str:
    """The page of all methods."""
    head = (
        "# Method cards\n\nThe settings of every method, what they mean and what they are unless set, and what a "
        "method can do. The page behind a name has its objective, where its defaults come from, and what came out.\n\n"
        "```sh\nxcnorm train --method ada --set method.options.phases=2\n```\n\n"
        "This page is written by `python -m benchmarks.cards docs`."
    )
    return "\n\n".join([head, *(_method_card(find_method(name)) for name in list_methods())]) + "\n"


def _method_card(method: type[Method]) -> str:
    summary, meanings = inspect.getdoc(method) or "", dict[str, str]()
    for kind in reversed(method.__mro__):
        meanings |= _attributes(kind.__doc__ or "")
    known = [
        (f"`{each.name}`", f"`{_shown(each.default)}`", meanings[each.name].replace("|", "\\|"))
        for each in fields(method)
    ]
    facts = [
        f"A step costs about {method.cost:g} of ERM's",
        "stands on top of any other method as well" if issubclass(method, Augmentation) else "",
        f"one process only: {method.distributed}" if method.distributed else "runs in several processes",
        "its steps can be a CUDA graph" if method.capturable else "its steps cannot be a CUDA graph",
        "" if method.scalable else "not in fp16",
        f"ERM with {_neutral(method)}" if method.neutral else "",
    ]
    parts = [
        f"## [`{method.name}`]({method.name}.md)",
        summary.partition("\n")[0],
        "; ".join(filter(None, facts)) + ".",
    ]
    return "\n\n".join(parts + ([_table(("setting", "default", "what it is"), known)] if known else []))


def _neutral(method: type[Method]) -> str:
    return ", ".join(f"`{name}={_shown(value)}`" for name, value in method.neutral.items())


def _attributes(docstring: str) -> dict[str, str]:
    """What a class's docstring says of its attributes, each on one line."""
    _, _, section = inspect.cleandoc(docstring).partition("Attributes:\n")
    entries = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", section, re.MULTILINE)
    return {name: re.sub(r"``([^`]+)``", r"`\1`", " ".join(text.split())) for name, text in entries}


def _shown(value: object) -> str:
    """A default as it is written after ``--set``."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_shown, value))}]"
    return f"{value:g}" if isinstance(value, float) else repr(value).replace("'", '"')


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [tuple(header), *(tuple(row) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [lines[0], ("---",) * len(lines[0]), *lines[1:]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("docs", type=Path)
    docs = parser.parse_args().docs
    (docs / "data-cards.md").write_text(data_cards(), encoding="utf-8")
    (docs / "methods" / "cards.md").write_text(method_cards(), encoding="utf-8")


if __name__ == "__main__":
    main()
