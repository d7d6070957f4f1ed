"""Blurs, snow, elastic transform and pixelate, written from their definitions for one image, with SciPy and Pillow."""

import math

import numpy as np
from PIL import Image
from scipy import ndimage

GAUSSIAN_BLUR = {"cifar": (0.4, 0.6, 0.7, 0.8, 1), "imagenet": (1, 2, 3, 4, 6)}
DEFOCUS_BLUR = {
    "cifar": ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
    "imagenet": ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
}
GLASS_BLUR = {
    "cifar": ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
    "imagenet": ((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
}
MOTION_BLUR = {
    "cifar": ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
    "imagenet": ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
}
ZOOM_BLUR = {
    "cifar": ((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),
    "imagenet": ((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)),
}
SNOW = {
    "cifar": (
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ),
    "imagenet": (
        (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
        (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
        (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    ),
}
ELASTIC_TRANSFORM = {
    "cifar": ((0, 0), (1.6, 6.4), (2.56, 1.92), (3.2, 1.28), (3.2, 0.96)),
    "imagenet": ((488, 170.8), (488, 19.52), (12.2, 2.44), (17.08, 2.44), (29.28, 2.44)),
}
PIXELATE = {"cifar": (0.95, 0.9, 0.85, 0.75, 0.65), "imagenet": (0.6, 0.5, 0.4, 0.3, 0.25)}


def gaussian_blur(image, fields, severity, constants):
    sigma = GAUSSIAN_BLUR[constants][severity - 1]
    return ndimage.gaussian_filter(image, (sigma, sigma, 0), mode="nearest")


def defocus_blur(image, fields, severity, constants):
    radius, softness = DEFOCUS_BLUR[constants][severity - 1]
    reach, half = (8, 1) if radius <= 8 else (radius, 2)
    line = range(-reach, reach + 1)
    disk = np.array([[float(x * x + y * y <= radius * radius) for x in line] for y in line])
    bell = np.array([math.exp(-i * i / (2 * softness * softness)) for i in range(-half, half + 1)])
    bell = np.outer(bell, bell) / bell.sum() ** 2
    kernel = ndimage.correlate(disk / disk.sum(), bell, mode="mirror")
    return np.stack([ndimage.correlate(channel, kernel, mode="mirror") for channel in image.transpose(2, 0, 1)], 2)


def glass_blur(image, fields, severity, constants):
    sigma, reach, rounds = GLASS_BLUR[constants][severity - 1]
    height, width = image.shape[:2]
    image = np.floor(ndimage.gaussian_filter(image, (sigma, sigma, 0), mode="nearest") * 255 + 1e-6)
    for k in range(rounds):
        for h in range(height - reach, reach, -1):
            for w in range(width - reach, reach, -1):
                dx, dy = fields["steps"][k, :, h - reach - 1, w - reach - 1]
                # A swap of views, as it was published: what it really does is for NumPy to say.
                image[h, w], image[h + dy, w + dx] = image[h + dy, w + dx], image[h, w]
    return np.floor(ndimage.gaussian_filter(image, (sigma, sigma, 0), mode="nearest") + 1e-6) / 255


def motion(image, radius, sigma, angle):
    """ImageMagick's motion blur, to 8 bits."""
    height, width = image.shape[:2]
    taps = 2 * math.ceil(radius) + 1
    weights = [math.exp(-i * i / (2 * sigma * sigma)) for i in range(taps)]
    result = np.zeros_like(image)
    for i, weight in enumerate(weights):
        dx = math.ceil(i * math.cos(math.radians(angle)) - 0.5)
        dy = math.ceil(i * math.sin(math.radians(angle)) - 0.5)
        for y in range(height):
            for x in range(width):
                source = image[min(max(y + dy, 0), height - 1), min(max(x + dx, 0), width - 1)]
                result[y, x] += weight / sum(weights) * source
    return np.floor(result * 255 + 0.5) / 255


def motion_blur(image, fields, severity, constants):
    return motion(image, *MOTION_BLUR[constants][severity - 1], float(fields["angle"]))


def clipped_zoom(image, factor):
    """Of ``(H, W, C)``."""
    for axis in (0, 1):
        image = image.swapaxes(0, axis)
        size = len(image)
        crop = math.ceil(size / factor)
        top = (size - crop) // 2
        image = ndimage.zoom(image[top : top + crop], (factor, 1, 1), order=1)
        trim = (len(image) - size) // 2
        image = image[trim : trim + size].swapaxes(0, axis)
    return image


def zoom_blur(image, fields, severity, constants):
    factors = np.arange(1, *ZOOM_BLUR[constants][severity - 1])
    return (image + sum(clipped_zoom(image, factor) for factor in factors)) / (len(factors) + 1)


def snow(image, fields, severity, constants):
    mean, deviation, factor, threshold, radius, sigma, mix = SNOW[constants][severity - 1]
    layer = clipped_zoom(mean + deviation * fields["noise"].transpose(1, 2, 0).astype(float), factor)
    layer[layer < threshold] = 0
    layer = motion(np.floor(np.clip(layer, 0, 1) * 255) / 255, radius, sigma, float(fields["angle"]))
    grey = image @ np.array([[0.299], [0.587], [0.114]])
    image = mix * image + (1 - mix) * np.maximum(image, grey * 1.5 + 0.5)
    return image + layer + np.rot90(layer, 2)


def sample(image, y, x, mode):
    return np.stack(
        [ndimage.map_coordinates(channel, [y, x], order=1, mode=mode) for channel in image.transpose(2, 0, 1)], 2
    )


def affine(before, after):
    """The 2x3 matrix that takes three points (x, y) to three others, by solving six equations."""
    equations = np.zeros((6, 6))
    equations[:3, :2], equations[:3, 2] = before, 1
    equations[3:, 3:5], equations[3:, 5] = before, 1
    return np.linalg.solve(equations, after.T.reshape(6)).reshape(2, 3)


def elastic_transform(image, fields, severity, constants):
    strength, smoothness = ELASTIC_TRANSFORM[constants][severity - 1]
    height, width = image.shape[:2]
    centre, square = np.array([height // 2, width // 2], float), min(height, width) // 3
    before = np.array([centre + square, [centre[0] + square, centre[1] - square], centre - square])
    forward = np.vstack([affine(before, (before.astype(np.float32) + fields["corners"]).astype(float)), [0, 0, 1]])
    back = np.linalg.inv(forward)
    y, x = np.mgrid[:height, :width]
    # OpenCV's warpAffine: the part of x and the rest are each rounded to 1/1024, their sum to 1/32.
    from_x, from_y = (
        ((np.rint(m[0] * x * 1024) + np.rint((m[1] * y + m[2]) * 1024) + 16) // 32) / 32 for m in back[:2]
    )
    image = sample(image, from_y, from_x, "mirror")
    dx, dy = (
        strength * ndimage.gaussian_filter(wave.astype(float), smoothness, mode="reflect", truncate=3)
        for wave in fields["waves"]
    )
    return sample(image, y + dy, x + dx, "reflect")


def pixelate(image, fields, severity, constants):
    share = PIXELATE[constants][severity - 1]
    height, width = image.shape[:2]
    picture = Image.fromarray(np.rint(image * 255).astype(np.uint8))
    # One axis at a time, because the order in which Pillow takes them depends on its version and on the shape.
    for size in ((int(width * share), height), (int(width * share), int(height * share))):
        picture = picture.resize(size, Image.Resampling.BOX)
    for size in ((width, int(height * share)), (width, height)):
        picture = picture.resize(size, Image.Resampling.BOX)
    return np.array(picture) / 255
