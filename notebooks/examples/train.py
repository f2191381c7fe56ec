"""A compiled training loop to copy: lesson 20 tries each choice in it."""

import copy

import torch
from torch.nn.utils import clip_grad_norm_
from torch.optim.lr_scheduler import OneCycleLR


def train(model, loss_of, windows, held_out, path, compile=torch.compile):
    """Train on windows of micro-batches; loss_of(model, part) is a sum."""
    loss_of = compile(loss_of)  # the loss inside; the model itself stays plain
    # on a GPU: foreach=True, capturable=True
    optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(3e-3))
    plan = {"total_steps": len(windows), "cycle_momentum": False}
    schedule = OneCycleLR(optimizer, max_lr=3e-3, **plan)
    step = compile(optimizer.step)
    state = copy.deepcopy(model.state_dict())
    for part in [windows[0][0], windows[0][-1]]:  # warm-up, backward included
        loss_of(model, part).backward()
    optimizer.zero_grad()
    model.load_state_dict(state)  # a batch norm has moved
    losses = []
    for parts in windows:
        count, total = sum(part[:, 1:].numel() for part in parts), 0.0
        for part in parts:
            loss = loss_of(model, part) / count  # over the whole window
            loss.backward()
            total = total + loss.detach()  # no .item(): it waits for the GPU
        clip_grad_norm_(model.parameters(), max_norm=1.0)
        step()
        optimizer.zero_grad()
        schedule.step()
        losses.append(total)
    model.eval()
    with torch.no_grad():  # compiles its own version
        held = loss_of(model, held_out) / held_out[:, 1:].numel()
    model.train()  # all parts: one that came in eval() needs eval() again
    torch.save(model.state_dict(), path)  # no "_orig_mod." in its keys
    return torch.stack(losses).tolist(), held.item()
