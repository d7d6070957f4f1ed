"""What a run learns from."""

from tests.engine import small
from xcnorm.data import load
from xcnorm.engine.run import _load


def test_a_share_of_the_training_images_is_learned_from_and_all_others_stay():
    whole = load("digits-mini")
    few = _load(small.experiment(benchmark="digits-mini", data__share=0.1), None)
    assert len(few.train) == sum(round(0.1 * int(count)) for count in whole.train.labels.bincount())
    assert len(few.validation) == len(whole.validation)
    assert list(few.targets) == list(whole.targets)
