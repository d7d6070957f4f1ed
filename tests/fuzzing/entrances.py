"""All entrances by name."""

from tests.fuzzing.command_line import COMMANDS
from tests.fuzzing.entrance import Prepared
from tests.fuzzing.readers import READERS
from tests.fuzzing.states import STATES

ENTRANCES: dict[str, Prepared] = {**READERS, **STATES, **COMMANDS}
