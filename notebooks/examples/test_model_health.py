"""Is my compiled model healthy?  A test to copy: it lies beside my_model.py.

    pytest test_model_health.py

The rules are those of checkup.yml. They count, and read no clock. make() gives
the model and its inputs; it is called in a process of its own.
"""

from torch_checkup import checkup

PARTS = "matches", "capture", "recompiles", "silent"


def test_my_model_is_healthy():
    found = checkup("my_model:make", only=PARTS)
    print(found)  # which pytest shows where the test fails
    found.require("matches,graphs=1,breaks=0,later_recompiles=0,stale=0")
