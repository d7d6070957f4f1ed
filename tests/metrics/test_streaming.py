"""Batch by batch, and process by process, the score is that of all images at once."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from xcnorm.errors import UserError
from xcnorm.metrics import RobustnessScore, robustness_score


def predictions(count=7, classes=4, severities=3):
    generator = torch.Generator().manual_seed(0)
    clean, *corrupted = torch.randn(1 + severities, count, classes, generator=generator).softmax(2)
    return clean, corrupted


def parts(clean, corrupted, *places):
    """What falls between places of a list of images."""
    return [
        (clean[start:end], [rows[start:end] for rows in corrupted])
        for start, end in zip((0, *places), (*places, len(clean)), strict=True)
    ]


def test_uneven_batches_give_the_score_of_all_images():
    clean, corrupted = predictions()
    score = RobustnessScore()
    for part in parts(clean, corrupted, 3, 4):
        score.update(*part)
    torch.testing.assert_close(score.compute().item(), robustness_score(clean, corrupted))


def test_the_score_of_a_batch_is_told_when_it_is_counted_in():
    (first, second), score = parts(*predictions(), 3), RobustnessScore()
    for part in (first, second):
        torch.testing.assert_close(score(*part).item(), robustness_score(*part))
    torch.testing.assert_close(score.compute().item(), robustness_score(*predictions()))


def test_scores_of_several_parts_are_merged():
    clean, corrupted = predictions()
    scores = []
    for part in parts(clean, corrupted, 2, 5):
        scores.append(RobustnessScore())
        scores[-1].update(*part)
    scores[0].merge_state(scores[1])
    scores[0].merge_state(scores[2:])
    torch.testing.assert_close(scores[0].compute().item(), robustness_score(clean, corrupted))


def test_what_was_counted_in_can_be_forgotten():
    (first, second), score = parts(*predictions(), 3), RobustnessScore()
    score.update(*first)
    score.reset()
    score.update(*second)
    torch.testing.assert_close(score.compute().item(), robustness_score(*second))


def test_severities_of_several_corruptions_give_the_mean_of_their_scores():
    clean, corrupted = predictions(severities=6)
    score = RobustnessScore()
    score.update(clean, corrupted)
    apart = [robustness_score(clean, corrupted[:3]), robustness_score(clean, corrupted[3:])]
    torch.testing.assert_close(score.compute().item(), sum(apart) / 2)


def test_without_images_there_is_no_score():
    with pytest.raises(UserError, match="call update with a batch before compute"):
        RobustnessScore().compute()


def test_predictions_that_are_none_are_refused_and_not_counted():
    clean, corrupted = predictions()
    score = RobustnessScore()
    score.update(clean, corrupted)
    before = score.compute()
    with pytest.raises(UserError, match="severity"):
        score.update(clean, [])
    with pytest.raises(UserError, match="apply a softmax first"):
        score.update(clean, [clean.log()])
    with pytest.raises(UserError, match="the same images"):
        score.update(clean, [clean[1:]])
    assert score.compute() == before


def count_in(rank, folder):
    store = f"file://{folder / 'store'}"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    score = RobustnessScore()
    score.update(*parts(*predictions(), 2)[rank])
    torch.save([score.compute(), score.compute()], folder / f"{rank}.pt")  # asking twice must not count twice
    dist.destroy_process_group()


def test_processes_have_one_score(tmp_path: Path):
    torch.multiprocessing.spawn(count_in, (tmp_path,), nprocs=2)
    expected = torch.tensor(robustness_score(*predictions()), dtype=torch.float64)
    for rank in range(2):
        for found in torch.load(tmp_path / f"{rank}.pt"):
            torch.testing.assert_close(found, expected)


def test_torchmetrics_has_these_methods_too():
    torchmetrics = pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")
    ours = {name for name in dir(RobustnessScore) if not name.startswith("_")}
    assert ours <= set(dir(torchmetrics.Metric))
