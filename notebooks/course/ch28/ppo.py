"""The loop around a policy: an episode in plain Python, and PPO's loss of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def episode(policy: Callable[..., Any], steps: int) -> tuple[torch.Tensor, ...]:
    """Play *steps* in an environment that is plain Python."""
    place, speed, kept = 0.0, 0.1, []
    for _ in range(steps):
        state = torch.tensor([place, speed, place * speed, 1.0])
        logits, value = policy(state)
        action = torch.multinomial(logits.softmax(-1), 1).item()
        speed += 0.1 if action else -0.1
        place += speed
        kept.append((state, action, logits[action], value, 1 - abs(place)))
    states, actions, logits, values, rewards = zip(*kept, strict=True)
    gained = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
    return (
        torch.stack(states),
        torch.tensor(actions),
        torch.stack(logits).detach(),
        gained - torch.stack(values).detach(),
    )


def ppo_loss(
    policy: Callable[..., Any],
    states: torch.Tensor,
    actions: torch.Tensor,
    before: torch.Tensor,
    better: torch.Tensor,
) -> torch.Tensor:
    """Return PPO's clipped loss, and that of the critic."""
    logits, values = policy(states)
    chosen = logits.gather(1, actions[:, None]).squeeze(1)
    ratio = (chosen - before).exp()
    clipped = ratio.clamp(0.8, 1.2)
    wanted = torch.minimum(ratio * better, clipped * better).mean()
    return (better - values).square().mean() - wanted
