"""Formulas that the backends share, in plain torch: differentiable twice, on every device."""
