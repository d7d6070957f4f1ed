"""Many experiments: side by side on one machine or on a cluster, over one folder of runs."""

from xcnorm.sweep.board import ArmProgress, Board, Entry
from xcnorm.sweep.conduct import conduct
from xcnorm.sweep.display import Display, arms_table
from xcnorm.sweep.pool import LocalPool, Pool
from xcnorm.sweep.process import Job, Outcome
from xcnorm.sweep.ray_cluster import RayPool

__all__ = [
    "ArmProgress",
    "Board",
    "Display",
    "Entry",
    "Job",
    "LocalPool",
    "Outcome",
    "Pool",
    "RayPool",
    "arms_table",
    "conduct",
]
