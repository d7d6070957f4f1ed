"""One layer for a profiler to look at: a few training steps of it and nothing else.

    ncu --clock-control none --kernel-name "regex:_correlate|_weight_gradient|_input_gradient" \\
        --section Occupancy --section SchedulerStats --section InstructionStats --section SpeedOfLight \\
        --section LaunchStats \\
        python -m benchmarks.one_layer "256 to 256, 3x3/2, 28 px, batch 64" --side r_xcnorm
"""

from __future__ import annotations

import argparse

from xcnorm.bench.conditions import Conditions
from xcnorm.bench.shapes import NETWORKS, shapes_of
from xcnorm.bench.sides import SIDES, make
from xcnorm.bench.timing import make_steps
from xcnorm.errors import UserError, unknown_name

STEPS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", help="as in the tables of docs/performance.md")
    parser.add_argument("--side", choices=[side.name for side in SIDES], default="r_xcnorm")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--precision", choices=["fp32", "bf16", "tf32"], default="bf16")
    given = parser.parse_args()
    shapes = {shape.name: shape for shape in shapes_of(tuple(NETWORKS), given.device)}
    if given.case not in shapes:
        raise UserError(unknown_name("case", given.case, shapes))
    shape, conditions = shapes[given.case], Conditions(given.device, given.precision)
    (side,) = (side for side in SIDES if side.name == given.side)
    with conditions.applied():
        input = conditions.input(shape.input_size, gradient=not shape.first)
        step = make_steps(conditions.place(make(side, shape)), input, conditions, "eager")["both"]
        for _ in range(STEPS):
            step(input)


if __name__ == "__main__":
    main()
