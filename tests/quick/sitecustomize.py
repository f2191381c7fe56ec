"""Compiling makes many objects and few cycles: looking for them took an eighth."""

import gc

gc.set_threshold(50_000, 20, 50)
