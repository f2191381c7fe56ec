"""The compiled chain of eight operations against a plain copy of the same data."""

from __future__ import annotations

from statistics import median

import torch

from helpers import compare, keep_memory, kernels
from tests.benchmarks.common import record, table
from tests.benchmarks.picture import eight


def main(runs: int) -> None:
    """Report the share of the copy's bandwidth, and what was counted."""
    keep_memory()
    rows = []
    for mib in (256, 512):
        x = torch.randn(mib * 2**20 // 8)
        target = torch.empty_like(x)
        compiled = torch.compile(eight)
        compiled(x)
        found = [
            compare(target.copy_, compiled, x, same_answer=False) for _ in range(runs)
        ]
        shares = sorted(one.speedup for one in found)
        made = kernels(eight, x)
        rows.append(
            {
                "working set": f"{mib} MiB",
                "runs": runs,
                "kernels": len(made.kernels),
                "bytes moved": made.bytes,
                "reads and writes": made.bytes / x.nbytes,
                "page faults a call": max(one.page_faults[1] for one in found),
                "share of copy bandwidth": f"{median(shares):.1%}",
                "lowest, highest": f"{shares[0]:.1%}, {shares[-1]:.1%}",
            }
        )
    record("bandwidth", rows)
    print(table(rows))
