"""Results of comparisons that nobody measured."""

from xcnorm.bench.sides import CONV, OURS


def row(case, side, eager, compiled=None, memory_mib=1.0):
    def times(both):
        spread = {"low": both, "median": both, "high": both}
        return {"inference": spread, "forward": spread, "both": spread, "backward": {"median": 0.0}}

    modes = {"eager": times(eager)} | ({"compiled": times(compiled)} if compiled else {})
    return {"case": case, "precision": "fp32", "side": side, "gate": None, "memory_mib": memory_mib, "times": modes}


def made_up(**sides):
    """A result in which a side takes some time on a narrow and on a wide layer, where torch's own takes 1."""
    rows = [row(case, CONV.name, 1.0, 0.5) for case in ("narrow", "wide")]
    for side in (side.name for side in OURS):
        narrow, wide = sides.get(side.replace(" ", "_"), (1.0, 1.0))
        rows += [row("narrow", side, narrow, memory_mib=1.5), row("wide", side, wide, 1.0)]
    cases = {"narrow": {"channels_out": 16}, "wide": {"channels_out": 64}}
    return {
        "subject": "layers",
        "device": "cpu",
        "precisions": ["fp32"],
        "modes": ["eager"],
        "cases": cases,
        "rows": rows,
    }
