"""Triton code, PTX and machine code for any GPU, on a machine that has none."""
