"""Licences of everything that xcnorm installs: those that let anybody use and pass on the whole."""

import re
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ALLOWED = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "ISC",
    "MIT", "MIT-CMU", "PSF-2.0", "Zlib",
    "MPL-2.0",  # asks to publish changes of its own files, and we change none
}  # fmt: skip
# What packages without an SPDX expression say instead, in their classifiers or in words of their own.
SAID = {
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "3-Clause BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}


def licence(distribution):
    """The SPDX expression of a distribution, or what it says instead."""
    told = distribution.metadata
    classifiers = [line.split(" :: ")[-1] for line in told.get_all("Classifier", []) if "License :: OSI" in line]
    said = told.get("License-Expression") or " AND ".join(SAID.get(one, one) for one in classifiers)
    words = (told.get("License") or "").strip().split("\n")[0]
    return said or SAID.get(words, words) or "no licence"


def forbidden(expression):
    """What of an expression is not allowed: of alternatives one must be."""
    choices = [re.split(r" AND ", choice) for choice in expression.replace("(", "").replace(")", "").split(" OR ")]
    offending = [[one for one in choice if one not in ALLOWED] for choice in choices]
    return min(offending, key=len)


def dependencies():
    """Everything that is installed here because xcnorm or one of its extras asks for it."""
    found, waiting = {}, ["xcnorm"]
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in found:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # of an extra or a machine that is not this one
        waiting += [Requirement(line).name for line in found[name].requires or ()]
    return found


@pytest.mark.parametrize(("name", "distribution"), dependencies().items())
def test_every_dependency_may_be_used_by_anybody(name, distribution):
    said = licence(distribution)
    assert not forbidden(said), f"{name} {distribution.version} is under {said}; find another, or allow it here"


@pytest.mark.parametrize(
    ("expression", "offending"),
    [
        ("MIT AND Zlib", []),
        ("GPL-3.0-or-later OR MIT", []),
        ("MIT AND GPL-3.0-or-later", ["GPL-3.0-or-later"]),
        ("(AGPL-3.0-only)", ["AGPL-3.0-only"]),
        ("no licence", ["no licence"]),
    ],
)
def test_what_is_not_allowed_is_named(expression, offending):
    assert forbidden(expression) == offending


def package(folder, *lines):
    (folder / "METADATA").write_text("\n".join(["Metadata-Version: 2.4", "Name: x", "Version: 1", *lines]))
    return metadata.PathDistribution(folder)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["License-Expression: ISC", "Classifier: License :: OSI Approved :: MIT License"], "ISC"),
        (["License: as you like", "Classifier: License :: OSI Approved :: BSD License"], "BSD-3-Clause"),
        (["Classifier: License :: OSI Approved :: GNU General Public License v3 (GPLv3)"],
         "GNU General Public License v3 (GPLv3)"),
        (["License: Apache 2.0"], "Apache-2.0"),
        (["License: as you like"], "as you like"),
        ([], "no licence"),
    ],
)  # fmt: skip
def test_a_licence_is_read_where_a_package_says_it(tmp_path, lines, expected):
    assert licence(package(tmp_path, *lines)) == expected
