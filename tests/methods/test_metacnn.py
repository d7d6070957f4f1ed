"""MetaCNN: what becomes of a network, and settings that are refused."""

SMALL = {"words": 24, "chosen": 4}
