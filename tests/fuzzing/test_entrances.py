"""Whatever a stranger's bytes are, the answer is a result or one line: no other exception."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzzing.changes import changed
from tests.fuzzing.command_line import COMMANDS
from tests.fuzzing.entrance import answer
from tests.fuzzing.entrances import ENTRANCES
from tests.fuzzing.structures import restructured

pytestmark = pytest.mark.soak
EXAMPLES = {**dict.fromkeys(ENTRANCES, 60), **dict.fromkeys(COMMANDS, 15)}


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_crash(name, tmp_path_factory):
    entrance = ENTRANCES[name](tmp_path_factory.mktemp("entrance"))

    @settings(max_examples=EXAMPLES[name], suppress_health_check=list(HealthCheck))
    @given(changed(entrance.seeds, entrance.tokens), st.booleans(), st.sampled_from(entrance.seeds), st.randoms())
    def feed(data, structured, seed, random):
        answer(entrance, restructured(seed, random) if entrance.structured and structured else data)

    for seed in entrance.seeds:
        answer(entrance, seed)
    feed()
