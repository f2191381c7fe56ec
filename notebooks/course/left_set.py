"""What an answer sets for the whole process: put back after it, and told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch._dynamo import eval_frame

_SETTINGS = torch._dynamo.config, torch._functorch.config, torch._inductor.config
_SWITCHES = (  # what is told of it, how it's read, and how it's set
    ("the stance", lambda: eval_frame._stance, eval_frame._set_stance),
    ("grad mode", torch.is_grad_enabled, torch.set_grad_enabled),
    (
        "autocast's cache",
        torch.is_autocast_cache_enabled,
        torch.set_autocast_cache_enabled,
    ),
)


@contextmanager
def put_back() -> Iterator[list[str]]:
    """Put back what the block sets, and then list in what it yields what that was.

    That is the stance, grad mode, autocast's cache and the compiler's settings.
    """
    left: list[str] = []
    settings = [(module, module.get_config_copy()) for module in _SETTINGS]
    switches = [(told, read, read(), write) for told, read, write in _SWITCHES]
    try:
        yield left
    finally:
        for told, read, before, write in switches:
            if (now := read()) != before:
                left.append(f"{told} as {getattr(now, 'stance', now)}")
                write(before)
        for module, before in settings:
            now = module.get_config_copy()
            changed = {name: old for name, old in before.items() if now[name] != old}
            left += [f"{module.__name__}.{name} = {now[name]}" for name in changed]
            module.load_config(changed)
