"""Adam inside a step is torch's Adam."""

import torch

from xcnorm.methods.inner_adam import InnerAdam


def parameters():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, dtype=torch.float64, generator=generator) for shape in ((3, 4), (5,), (2, 3, 3))]


def test_its_steps_are_torchs():
    own, theirs = parameters(), [each.requires_grad_() for each in parameters()]
    mine, reference = InnerAdam(own, 0.02), torch.optim.Adam(theirs, 0.02, foreach=False)
    generator = torch.Generator().manual_seed(1)
    for _ in range(30):
        slopes = [torch.randn(each.shape, dtype=torch.float64, generator=generator) for each in own]
        mine.step(slopes)
        for each, slope in zip(theirs, slopes, strict=True):
            each.grad = slope
        reference.step()
        for one, other in zip(own, theirs, strict=True):
            torch.testing.assert_close(one, other.detach(), rtol=1e-12, atol=1e-14)


def test_it_goes_on_from_a_state_and_forgets_when_told():
    own, again, fresh = parameters(), parameters(), parameters()
    one, other, third = InnerAdam(own, 0.1), InnerAdam(again, 0.1), InnerAdam(fresh, 0.1)
    slopes = parameters()
    for _ in range(3):
        one.step(slopes)
        third.step([-slope for slope in slopes])
    other.load_state_dict(one.state_dict())
    third.reset()
    for target, source in ((again, own), (fresh, parameters())):
        for to, value in zip(target, source, strict=True):
            to.copy_(value)
    one.step(slopes)
    other.step(slopes)
    third.step(slopes)
    for first, second, new, start in zip(own, again, fresh, parameters(), strict=True):
        assert torch.equal(first, second)
        torch.testing.assert_close(new, start - 0.1 * start.sign(), rtol=1e-6, atol=1e-8)  # as a first step is
