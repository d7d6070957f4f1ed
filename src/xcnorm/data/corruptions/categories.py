"""How corruptions are grouped in tables. Published numbers differ in this, so each grouping has a name."""

from collections.abc import Mapping
from types import MappingProxyType

_WEATHER = ("fog", "snow", "frost")
_BLUR = ("zoom_blur", "defocus_blur", "glass_blur", "motion_blur")
_NOISE = ("gaussian_noise", "shot_noise", "impulse_noise")
_DIGITAL = ("jpeg_compression", "pixelate", "elastic_transform")

_MAPS: dict[str, dict[str, tuple[str, ...]]] = {
    # The tables of single domain generalization: brightness and contrast count as digital.
    "sdg4": {
        "weather": _WEATHER,
        "blur": _BLUR,
        "noise": _NOISE,
        "digital": (*_DIGITAL, "brightness", "contrast"),
    },
    # The benchmark as first published: brightness counts as weather.
    "hendrycks4": {
        "noise": _NOISE,
        "blur": _BLUR,
        "weather": (*_WEATHER, "brightness"),
        "digital": (*_DIGITAL, "contrast"),
    },
    # With the four that were held out for validation; the curves over severities use these.
    "all19": {
        "weather": _WEATHER,
        "blur": (*_BLUR, "gaussian_blur"),
        "noise": (*_NOISE, "speckle_noise"),
        "digital": (*_DIGITAL, "brightness", "contrast", "spatter", "saturate"),
    },
    # The robustness score's five; who belongs to the last two is our reading, the paper does not say.
    "mrs5": {
        "weather": _WEATHER,
        "blur": _BLUR,
        "noise": _NOISE,
        "digital": _DIGITAL,
        "chromatic": ("brightness", "contrast", "saturate"),
    },
}

CATEGORIES: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {name: MappingProxyType(groups) for name, groups in _MAPS.items()}
)
"""Category maps by name; each maps a category to its corruptions."""
