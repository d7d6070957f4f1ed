"""Scores are those of torchmetrics, where that is installed."""

import pytest
import torch

from xcnorm.metrics import robustness_score, score

torchmetrics = pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")


def predictions(classes, count=400, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % classes
    logits = torch.randn(count, classes, generator=generator, dtype=torch.float64)
    logits[torch.arange(count), labels] += 1
    return logits.softmax(1), labels


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_scores(classes, seed):
    from torchmetrics.functional import classification as theirs

    probabilities, labels = predictions(classes, seed=seed)
    found = score(probabilities, labels)
    accuracy = theirs.multiclass_accuracy(probabilities, labels, classes, average="micro")
    recall = theirs.multiclass_recall(probabilities, labels, classes, average="macro")
    error = theirs.multiclass_calibration_error(probabilities, labels, classes, n_bins=15, norm="l1")
    if classes == 2:
        area = theirs.binary_auroc(probabilities[:, 1], labels)
    else:
        area = theirs.multiclass_auroc(probabilities, labels, classes, average="macro")
    assert found["accuracy"] == pytest.approx(accuracy.item(), abs=1e-6)
    assert found["balanced_accuracy"] == pytest.approx(recall.item(), abs=1e-6)
    assert found["calibration_error"] == pytest.approx(error.item(), abs=1e-6)
    assert found["auroc"] == pytest.approx(area.item(), abs=1e-6)


def test_the_robustness_score_is_a_mean_of_divergences():
    from torchmetrics.functional.regression import kl_divergence

    clean, _ = predictions(5)
    corrupted = [predictions(5, seed=seed)[0] for seed in range(1, 6)]
    expected = [kl_divergence(clean, each).item() for each in corrupted]
    assert robustness_score(clean, corrupted) == pytest.approx(sum(expected) / 5, rel=1e-5)
