"""PPO, and a world to learn in: a cart that is to stay in the middle.

    *seen, rewards = play(policy, steps=64)
    better = advantages(seen[-1], rewards)
    loss = ppo_loss(policy, *seen, better)

The world is plain Python: no compiler can take it into a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Episode = tuple[torch.Tensor, ...]
Act = Callable[..., tuple[torch.Tensor, torch.Tensor]]
"""A policy: from a state to logits of two actions, and a value."""


class Cart:
    """A cart on a rail from -2 to 2, pushed left or right."""

    def __init__(self) -> None:
        self.place, self.speed = 1.0, 0.0

    @property
    def state(self) -> list[float]:
        """The four numbers that the policy sees."""
        return [self.place, self.speed, self.place * self.speed, 1.0]

    def push(self, right: bool) -> float:
        """Move by one step; return the reward, 1 in the middle and -1 at the ends."""
        self.speed = 0.9 * self.speed + (0.1 if right else -0.1)
        self.place = min(max(self.place + self.speed, -2.0), 2.0)
        return 1.0 - abs(self.place)


def play(act: Act, steps: int) -> Episode:
    """Play *steps* with the actions that *act* draws; return what PPO learns from.

    These are states, actions, their log-probabilities, values and rewards.
    """
    cart, kept = Cart(), []
    with torch.no_grad():
        for _ in range(steps):
            state = torch.tensor(cart.state)
            logits, value = act(state)
            action = int(torch.multinomial(logits.softmax(-1), 1))
            reward = torch.tensor(cart.push(action == 1))
            kept.append((state, action, logits.log_softmax(-1)[action], value, reward))
    return columns(kept)


def columns(kept: Sequence[Sequence[Any]]) -> Episode:
    """Return each column as a tensor."""
    return tuple(
        torch.stack(list(map(torch.as_tensor, column)))
        for column in zip(*kept, strict=True)
    )


def advantages(values: torch.Tensor, rewards: torch.Tensor) -> torch.Tensor:
    """Return how much better each action was than expected, step by step."""
    later, after, found = torch.zeros(()), torch.zeros(()), []
    for t in reversed(range(len(rewards))):
        surprise = rewards[t] + 0.9 * after - values[t]
        later, after = surprise + 0.81 * later, values[t]
        found.append(later)
    return torch.stack(found[::-1])


def ppo_loss(
    policy: Act,
    states: torch.Tensor,
    actions: torch.Tensor,
    before: torch.Tensor,
    values: torch.Tensor,
    better: torch.Tensor,
) -> torch.Tensor:
    """Return PPO's clipped loss, and that of the critic."""
    logits, now = policy(states)
    chosen = logits.log_softmax(-1).gather(1, actions[:, None]).squeeze(1)
    ratio = (chosen - before).exp()
    gain = torch.minimum(ratio * better, ratio.clamp(0.8, 1.2) * better)
    return (better + values - now).square().mean() - gain.mean()
