"""Measures this product beside MirrorMaker 2: `make bench`, or `python -m benchmarks --help`."""
