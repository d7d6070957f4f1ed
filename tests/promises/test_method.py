"""A method of one's own: the file of docs/extending/method.md, in a temporary folder."""

import json
import os
import re

from tests.promises import ROOT, commands, plugin, run, scanners


def test_it_keeps_the_contract_of_methods(tmp_path):
    (contract,) = commands("method", "python -m pytest")
    said = run(*contract, "-p", "no:cacheprovider", plugin=plugin("method", tmp_path), folder=ROOT)
    assert re.search(r"\d\d passed", said)


def test_the_commands_of_the_page_train(tmp_path):
    """On the small benchmark of another page, whose plugin stands beside this one."""
    method, (benchmark, changes) = plugin("method", tmp_path), scanners(tmp_path)
    for arguments in commands("method", "xcnorm train"):
        run(
            *arguments,
            *changes,
            "--model",
            "digits_cnn",
            plugin=method,
            XCNORM_PLUGINS=f"{method}{os.pathsep}{benchmark}",
        )
    configs = [file.read_text() for file in tmp_path.rglob("config.toml")]
    found = {("alpha = 0.4" in text, 'augment = "randconv"' in text) for text in configs}
    assert found == {(False, False), (True, True)}
    for metrics in tmp_path.rglob("metrics.json"):
        assert json.loads(metrics.read_text())["steps"] == 2


def test_its_settings_are_checked_like_those_of_others(tmp_path):
    program = """
from xcnorm.errors import UserError
from xcnorm.methods import find_method

for wrong in ({"alpha": -1.0}, {"alpha": "much"}, {"alhpa": 0.1}):
    try:
        find_method("mixup").check(wrong)
    except UserError as error:
        print(error)
"""
    assert run("-c", program, plugin=plugin("method", tmp_path)).splitlines() == [
        "alpha of method mixup must be 0 or more, not -1.0",
        "option alpha of method mixup cannot be 'much', such as 0.2",
        "unknown option of method mixup 'alhpa'; did you mean 'alpha'? (known: 'alpha')",
    ]
