"""Noises, written from their definitions for one image."""

import numpy as np
from scipy import stats

GAUSSIAN = {"cifar": (0.04, 0.06, 0.08, 0.09, 0.1), "imagenet": (0.08, 0.12, 0.18, 0.26, 0.38)}
SHOT = {"cifar": (500, 250, 100, 75, 50), "imagenet": (60, 25, 12, 5, 3)}
IMPULSE = {"cifar": (0.01, 0.02, 0.03, 0.05, 0.07), "imagenet": (0.03, 0.06, 0.09, 0.17, 0.27)}
SPECKLE = {"cifar": (0.06, 0.1, 0.12, 0.16, 0.2), "imagenet": (0.15, 0.2, 0.35, 0.45, 0.6)}


def gaussian_noise(image, fields, severity, constants):
    return image + GAUSSIAN[constants][severity - 1] * fields["noise"].transpose(1, 2, 0)


def shot_noise(image, fields, severity, constants):
    white = SHOT[constants][severity - 1]
    quantile = fields["quantile"].transpose(1, 2, 0).astype(float)
    return np.maximum(stats.poisson.ppf(quantile, image * white), 0) / white


def impulse_noise(image, fields, severity, constants):
    share = IMPULSE[constants][severity - 1]
    result = image.copy()
    for place in np.ndindex(image.shape):
        luck = fields["luck"][place[2], place[0], place[1]]
        if luck < share / 2:
            result[place] = 1
        elif luck < share:
            result[place] = 0
    return result


def speckle_noise(image, fields, severity, constants):
    return image + image * SPECKLE[constants][severity - 1] * fields["noise"].transpose(1, 2, 0)
