"""Spatter, written from its definition for one image: OpenCV's steps, pixel by pixel."""

import numpy as np
from scipy import ndimage

SPATTER = {
    "cifar": (
        (0.62, 0.1, 0.7, 0.7, 0.5, 0),
        (0.65, 0.1, 0.8, 0.7, 0.5, 0),
        (0.65, 0.3, 1, 0.69, 0.5, 0),
        (0.65, 0.1, 0.7, 0.69, 0.6, 1),
        (0.65, 0.1, 0.5, 0.68, 0.6, 1),
    ),
    "imagenet": (
        (0.65, 0.3, 4, 0.69, 0.6, 0),
        (0.65, 0.3, 3, 0.68, 0.6, 0),
        (0.65, 0.3, 2, 0.68, 0.5, 0),
        (0.65, 0.3, 1, 0.65, 1.5, 1),
        (0.67, 0.4, 1, 0.65, 1.5, 1),
    ),
}


def canny(image, low, high):
    """Edges of a uint8 image: Sobel slopes, thinned to ridges, followed from strong places to weak ones."""
    image = image.astype(int)
    smooth, differ = np.array([1, 2, 1]), np.array([-1, 0, 1])
    across = ndimage.correlate(image, np.outer(smooth, differ), mode="nearest")
    down = ndimage.correlate(image, np.outer(differ, smooth), mode="nearest")
    slope = np.abs(across) + np.abs(down)
    around = np.pad(slope, 1)
    kept = np.zeros(image.shape, bool)
    for y, x in np.ndindex(image.shape):
        here = slope[y, x]
        beside = around[y : y + 3, x : x + 3]
        angle = np.degrees(np.arctan2(abs(down[y, x]), abs(across[y, x])))
        if angle < 22.5:
            ridge = here > beside[1, 0] and here >= beside[1, 2]
        elif angle > 67.5:
            ridge = here > beside[0, 1] and here >= beside[2, 1]
        elif across[y, x] * down[y, x] < 0:
            ridge = here > beside[0, 2] and here > beside[2, 0]
        else:
            ridge = here > beside[0, 0] and here > beside[2, 2]
        kept[y, x] = ridge and here > low
    parts, count = ndimage.label(kept, np.ones((3, 3)))
    strong = [part for part in range(1, count + 1) if slope[parts == part].max() > high]
    return np.isin(parts, strong)


def chamfer(targets):
    """Distance by two sweeps, down and up, each looking at the neighbours it has passed."""
    height, width = targets.shape
    far = 1e6
    result = np.full((height + 4, width + 4), far)
    result[2:-2, 2:-2][targets] = 0
    passed = [((0, -1), 1), ((-1, 0), 1), ((-1, -1), 1.4), ((-1, 1), 1.4)]
    passed += [((-1, -2), 2.1969), ((-1, 2), 2.1969), ((-2, -1), 2.1969), ((-2, 1), 2.1969)]
    for sign in (1, -1):
        for y in range(2, height + 2)[::sign]:
            for x in range(2, width + 2)[::sign]:
                ways = [result[y + sign * v, x + sign * u] + cost for (v, u), cost in passed]
                result[y, x] = min(result[y, x], *ways)
    return result[2:-2, 2:-2]


def equalise_histogram(image):
    """OpenCV's: the darkest level that occurs goes to 0."""
    counts = np.bincount(image.ravel(), minlength=256)
    darkest = np.flatnonzero(counts)[0]
    if counts[darkest] == image.size:
        return image
    scale = np.float32(255) / np.float32(image.size - counts[darkest])
    table = np.zeros(256, np.uint8)
    total = 0
    for level in range(darkest + 1, 256):
        total += counts[level]
        table[level] = np.rint(np.float32(total) * scale)
    return table[image]


def spatter(image, fields, severity, constants):
    mean, deviation, sigma, threshold, strength, mud = SPATTER[constants][severity - 1]
    layer = mean + deviation * fields["layer"].astype(float)
    layer = ndimage.gaussian_filter(layer, sigma, mode="nearest", truncate=4)
    layer[layer < threshold] = 0
    if mud:
        shown = ndimage.gaussian_filter((layer > threshold).astype(float), strength, mode="nearest", truncate=4)
        shown[shown < 0.8] = 0
        return image * (1 - shown[..., None]) + shown[..., None] * np.array([63, 42, 20]) / 255
    layer = (layer * 255).astype(np.uint8)
    away = np.minimum(chamfer(canny(layer, 50, 150)), 20)
    # A mean that is whole must not fall below itself for the rounding of a ninth.
    away = (ndimage.uniform_filter(away, 3, mode="mirror") + 1e-9).astype(np.uint8)
    light = ndimage.correlate(
        equalise_histogram(away).astype(int), np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]]), mode="mirror"
    ).clip(0, 255)
    light = np.rint(ndimage.uniform_filter(light.astype(float), 3, mode="mirror"))
    shine = layer * light
    if shine.max() > 0:
        shine = shine / shine.max()
    return image + strength * shine[..., None] * np.array([175, 238, 238]) / 255
