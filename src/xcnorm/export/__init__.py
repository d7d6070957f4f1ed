"""Exports: a trained network as a file that runs without this package, checked against torch before it has its name."""

from xcnorm.export.exporting import FORMATS, Export, export_model

__all__ = ["FORMATS", "Export", "export_model"]
