"""Metrics: scores of predictions, means over targets, and what several seeds allow one to say."""

from xcnorm.metrics.means import average, by_category, severity_means
from xcnorm.metrics.robustness import divergence, robustness_score
from xcnorm.metrics.scores import calibration_error, score
from xcnorm.metrics.statistics import Comparison, Summary, compare, compare_predictions, summarise
from xcnorm.metrics.streaming import RobustnessScore

__all__ = [
    "Comparison",
    "RobustnessScore",
    "Summary",
    "average",
    "by_category",
    "calibration_error",
    "compare",
    "compare_predictions",
    "divergence",
    "robustness_score",
    "score",
    "severity_means",
    "summarise",
]
