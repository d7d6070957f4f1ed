"""Whatever a stranger's bytes are, the answer is a result or one line: no other exception."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzzing.changes import changed
from tests.fuzzing.command_line import COMMANDS
from tests.fuzzing.structures import restructured
from tests.fuzzing.target import answer
from tests.fuzzing.targets import TARGETS

EXAMPLES = {**dict.fromkeys(TARGETS, 60), **dict.fromkeys(COMMANDS, 15)}


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_crash(name, tmp_path_factory):
    target = TARGETS[name](tmp_path_factory.mktemp("target"))

    @settings(max_examples=EXAMPLES[name], suppress_health_check=list(HealthCheck))
    @given(changed(target.seeds, target.tokens), st.booleans(), st.sampled_from(target.seeds), st.randoms())
    def feed(data, structured, seed, random):
        answer(target, restructured(seed, random) if target.structured and structured else data)

    for seed in target.seeds:
        answer(target, seed)
    feed()
