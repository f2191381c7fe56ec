"""Proof that the checks can fail: `python -m tests.proof --help`."""
