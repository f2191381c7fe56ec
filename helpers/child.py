"""What a fresh process of ``compare(make, processes=5)`` runs."""

from __future__ import annotations

import json
import linecache
import sys
from typing import Any

from helpers.benchmark import MARK, compare


def main() -> None:
    """Read an order as JSON, run its comparison, write the result as JSON."""
    order = json.load(sys.stdin)
    # Dynamo and error messages read source lines: give the text a file of its own.
    name, source = f"<{order['name']}>", order["source"]
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space: dict[str, Any] = {"__name__": "__comparison__"}
    exec(compile(source, name, "exec"), space)
    eager, compiled, inputs = space[order["name"]]()
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    result = compare(eager, compiled, *inputs, **order["limits"])
    print(MARK + json.dumps(result.to_json()), flush=True)


if __name__ == "__main__":
    main()
