import colorsys
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image

from xcnorm.data import transforms
from xcnorm.errors import UserError

RANDOM = {
    name: getattr(transforms, name)
    for name in ("random_flip", "random_crop", "random_resized_crop", "colour_jitter", "random_grey")
}
SIDE_BY_SIDE = [(28, 28, 32), (8, 8, 32), (16, 16, 32), (32, 32, 28), (96, 96, 31), (20, 50, 30), (1, 1, 5), (9, 9, 1)]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def pictures(count=8, channels=3, height=12, width=10):
    """Noise, and every other one black and white: what overshoots must be cut off."""
    images = torch.randint(0, 256, (count, channels, height, width), dtype=torch.uint8, generator=seeded(7))
    images[::2] = (images[::2] > 127) * 255
    return images


def with_pillow(image, function):
    """Apply a function of Pillow's images to a tensor (C, H, W)."""
    array = image.permute(1, 2, 0).numpy()
    result = np.asarray(function(Image.fromarray(array.squeeze(2) if array.shape[2] == 1 else array)))
    return torch.from_numpy(result.copy()).reshape(*result.shape[:2], array.shape[2]).permute(2, 0, 1)


class TestResize:
    @pytest.mark.parametrize("channels", [1, 3])
    @pytest.mark.parametrize(("height", "width", "size"), SIDE_BY_SIDE)
    def test_is_pillows_bit_by_bit(self, height, width, size, channels):
        images = pictures(6, channels, height, width)
        function = partial(Image.Image.resize, size=(size, size), resample=Image.Resampling.BILINEAR)
        expected = torch.stack([with_pillow(image, function) for image in images])
        assert torch.equal(transforms.resize(images, size), expected)

    def test_an_image_does_not_depend_on_its_batch(self):
        images = pictures(700, 1, 28, 28)  # more than are worked on at a time
        alone = torch.cat([transforms.resize(image[None], 32) for image in images])
        assert torch.equal(transforms.resize(images, 32), alone)

    def test_of_nothing_and_of_views(self):
        assert transforms.resize(torch.empty(0, 3, 5, 5, dtype=torch.uint8), 7).shape == (0, 3, 7, 7)
        images = pictures(4, 3, 9, 9)
        view = images.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
        assert torch.equal(transforms.resize(view, 5), transforms.resize(images, 5))

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((torch.zeros(1, 1, 4, 4), 8), "only uint8 images can be resized, not torch.float32"),
            ((pictures(), 0), "cannot be resized to 0 pixels"),
        ],
    )
    def test_refuses(self, arguments, message):
        with pytest.raises(UserError, match=message):
            transforms.resize(*arguments)


class TestValues:
    def test_to_float(self):
        levels = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16)
        values = transforms.to_float(levels)
        assert values.dtype == torch.float32
        assert torch.equal(values.flatten(), torch.arange(256) / 255)

    def test_to_float_refuses_floats(self):
        with pytest.raises(UserError, match="takes uint8 images, not"):
            transforms.to_float(torch.zeros(1, 1, 2, 2))

    @pytest.mark.parametrize(("mean", "std"), [(0.5, 0.25), ((0.1, 0.5, 0.9), (0.2, 0.3, 0.4)), ([0.1, 0.2, 0.3], 2)])
    def test_normalise(self, mean, std):
        images = pictures()
        m, s = (torch.tensor(v).expand(3).view(3, 1, 1) for v in (mean, std))
        expected = (images.double() / 255 - m) / s
        for given in (images, transforms.to_float(images)):
            actual = transforms.normalise(given, mean, std)
            assert actual.dtype == torch.float32
            torch.testing.assert_close(actual.double(), expected, rtol=1e-5, atol=1e-6)
        assert transforms.normalise(images.half(), mean, std).dtype == torch.float16

    @pytest.mark.parametrize(
        ("mean", "std", "message"),
        [
            ((0.5, 0.5), 1, "mean has 2 numbers for 3 channels; give one, or one for each"),
            (0.5, (1, 1), "std has 2 numbers for 3 channels"),
            (0.5, (1, 0, 1), r"std must be positive, not \(1, 0, 1\)"),
        ],
    )
    def test_normalise_refuses(self, mean, std, message):
        with pytest.raises(UserError, match=message):
            transforms.normalise(pictures(), mean, std)

    def test_grey_to_rgb(self):
        grey, colour = pictures(channels=1), pictures(channels=3)
        assert torch.equal(transforms.grey_to_rgb(grey), torch.cat([grey] * 3, 1))
        assert transforms.grey_to_rgb(grey).untyped_storage().nbytes() == grey.numel()
        assert torch.equal(transforms.grey_to_rgb(colour), colour)
        with pytest.raises(UserError, match="one channel or three, not 2"):
            transforms.grey_to_rgb(pictures(channels=2))


@pytest.mark.parametrize("name", RANDOM)
class TestEveryRandomOne:
    @pytest.mark.parametrize(
        "dtype", [torch.uint8, torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str
    )
    @pytest.mark.parametrize("channels", [1, 3])
    def test_keeps_shape_dtype_range_and_what_it_was_given(self, name, dtype, channels):
        images = pictures(50, channels)
        images = images if dtype == torch.uint8 else (images / 255).to(dtype)
        before = images.clone()
        result = RANDOM[name](images, seeded())
        assert result.dtype == dtype
        assert result.shape == images.shape
        assert torch.equal(images, before)
        assert result.min() >= 0
        assert result.max() <= (255 if dtype == torch.uint8 else 1)

    def test_float_and_uint8_agree(self, name):
        images = pictures(100)
        levels = RANDOM[name](images, seeded())
        values = RANDOM[name](images.double() / 255, seeded())
        assert (levels - values * 255).abs().max() < 0.5 + 1e-3

    def test_follows_the_generator(self, name):
        images, generator = pictures(100), seeded()
        state = generator.get_state()
        first = RANDOM[name](images, generator)
        assert not torch.equal(RANDOM[name](images, generator), first)
        generator.set_state(state)
        assert torch.equal(RANDOM[name](images, generator), first)

    def test_takes_no_images(self, name):
        assert RANDOM[name](torch.empty(0, 3, 5, 5), seeded()).shape == (0, 3, 5, 5)

    @pytest.mark.parametrize(
        ("images", "message"),
        [
            (torch.zeros(3, 8, 8), r"must have the shape \(N, C, H, W\), not \(3, 8, 8\)"),
            (torch.zeros(2, 3, 0, 8), r"not \(2, 3, 0, 8\)"),
            (torch.zeros(1, 3, 8, 8, dtype=torch.int64), "must be uint8 or floating point, not torch.int64"),
        ],
    )
    def test_refuses(self, name, images, message):
        with pytest.raises(UserError, match=message):
            RANDOM[name](images, seeded())

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
    @pytest.mark.parametrize("dtype", [torch.uint8, torch.float32], ids=str)
    def test_is_the_same_on_cuda(self, name, dtype):
        images = pictures(200) if dtype == torch.uint8 else pictures(200) / 255
        expected, actual = RANDOM[name](images, seeded()), RANDOM[name](images.cuda(), seeded()).cpu()
        if name in ("random_flip", "random_crop"):
            assert torch.equal(actual, expected)
        else:
            difference = (actual.double() - expected.double()).abs()
            assert difference.max() <= (1 if dtype == torch.uint8 else 1e-5)
            assert (difference > 0.5).double().mean() < 1e-3

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
    def test_refuses_a_generator_on_cuda(self, name):
        with pytest.raises(UserError, match="the generator must be on the CPU, not on cuda"):
            RANDOM[name](pictures(), torch.Generator("cuda"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_resize_is_the_same_on_cuda():
    images = pictures(500, 3, 28, 28)
    assert torch.equal(transforms.resize(images.cuda(), 32).cpu(), transforms.resize(images, 32))


class TestFlip:
    def test_mirrors_half_of_the_images(self):
        images = pictures(2000)
        result = transforms.random_flip(images, seeded())
        flipped = 0
        for image, old in zip(result, images, strict=True):
            mirrored = torch.stack([old[:, :, old.shape[2] - 1 - x] for x in range(old.shape[2])], 2)
            assert torch.equal(image, old) or torch.equal(image, mirrored)
            flipped += not torch.equal(image, old)
        assert 900 < flipped < 1100

    def test_never_and_always(self):
        images = pictures()
        assert torch.equal(transforms.random_flip(images, seeded(), p=0), images)
        assert torch.equal(transforms.random_flip(images, seeded(), p=1), images.flip(3))

    @pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
    def test_refuses(self, p):
        with pytest.raises(UserError, match="p must be from 0 to 1"):
            transforms.random_flip(pictures(), seeded(), p)


class TestCrop:
    @pytest.mark.parametrize("padding", [0, 1, 2])
    def test_every_shift_comes_up_alike_and_is_exact(self, padding):
        old = torch.randint(1, 256, (3, 6, 5), dtype=torch.uint8, generator=seeded(3))
        shifts = range(-padding, padding + 1)
        expected = {}
        for down in shifts:
            for right in shifts:
                moved = torch.zeros_like(old)
                for y in range(6):
                    for x in range(5):
                        if 0 <= y + down < 6 and 0 <= x + right < 5:
                            moved[:, y, x] = old[:, y + down, x + right]
                expected[moved.numpy().tobytes()] = 0
        each = 200
        result = transforms.random_crop(old.expand(each * len(expected), -1, -1, -1), seeded(), padding)
        for image in result:
            expected[image.numpy().tobytes()] += 1  # anything else is a KeyError
        assert all(abs(count - each) < 5 * each**0.5 for count in expected.values())

    def test_refuses(self):
        with pytest.raises(UserError, match="padding must be 0 or more, not -1"):
            transforms.random_crop(pictures(), seeded(), -1)


class TestResizedCrop:
    @staticmethod
    def boxes(count, height, width, **options):
        """Left, top, right and bottom of the boxes that a seed gives, seen on images of coordinates."""
        y, x = torch.meshgrid(torch.arange(height).double(), torch.arange(width).double(), indexing="ij")
        images = torch.stack([x, y]).expand(count, -1, -1, -1)
        result = transforms.random_resized_crop(images, seeded(), **options).flatten(2)
        (left, top), (right, bottom) = result.amin(2).unbind(1), (result.amax(2) + 1).unbind(1)
        return torch.stack([left, top, right, bottom], 1)

    def test_is_pillows_crop_and_resize(self):
        images = pictures(60, 3, 24, 32)
        result = transforms.random_resized_crop(images, seeded(), scale=(0.1, 1.0))
        for image, old, box in zip(result, images, self.boxes(60, 24, 32, scale=(0.1, 1.0)), strict=True):
            corners = tuple(box.round().int().tolist())
            assert (box - box.round()).abs().max() < 1e-9
            expected = with_pillow(
                old, lambda p, c=corners: p.crop(c).resize((32, 24), resample=Image.Resampling.BILINEAR)
            )
            assert (image.int() - expected.int()).abs().max() <= 1  # Pillow rounds twice

    def test_boxes_have_the_asked_areas_ratios_and_places(self):
        left, top, right, bottom = self.boxes(1500, 64, 64, scale=(0.2, 0.4), ratio=(0.5, 2.0)).T
        width, height = right - left, bottom - top
        share, ratio = width * height / 64**2, width / height
        # Sides are rounded to pixels, so the ends are met to within a few per cent.
        assert 0.19 < share.min() < 0.21
        assert 0.39 < share.max() < 0.42
        assert abs(share.mean() - 0.3) < 0.005
        assert 0.47 < ratio.min() < 0.53
        assert 1.9 < ratio.max() < 2.15
        assert abs(ratio.log().mean()) < 0.04
        for start, free in ((left, 64 - width), (top, 64 - height)):
            assert start.min() >= 0
            assert (start <= free).all()
            assert abs((start / free).mean() - 0.5) < 0.03

    def test_the_whole_image(self):
        images = pictures(5, 3, 8, 8)
        result = transforms.random_resized_crop(images, seeded(), scale=(1, 1), ratio=(1, 1))
        assert torch.equal(result, images)

    def test_the_largest_central_box_where_none_fits(self):
        boxes = self.boxes(20, 10, 100, scale=(1, 1))
        assert torch.equal(boxes, torch.tensor([[43.0, 0, 56, 10]], dtype=torch.float64).expand(20, 4))
        boxes = self.boxes(20, 100, 10, scale=(1, 1))
        assert torch.equal(boxes, torch.tensor([[0, 43.0, 10, 56]], dtype=torch.float64).expand(20, 4))

    def test_tiny_images(self):
        images = pictures(50, 3, 1, 1)
        assert torch.equal(transforms.random_resized_crop(images, seeded()), images)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"scale": (0, 1)}, "scale must be two rising numbers above 0 and at most 1"),
            ({"scale": (0.5, 1.1)}, "scale must be"),
            ({"scale": (0.9, 0.8)}, "scale must be"),
            ({"ratio": (0, 1)}, "ratio must be two rising positive numbers"),
            ({"ratio": (2, 1)}, "ratio must be"),
        ],
    )
    def test_refuses(self, options, message):
        with pytest.raises(UserError, match=message):
            transforms.random_resized_crop(pictures(), seeded(), **options)


def jitter_one(image, changes):
    """torchvision's changes on one image (H, W, 3) of doubles, pixel by pixel where colours are turned."""
    weights = np.array([0.299, 0.587, 0.114])
    for name, amount in changes:
        if name == "hue":
            turned = [colorsys.rgb_to_hsv(*pixel) for pixel in image.reshape(-1, 3)]
            image = np.array([colorsys.hsv_to_rgb((h + amount) % 1, s, v) for h, s, v in turned]).reshape(image.shape)
            continue
        grey = image @ weights
        other = {"brightness": 0, "contrast": grey.mean(), "saturation": grey[..., None]}[name]
        image = np.clip(amount * image + (1 - amount) * other, 0, 1)
    return image


class TestJitter:
    NAMES = ("brightness", "contrast", "saturation", "hue")

    def test_is_a_loop_over_images(self):
        images = pictures(40, 3, 5, 4).double() / 255
        amounts = {"brightness": 0.4, "contrast": 0.3, "saturation": 1.5, "hue": 0.4}
        result = transforms.colour_jitter(images, seeded(), **amounts)
        # The numbers in the order in which they are drawn: four amounts for all images, then all orders.
        generator = seeded()
        drawn = []
        for name in self.NAMES:
            low, high = (-0.4, 0.4) if name == "hue" else (max(0, 1 - amounts[name]), 1 + amounts[name])
            drawn.append(low + (high - low) * torch.rand(40, generator=generator, dtype=torch.float64))
        orders = torch.rand(40, 4, generator=generator, dtype=torch.float64).argsort(1)
        assert len({tuple(order.tolist()) for order in orders}) > 12
        for i, image in enumerate(images):
            changes = [(self.NAMES[k], drawn[k][i].item()) for k in orders[i].tolist()]
            expected = jitter_one(image.permute(1, 2, 0).numpy(), changes)
            torch.testing.assert_close(result[i].permute(1, 2, 0), torch.from_numpy(expected), rtol=0, atol=1e-9)

    def test_nothing_to_do(self):
        images = pictures()
        assert torch.equal(transforms.colour_jitter(images, seeded(), 0, 0, 0, 0), images)

    def test_grey_images_are_grey_colour_images(self):
        images = pictures(20, channels=1).double() / 255
        colour = transforms.colour_jitter(transforms.grey_to_rgb(images), seeded())
        grey = transforms.colour_jitter(images, seeded())
        torch.testing.assert_close(colour, grey.expand(-1, 3, -1, -1), rtol=0, atol=1e-9)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"brightness": -0.1}, "brightness must be 0 or more, not -0.1"),
            ({"contrast": float("inf")}, "contrast must be 0 or more"),
            ({"saturation": float("nan")}, "saturation must be 0 or more"),
            ({"hue": 0.6}, "hue must be from 0 to 0.5, not 0.6"),
        ],
    )
    def test_refuses(self, options, message):
        with pytest.raises(UserError, match=message):
            transforms.colour_jitter(pictures(), seeded(), **options)

    @pytest.mark.parametrize("function", [transforms.colour_jitter, transforms.random_grey])
    def test_refuses_two_channels(self, function):
        with pytest.raises(UserError, match="one channel or three, not 2"):
            function(pictures(channels=2), seeded())


class TestGrey:
    def test_is_pillows(self):
        images = pictures()
        result = transforms.random_grey(images, seeded(), p=1)
        for image, old in zip(result, images, strict=True):
            expected = with_pillow(old, lambda picture: picture.convert("L").convert("RGB"))
            assert (image.int() - expected.int()).abs().max() <= 1
            assert torch.equal(image[:1].expand(3, -1, -1), image)

    def test_takes_a_tenth(self):
        images = pictures(3000, 3, 4, 4)
        changed = (transforms.random_grey(images, seeded()) != images).flatten(1).any(1)
        assert 240 < changed.sum() < 360
        assert torch.equal(transforms.random_grey(images, seeded(), p=0), images)
