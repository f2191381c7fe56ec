"""Plants a fault in every Python that starts with this folder on its PYTHONPATH.

Kernels, and the processes they start, come by here before they import torch.
"""

import os

if os.environ.get("PLANTED_FAULT"):
    from tests.proof.broken import FAULTS

    FAULTS[os.environ["PLANTED_FAULT"]].plant()
