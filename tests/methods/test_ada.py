"""ADA in small; what it shares with ME-ADA and M-ADA is in test_ascent."""

SMALL = {"phases": 2, "gap": 4, "pool": 50, "batch": 16, "ascent_steps": 3, "step_size": 100.0}
