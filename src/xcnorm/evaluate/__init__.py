"""Evaluation: scores of predictions, means over targets, and what several seeds allow one to say."""

from xcnorm.evaluate.aggregate import average, category_means, severity_means
from xcnorm.evaluate.metrics import score
from xcnorm.evaluate.robustness import by_category, robustness_score
from xcnorm.evaluate.statistics import Comparison, Summary, compare, compare_predictions, summarise

__all__ = [
    "Comparison",
    "Summary",
    "average",
    "by_category",
    "category_means",
    "compare",
    "compare_predictions",
    "robustness_score",
    "score",
    "severity_means",
    "summarise",
]
