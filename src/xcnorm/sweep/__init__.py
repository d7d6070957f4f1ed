"""Many experiments: side by side on one machine or on a cluster, over one folder of runs."""

from xcnorm.sweep.board import Board, Entry, Row
from xcnorm.sweep.conduct import conduct
from xcnorm.sweep.display import Display, arms_table
from xcnorm.sweep.pool import LocalPool, Pool
from xcnorm.sweep.process import Job, Outcome
from xcnorm.sweep.ray_cluster import RayPool

__all__ = [
    "Board",
    "Display",
    "Entry",
    "Job",
    "LocalPool",
    "Outcome",
    "Pool",
    "RayPool",
    "Row",
    "arms_table",
    "conduct",
]
