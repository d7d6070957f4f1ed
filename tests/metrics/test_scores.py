"""Scores agree with scikit-learn's and with formulas written out anew, ties and absent classes included."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, balanced_accuracy_score, roc_auc_score

from xcnorm.errors import UserError
from xcnorm.metrics import calibration_error, score


def predictions(count, classes, seed=0, dtype=torch.float64):
    """Probabilities that know something of the labels, and the labels, with the classes in uneven shares."""
    generator = torch.Generator().manual_seed(seed)
    shares = torch.arange(1, classes + 1, dtype=torch.float64)
    labels = torch.multinomial(shares, count, replacement=True, generator=generator)
    logits = torch.randn(count, classes, generator=generator, dtype=torch.float64)
    logits[torch.arange(count), labels] += 1
    return logits.softmax(1).to(dtype), labels


def coarse(probabilities):
    """The same in steps of a tenth, so that many are tied; the last class takes what is left."""
    rows = (probabilities * 10).floor() / 10
    rows[:, -1] = 1 - rows[:, :-1].sum(1)
    return rows


def expected_calibration_error(probabilities, labels, bins=15):
    """Bin by bin, as it is defined: share of the images times the gap between accuracy and confidence."""
    confidence, predicted = probabilities.max(1), probabilities.argmax(1)
    error = 0.0
    for low, high in itertools.pairwise(np.linspace(0, 1, bins + 1)):
        inside = (confidence > low) & (confidence <= high)
        if inside.any():
            gap = abs((predicted == labels)[inside].mean() - confidence[inside].mean())
            error += inside.mean() * gap
    return error


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_scores_are_those_of_scikit_learn(classes, tied, dtype):
    probabilities, labels = predictions(500, classes, seed=classes)
    probabilities = (coarse(probabilities) if tied else probabilities).to(dtype)
    rows, truth = probabilities.double().numpy(), labels.numpy()
    actual = score(probabilities, labels)
    assert actual["count"] == 500
    assert actual["accuracy"] == pytest.approx(accuracy_score(truth, rows.argmax(1)))
    assert actual["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(truth, rows.argmax(1)))
    if classes == 2:
        area = roc_auc_score(truth, rows[:, 1])
    else:
        area = np.mean([roc_auc_score(truth == label, rows[:, label]) for label in range(classes)])
    assert actual["auroc"] == pytest.approx(area, abs=1e-12)
    assert actual["calibration_error"] == pytest.approx(expected_calibration_error(rows, truth), abs=1e-12)


def test_auroc_of_many_classes_is_scikit_learns_one_against_the_rest():
    probabilities, labels = predictions(300, 4)
    area = roc_auc_score(labels.numpy(), probabilities.numpy(), multi_class="ovr", average="macro")
    assert score(probabilities, labels)["auroc"] == pytest.approx(area, abs=1e-12)


def test_absent_classes_are_left_out():
    probabilities, labels = predictions(400, 5)
    labels[labels == 2] = 4
    labels[labels == 0] = 1
    truth, rows = labels.numpy(), probabilities.numpy()
    actual = score(probabilities, labels)
    recalls = [(rows[truth == label].argmax(1) == label).mean() for label in (1, 3, 4)]
    areas = [roc_auc_score(truth == label, rows[:, label]) for label in (1, 3, 4)]
    assert actual["balanced_accuracy"] == pytest.approx(np.mean(recalls))
    assert actual["auroc"] == pytest.approx(np.mean(areas))


@pytest.mark.parametrize(("classes", "label"), [(1, 0), (2, 0), (2, 1), (3, 1)])
def test_one_class_alone_has_no_auroc(classes, label):
    probabilities, _ = predictions(20, classes)
    actual = score(probabilities, torch.full((20,), label))
    assert actual["auroc"] is None
    assert actual["balanced_accuracy"] == actual["accuracy"]


@pytest.mark.parametrize(("of_one", "area"), [((0.2, 0.7), 1.0), ((0.7, 0.2), 0.0), ((0.4, 0.4), 0.5)])
def test_auroc_of_two_classes_is_that_of_class_one(of_one, area):
    ones = torch.tensor(of_one, dtype=torch.float64)
    assert score(torch.stack([1 - ones, ones], 1), torch.tensor([0, 1]))["auroc"] == area


def test_of_equally_probable_classes_the_first_counts():
    even = torch.full((3, 2), 0.5)
    assert score(even, torch.tensor([0, 0, 1]))["accuracy"] == pytest.approx(2 / 3)


def test_bins_of_calibration_are_closed_to_the_right():
    # 0.6 is an edge (9/15): it belongs with 0.58, below it, where the gaps -0.6 and +0.42 partly cancel.
    probabilities = torch.tensor([[0.6, 0.4], [0.58, 0.42], [0.62, 0.38]], dtype=torch.float64)
    labels = torch.tensor([1, 0, 0])
    assert score(probabilities, labels)["calibration_error"] == pytest.approx((abs(-0.6 + 0.42) + 0.38) / 3)


def test_the_edges_of_the_bins_are_evenly_spaced():
    """Two images, one right and one wrong, as sure: of one bin the gaps cancel, of two they add up."""
    for edge in range(1, 15):
        below, above = edge / 15 - 0.01, edge / 15 + 0.01
        confidence = torch.tensor([below, above], dtype=torch.float64)
        apart = (1 - below + above) / 2
        assert calibration_error(confidence, torch.tensor([True, False])) == pytest.approx(apart)


@given(st.integers(2, 6), st.integers(1, 60), st.integers(0, 10**6))
def test_scores_are_shares_and_the_order_of_images_does_not_matter(classes, count, seed):
    probabilities, labels = predictions(count, classes, seed)
    actual = score(probabilities, labels)
    assert all(value is None or 0 <= value <= 1 for name, value in actual.items() if name != "count")
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    assert score(probabilities[order], labels[order]) == pytest.approx(actual)


@given(st.integers(0, 10**6))
def test_auroc_only_depends_on_the_order_of_probabilities(seed):
    probabilities, labels = predictions(40, 2, seed)
    ones = probabilities[:, 1] ** 3
    bent = torch.stack([1 - ones, ones], 1)
    assert score(bent, labels)["auroc"] == score(probabilities, labels)["auroc"]


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.bool])
def test_labels_may_be_of_any_integer_type(dtype):
    probabilities, labels = predictions(30, 2)
    assert score(probabilities, labels.to(dtype)) == score(probabilities, labels)


def test_inputs_stay_as_they_are_and_may_carry_gradients():
    probabilities, labels = predictions(30, 3)
    before = probabilities.clone(), labels.clone()
    score(probabilities.requires_grad_(), labels)
    assert torch.equal(probabilities, before[0])
    assert torch.equal(labels, before[1])


GOOD = torch.tensor([[0.5, 0.5], [0.9, 0.1]])


@pytest.mark.parametrize(
    ("probabilities", "labels", "message"),
    [
        (torch.zeros(0, 2), torch.zeros(0).long(), r"shape \(N, C\), neither of them 0, not \(0, 2\)"),
        (torch.zeros(2, 0), torch.tensor([0, 1]), r"not \(2, 0\)"),
        (GOOD[:, 0], torch.tensor([0, 1]), r"not \(2,\)"),
        (torch.tensor([[0.5, 0.5], [math.nan, 0.5]]), torch.tensor([0, 1]), "row 1 is not; apply a softmax"),
        (torch.tensor([[math.inf, 0.5], [0.5, 0.5]]), torch.tensor([0, 1]), r"^the probabilities must .* row 0 is not"),
        (torch.tensor([[2.0, -1.0], [0.5, 0.5]]), torch.tensor([0, 1]), r"^the probabilities must .* row 0 is not"),
        (torch.tensor([[0.5, 0.5], [0.5, 0.4]]), torch.tensor([0, 1]), "row 1 is not"),
        (GOOD, torch.tensor([0]), r"2 rows of probabilities need labels of the shape \(2,\), not \(1,\)"),
        (GOOD, torch.tensor([[0], [1]]), r"not \(2, 1\)"),
        (GOOD, torch.tensor([0.0, 1.0]), "integers, not torch.float32"),
        (GOOD, torch.tensor([0, 2]), "from 0 to 1 for 2 classes, but they are from 0 to 2"),
        (GOOD, torch.tensor([-1, 1]), "from -1 to 1"),
    ],
)
def test_bad_input_is_named_in_one_line(probabilities, labels, message):
    with pytest.raises(UserError, match=message) as caught:
        score(probabilities, labels)
    assert "\n" not in str(caught.value)
