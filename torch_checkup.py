"""``torch-checkup``: what torch.compile does to a model of yours, and what to try.

    python path/to/course/torch_checkup.py my_model.py:make

The way in from other projects: they may have a module ``helpers`` of their own, which
Python may find first.  This one has a name of its own, and ours beside it.
"""

import sys
from pathlib import Path

HOME = str(Path(__file__).resolve().parent)
sys.path.insert(0, HOME)
from helpers.__main__ import checkup  # noqa: E402

sys.path.remove(HOME)

if __name__ == "__main__":
    sys.exit(checkup())
