"""Corruptions and transforms give on the GPU what they give on the CPU."""

import pytest
import torch

from xcnorm.data import corruptions, transforms
from xcnorm.data.corruptions import Shape
from xcnorm.data.streams import Stream

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def pictures(count=64, height=32, width=32):
    """Smooth random pictures with edges, in colour."""
    stream = Stream(0, "test", torch.arange(count))
    coarse = stream.uniform(3, 6, 6)
    smooth = torch.nn.functional.interpolate(coarse, (height, width), mode="bicubic")
    edges = (stream.uniform(1, height, width) > 0.97).float()
    return ((smooth * 0.8 + 0.3 * edges).clamp(0, 1) * 255).to(torch.uint8)


def assert_close(one, other):
    """At most 1/255 apart, and that on at most 0.1 % of the values."""
    gap = (one.int() - other.cpu().int()).abs()
    assert gap.max() <= 1
    assert (gap > 0).double().mean() <= 1e-3


@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", corruptions.names())
def test_corruptions_agree(name, severity):
    images = pictures()
    assert_close(corruptions.corrupt(images, name, severity), corruptions.corrupt(images.cuda(), name, severity))


@pytest.mark.parametrize("name", corruptions.names())
def test_with_shared_fields_at_another_size(name):
    images = pictures(8, 72, 80)
    fields = corruptions.draw(name, 4, Shape(3, 72, 80), torch.arange(8))
    on_gpu = {key: field.cuda() for key, field in fields.items()}
    assert_close(corruptions.apply(images, name, 4, fields), corruptions.apply(images.cuda(), name, 4, on_gpu))


@pytest.mark.parametrize("name", corruptions.names())
def test_batches_do_not_matter(name):
    images = pictures(65).cuda()
    whole = corruptions.corrupt(images, name, 5)
    index = torch.arange(65)
    for size in (1, 7):
        parts = [
            corruptions.corrupt(images[i : i + size], name, 5, index=index[i : i + size]) for i in range(0, 65, size)
        ]
        assert_close(whole.cpu(), torch.cat(parts))


def test_streams_agree():
    one, other = (Stream(1, "test", torch.arange(50, device=device)) for device in ("cpu", "cuda"))
    assert torch.equal(one.uniform(100), other.uniform(100).cpu())
    assert torch.equal(one.integers(0, 1000, 100), other.integers(0, 1000, 100).cpu())
    torch.testing.assert_close(one.normal(100), other.normal(100).cpu(), atol=1e-5, rtol=1e-5)


def test_transforms_agree():
    images = pictures()
    for name in ("random_flip", "random_crop", "random_resized_crop", "colour_jitter", "random_grey"):
        function = getattr(transforms, name)
        one, other = (function(images.to(d), torch.Generator().manual_seed(3)) for d in ("cpu", "cuda"))
        gap = (one.int() - other.cpu().int()).abs()
        assert gap.max() <= 1, name
    assert torch.equal(transforms.resize(images, 40), transforms.resize(images.cuda(), 40).cpu())
