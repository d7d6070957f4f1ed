from itertools import islice

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from xcnorm.data.sampler import Sampler
from xcnorm.errors import UserError


@st.composite
def settings(draw):
    """Length and batch, with at least one whole batch."""
    batch = draw(st.integers(1, 20))
    return draw(st.integers(batch, 60)), batch


def take(sampler, count):
    return list(islice(sampler, count))


@given(settings(), st.integers(0, 2**40))
def test_every_epoch_is_a_permutation_without_its_tail(setting, seed):
    length, batch = setting
    sampler = Sampler(length, batch, seed=seed)
    assert sampler.steps_per_epoch == length // batch
    for epoch in range(3):
        assert (sampler.epoch, sampler.step) == (epoch, 0)
        batches = take(sampler, sampler.steps_per_epoch)
        assert all(b.dtype == torch.int64 and len(b) == batch for b in batches)
        seen = torch.cat(batches)
        assert len(seen.unique()) == len(seen) == length - length % batch
        assert seen.min() >= 0
        assert seen.max() < length


@given(settings(), st.integers(0, 200))
def test_a_resumed_run_sees_the_rest(setting, position):
    length, batch = setting
    first = Sampler(length, batch, seed=5)
    take(first, position)
    state = first.state_dict()
    second = Sampler(length, batch, seed=5)
    next(second)  # whatever it did before is forgotten
    second.load_state_dict(state)
    assert second.state_dict() == state
    assert state["epoch"] * first.steps_per_epoch + state["step"] == position
    assert all(torch.equal(a, b) for a, b in zip(take(first, 2 * length), take(second, 2 * length), strict=True))


def test_seeds_and_epochs_have_orders_of_their_own():
    orders = {
        (seed, epoch): tuple(batch.tolist())
        for seed in range(20)
        for epoch, batch in enumerate(take(Sampler(50, 50, seed=seed), 20))
    }
    assert len(set(orders.values())) == len(orders)


def test_the_first_place_goes_to_every_image_alike():
    first = torch.cat([batch[:1] for batch in take(Sampler(10, 10, seed=3), 5000)])
    # 500 each, with a standard deviation of 21.
    assert (first.bincount(minlength=10) - 500).abs().max() < 100


def test_changing_a_batch_changes_nothing_else():
    spoilt, sound = Sampler(12, 4), Sampler(12, 4)
    next(spoilt).zero_()
    spoilt.load_state_dict(sound.state_dict())
    assert torch.equal(next(spoilt), next(sound))


@pytest.mark.parametrize("other", [{"length": 101}, {"seed": 1}, {"batch": 5}], ids=str)
def test_the_state_of_another_run_is_refused(other):
    state = Sampler(**{"length": 100, "batch": 10, "seed": 0} | other).state_dict()
    name = {"batch": "global_batch"}.get(*other, *other)
    with pytest.raises(UserError, match=f"saved state has {name}={state[name]}, but this run has {name}="):
        Sampler(100, 10).load_state_dict(state)


@pytest.mark.parametrize("change", [{"step": 10}, {"step": -1}, {"epoch": -1}], ids=str)
def test_a_position_that_cannot_be_is_refused(change):
    sampler = Sampler(100, 10)
    with pytest.raises(UserError, match="no valid position"):
        sampler.load_state_dict(sampler.state_dict() | change)


def test_an_empty_state_is_refused():
    with pytest.raises(UserError, match="length=None"):
        Sampler(100, 10).load_state_dict({})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"length": 3, "batch": 4}, "3 images do not fill one batch of 4; make the batch smaller"),
        ({"length": 7, "batch": 0}, "batch must be 1 or more, not 0"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(UserError, match=message):
        Sampler(**arguments)
