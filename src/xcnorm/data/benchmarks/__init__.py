"""The benchmarks, one file each.

A file holds a `CARD` that describes the benchmark and, under `register_benchmark`, a function `load(root, *, ...)` that
gives a `Benchmark`; its keyword arguments are the benchmark's options.
"""
