"""Run a reader's Triton kernel in Triton's interpreter: python interpreted.py FOLDER.

A process of its own, because the interpreter takes the place of Triton's compiler
when Triton is imported.  FOLDER holds kernel.py with ``answer``, and cases.pt with
(programs, tensors, numbers, BLOCK) for each launch.  What the launches leave in their
last tensor, or a text that says what went wrong, goes into results.pt.
"""

import os
import sys
import traceback
from importlib import import_module
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch
from triton.runtime.interpreter import InterpreterBuilder


def watch(name, verb, mask_at, tensors):
    """Let the interpreter's method *name* raise where it leaves all *tensors*."""
    touch = getattr(InterpreterBuilder, name)

    def watched(builder, pointers, *rest):
        mask = rest[mask_at].data.astype(bool)
        used = np.broadcast_to(pointers.data, mask.shape)[mask].astype(np.int64)
        begins = [tensor.data_ptr() for tensor in tensors]
        inside = [
            (begin <= used) & (used < begin + tensor.nbytes)
            for begin, tensor in zip(begins, tensors, strict=True)
        ]
        if not np.logical_or.reduce(inside).all():
            raise IndexError(f"a program {verb} memory past the tensors")
        return touch(builder, pointers, *rest)

    setattr(InterpreterBuilder, name, watched)


def explained(error):
    """Return what the kernel raised, and the reader's own lines that led there."""
    cause = error
    while cause.__cause__ is not None:  # the interpreter's own error wraps it
        cause = cause.__cause__
    frames = [f for e in (error, cause) for f in traceback.extract_tb(e.__traceback__)]
    lines = [f.line for f in frames if Path(f.filename).name == "kernel.py"]
    own = [f"  your line: {line}" for line in dict.fromkeys(lines)]
    return "\n".join([f"{type(cause).__name__}: {cause}", *own])


def main(folder):
    sys.path.insert(0, str(folder))
    kernel = import_module("kernel").answer
    allowed, results = [], []
    watch("create_masked_load", "loads from", 0, allowed)
    watch("create_masked_store", "stores to", 1, allowed)
    for programs, tensors, numbers, block in torch.load(folder / "cases.pt"):
        allowed[:] = tensors
        try:
            with np.errstate(all="ignore"):
                kernel[(programs,)](*tensors, *numbers, BLOCK=block)
            results.append(tensors[-1])
        except Exception as error:  # whatever the reader's kernel raises
            results.append(explained(error))
    torch.save(results, folder / "results.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
