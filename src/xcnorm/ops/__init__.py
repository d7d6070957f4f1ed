"""How the maths of `xcnorm.functional` runs: several backends behind one dispatch.

A backend is one file of this folder that defines ``BACKEND``; nothing else has to know of it.
"""

from xcnorm.ops.backend import Backend
from xcnorm.ops.correlation import Correlation, Similarity
from xcnorm.ops.dispatch import Explanation, backends, choose, explain, similarity
from xcnorm.ops.finish import Finish, Response

__all__ = [
    "Backend",
    "Correlation",
    "Explanation",
    "Finish",
    "Response",
    "Similarity",
    "backends",
    "choose",
    "explain",
    "similarity",
]
