"""What a measurement is made under."""

import pytest
import torch
from torch import nn

from xcnorm.bench.conditions import Conditions


def switches():
    backends = torch.backends
    return (
        torch.get_num_threads(),
        backends.cudnn.benchmark,
        backends.cudnn.allow_tf32,
        backends.cuda.matmul.allow_tf32,
    )


def test_they_are_given_back():
    before = switches()
    with Conditions("cpu", "fp32", threads=2).applied():
        assert switches() == (2, True, True, True)
    assert switches() == before


@pytest.mark.parametrize(("channels_last", "layout"), [(False, torch.contiguous_format), (True, torch.channels_last)])
def test_images_and_filters_lie_in_one_layout(channels_last, layout):
    conditions = Conditions("cpu", "fp32", channels_last=channels_last)
    assert conditions.input((2, 3, 4, 4), gradient=False).is_contiguous(memory_format=layout)
    assert conditions.place(nn.Conv2d(3, 4, 3)).weight.is_contiguous(memory_format=layout)


@pytest.mark.parametrize(("precision", "dtype"), [("bf16", torch.bfloat16), ("tf32", torch.float32)])
def test_a_gpu_wants_channels_last_and_bf16_in_bf16_already(precision, dtype):
    conditions = Conditions("cuda", precision)
    assert (conditions.layout, conditions.dtype) == (torch.channels_last, dtype)


def test_inputs_go_round_until_the_first_has_left_the_cache():
    conditions = Conditions("cpu", "fp32")
    assert len(conditions.inputs((1, 3, 4, 4), gradient=False)) == 8
    large = conditions.inputs((4, 16, 512, 512), gradient=True)  # 64 MiB
    assert len(large) == 2
    assert all(input.requires_grad for input in large)
