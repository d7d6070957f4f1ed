"""Fusion: a network for inference, in which all that does not move any more has become constants."""

from xcnorm.fusion.fusing import fuse, is_fused
from xcnorm.fusion.report import Fused, FusionReport, fusion_report

__all__ = ["Fused", "FusionReport", "fuse", "fusion_report", "is_fused"]
