"""What became of mutants is read from mutmut's files and counted by part."""

import json

from benchmarks.mutation import rows, verdicts


def test_survivors_are_counted_by_part_and_kernels_are_left_out(tmp_path):
    codes = {
        "xcnorm.functional.gain.x_gain__mutmut_1": 1,
        "xcnorm.functional.gain.x_gain__mutmut_2": 0,
        "xcnorm.functional.robust.huber.x__kernel__mutmut_1": 33,
        "xcnorm.ops.formulas.ncc.x_pad__mutmut_1": 33,
        "xcnorm.ops.formulas.ncc.x_pad__mutmut_2": None,
        "xcnorm.metrics.means.x_average__mutmut_1": -24,
    }
    for at, (name, code) in enumerate(codes.items()):
        (tmp_path / f"{at}.meta").write_text(json.dumps({"exit_code_by_key": {name: code}}))
    formulas, plain, metrics = rows(verdicts(tmp_path))
    assert formulas == {
        "part": "formulas", "mutants": 4, "tried": 3, "survived": 2, "survived in %": 66.7,
    }  # fmt: skip
    assert (plain["mutants"], plain["survived in %"]) == (0, None)
    assert (metrics["tried"], metrics["survived"]) == (1, 0)
