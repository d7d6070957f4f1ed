"""Data: for now the digits that need no download."""

from xcnorm.data.embedded import LabelledImages, mnist5k, optdigits

__all__ = ["LabelledImages", "mnist5k", "optdigits"]
