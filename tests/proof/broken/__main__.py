"""`python -m tests.proof.broken NAME ...`: print what the probes of faults see.

Several names are looked at side by side, each in a fork of one start of torch: that
is for a healthy compiler, as a planted fault has to be there from the start.
"""

from __future__ import annotations

import multiprocessing
import sys

from tests.proof.broken import FAULTS


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
        for line in pool.imap(seen, names, chunksize=1):
            print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
