"""All targets by name."""

from tests.fuzzing.command_line import COMMANDS
from tests.fuzzing.readers import READERS
from tests.fuzzing.states import STATES
from tests.fuzzing.target import Prepared

TARGETS: dict[str, Prepared] = {**READERS, **STATES, **COMMANDS}
