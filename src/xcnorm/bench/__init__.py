"""Measurements: one module per subject, each with a function `measure` whose result JSON can hold."""
