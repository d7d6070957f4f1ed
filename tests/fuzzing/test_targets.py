"""Whatever a stranger's bytes are, the answer is a result or one line: no other exception."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzzing.changes import changed
from tests.fuzzing.command_line import COMMANDS
from tests.fuzzing.readers import READERS
from tests.fuzzing.states import STATES
from tests.fuzzing.target import answer

EXAMPLES = {**dict.fromkeys(READERS, 60), **dict.fromkeys(STATES, 60), **dict.fromkeys(COMMANDS, 15)}


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_crash(name, tmp_path_factory):
    prepare = {**READERS, **STATES, **COMMANDS}[name]
    target = prepare(tmp_path_factory.mktemp("target"))

    @settings(max_examples=EXAMPLES[name], suppress_health_check=list(HealthCheck))
    @given(changed(target.seeds, target.tokens))
    def feed(data):
        answer(target, data)

    for seed in target.seeds:
        answer(target, seed)
    feed()
