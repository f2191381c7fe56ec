"""Benchmarks of the course itself: `python -m tests.benchmarks --help`."""
