"""Reductions: the ways in which the scale c of a robust function is found. One file each."""

from xcnorm.nn.reductions.ema import MovingScale
from xcnorm.nn.reductions.parameter import LearntScale
from xcnorm.nn.reductions.patch import PatchScale
from xcnorm.nn.reductions.reduction import REDUCTIONS, RobustScale, register_reduction

__all__ = ["REDUCTIONS", "LearntScale", "MovingScale", "PatchScale", "RobustScale", "register_reduction"]
