"""Fog and frost, written from their definitions for one image."""

import numpy as np

FOG = {
    "cifar": ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
    "imagenet": ((1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)),
}
FROST = {
    "cifar": ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)),
    "imagenet": ((1, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)),
}


def plasma(uniform, decay):
    """Point by point: squares get their centres first, then the middles of the sides, from what is already there."""
    side = len(uniform)
    ground = np.zeros((side, side))
    step, wibble = side, 100.0

    def put(y, x, neighbours):
        mean = sum(ground[v % side, u % side] for v, u in neighbours) / 4
        ground[y, x] = mean + wibble * (-wibble + 2 * wibble * float(uniform[y, x]))

    while step >= 2:
        half = step // 2
        for y in range(half, side, step):
            for x in range(half, side, step):
                put(y, x, [(y - half, x - half), (y - half, x + half), (y + half, x - half), (y + half, x + half)])
        for rows, columns in (
            (range(0, side, step), range(half, side, step)),
            (range(half, side, step), range(0, side, step)),
        ):
            for y in rows:
                for x in columns:
                    put(y, x, [(y - half, x), (y + half, x), (y, x - half), (y, x + half)])
        step, wibble = half, wibble / decay
    ground -= ground.min()
    return ground / ground.max()


def fog(image, fields, severity, constants):
    amount, decay = FOG[constants][severity - 1]
    height, width = image.shape[:2]
    brightest = image.max()
    clouds = plasma(fields["wibble"], decay)[:height, :width, None]
    return (image + amount * clouds) * brightest / (brightest + amount)


def resized(picture, factor):
    """Linear interpolation of ``(H, W, 3)`` with the centres of pixels at half numbers, at each place of the result."""
    height, width = (round(size * factor) for size in picture.shape[:2])
    result = np.empty((height, width, 3))
    for y, x in np.ndindex(height, width):
        v, u = (y + 0.5) / factor - 0.5, (x + 0.5) / factor - 0.5
        top, left = int(np.floor(v)), int(np.floor(u))
        v, u = v - top, u - left
        bottom, right = min(top + 1, len(picture) - 1), min(left + 1, picture.shape[1] - 1)
        upper = (1 - u) * picture[top, left] + u * picture[top, right]
        lower = (1 - u) * picture[bottom, left] + u * picture[bottom, right]
        result[y, x] = np.rint((1 - v) * upper + v * lower)
    return result


def frost(image, fields, severity, constants, pictures):
    """`pictures` are ``(H, W, 3)``, already at the size they are cut from."""
    weight, frost_weight = FROST[constants][severity - 1]
    height, width = image.shape[:2]
    used = pictures[:5]
    picture = used[int(float(fields["picture"]) * len(used))]
    top = int(float(fields["top"]) * (picture.shape[0] - height))
    left = int(float(fields["left"]) * (picture.shape[1] - width))
    return weight * image + frost_weight * picture[top : top + height, left : left + width] / 255
