"""Train on several ranks with DDP or FSDP2, compiled.  A file to copy.

    torchrun --standalone --nproc-per-node 2 train_two_ranks.py
    torchrun --standalone --nproc-per-node 2 train_two_ranks.py --wrap fsdp

It needs nothing of this course.  For several nodes, see multi_node.md.
"""

import argparse
import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel as DDP


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, width=256, depth=4):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, 8)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def connect(seconds):
    """Join the other ranks, and return the device of this one."""
    local = int(os.environ["LOCAL_RANK"])
    gpu = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    device = torch.device("cuda", local) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    timeout = timedelta(seconds=seconds)
    dist.init_process_group("nccl" if gpu else "gloo", timeout=timeout)
    return device


def wrapped(model, how):
    if how == "ddp":
        return DDP(torch.compile(model))
    for block in model.blocks:
        block.compile()
        fully_shard(block)
    return fully_shard(model)


def batch(step, device, rows=128, width=256):
    """Return this rank's share of a batch that is the same everywhere."""
    torch.manual_seed(step)
    x = torch.randn(rows, width)
    share = slice(dist.get_rank(), None, dist.get_world_size())
    return x[share].to(device), x[share, :8].to(device)


def train(model, device, steps):
    # After wrapping: FSDP2 has parameters of its own.
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step in range(steps):
        x, target = batch(step, device)
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        dist.all_reduce(loss := loss.detach() / dist.get_world_size())
        if dist.get_rank() == 0:
            print(f"step {step}: loss {loss.item():.2f}")


def report():
    """Say how many graphs Inductor made for this rank, or found on disk."""
    found = torch._dynamo.utils.counters["inductor"]
    graphs = found["fxgraph_cache_miss"] + found["fxgraph_cache_hit"]
    print(
        f"rank {dist.get_rank()} of {dist.get_world_size()},",
        f"node {os.environ['GROUP_RANK']}: {graphs} graphs",
    )


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--wrap", choices=["ddp", "fsdp"], default="ddp")
    options.add_argument("--steps", type=int, default=3)
    options.add_argument("--timeout", type=float, default=600)
    asked = options.parse_args()
    device = connect(asked.timeout)
    torch.manual_seed(0)  # the same weights on each rank
    model = wrapped(Model(depth=2).to(device), asked.wrap)
    train(model, device, asked.steps)
    report()
    dist.barrier()  # no rank leaves while gloo still frees its last tensor
    dist.destroy_process_group()
    # Here, where the model is still held: to free it, and Python's own end,
    # may wait for ever for a thread of gloo or autograd that wants its lock:
    # https://github.com/pytorch/pytorch/issues/190489
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
