"""`python -m tests.proof.broken NAME ...`: print what the probes of faults see.

Several names are looked at side by side, each in a fork of one start of torch: that
is for a healthy compiler, as a planted fault has to be there from the start.
"""

from __future__ import annotations

import multiprocessing
import sys

from tests.proof.broken import FAULTS

SECONDS = 300


def seen(name: str) -> str:
    """Return what the probe of a fault sees in this process."""
    try:
        return repr(FAULTS[name].probe())
    except Exception as error:
        return f"{type(error).__name__}: {str(error).split(chr(10))[0][:100]}"


def main(names: list[str]) -> None:
    """Print a line for each fault."""
    if len(names) == 1:
        print(seen(names[0]))
        return
    import torch._dynamo
    import torch._inductor.compile_fx  # noqa: F401  each fork has it

    fresh = multiprocessing.get_context("fork").Pool(2, maxtasksperchild=1)
    with fresh as pool:
        for answer in [pool.apply_async(seen, (name,)) for name in names]:
            try:
                print(answer.get(SECONDS), flush=True)
            except multiprocessing.TimeoutError:  # it hangs, or its process died
                print("no answer", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
