"""The benchmarks, one file each.

A file holds a `CARD` that describes the benchmark, `PARTS` that say what is read from disk (possibly none), and a
function `load(root, *, ...)` that gives a `Benchmark`; its keyword arguments are the benchmark's options.
"""
