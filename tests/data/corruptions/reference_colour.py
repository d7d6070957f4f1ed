"""Changes of colour, written from their definitions for one image, by way of HSV as the definitions say."""

import colorsys

import numpy as np

BRIGHTNESS = {"cifar": (0.05, 0.1, 0.15, 0.2, 0.3), "imagenet": (0.1, 0.2, 0.3, 0.4, 0.5)}
CONTRAST = {"cifar": (0.75, 0.5, 0.4, 0.3, 0.15), "imagenet": (0.4, 0.3, 0.2, 0.1, 0.05)}
SATURATE = {
    "cifar": ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
    "imagenet": ((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)),
}


def _in_hsv(image, change):
    result = np.empty_like(image)
    for place in np.ndindex(image.shape[:2]):
        result[place] = colorsys.hsv_to_rgb(*change(*colorsys.rgb_to_hsv(*image[place])))
    return result


def brightness(image, fields, severity, constants):
    more = BRIGHTNESS[constants][severity - 1]
    return _in_hsv(image, lambda h, s, v: (h, s, min(v + more, 1)))


def saturate(image, fields, severity, constants):
    factor, more = SATURATE[constants][severity - 1]
    return _in_hsv(image, lambda h, s, v: (h, min(s * factor + more, 1), v))


def contrast(image, fields, severity, constants):
    mean = image.mean((0, 1))
    return (image - mean) * CONTRAST[constants][severity - 1] + mean
