"""How the maths of `xcnorm.functional` runs: several backends behind one dispatch.

A layer makes a `Spec`, `choose` finds the backend, and the backend's one function answers it. A backend is a file or
folder of this package that registers itself; `formulas` is what they share.
"""

from xcnorm.ops.dispatch import Backend, Explanation, backends, choose, explain, register_backend
from xcnorm.ops.spec import Averages, ChannelNorm, Correlation, Response, Spec
from xcnorm.registry import discover

__all__ = [
    "Averages",
    "Backend",
    "ChannelNorm",
    "Correlation",
    "Explanation",
    "Response",
    "Spec",
    "backends",
    "choose",
    "explain",
    "register_backend",
]

# Now, and not when a layer first runs: a compiler that traces a layer must not run into an import.
discover(__name__)
