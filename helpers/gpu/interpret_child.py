"""The process in which generated kernels run: Triton's interpreter, on CPU tensors.

It is given the module that Inductor wrote for a GPU, and inputs; it says which
kernels it launched and what came out.  Whatever it replaces ends with it.
"""

from __future__ import annotations

import copy
import itertools
import linecache
import math
import re
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch

from helpers._torch import needed_for
from helpers.gpu import fake_gpu, gpus
from helpers.gpu.interpret_fixes import BOUNDS, improve
from helpers.gpu.interpret_ops import ATTENTION
from helpers.gpu.interpret_process import pack, unpack

with needed_for("Triton code for a GPU that is not here"):
    from torch._inductor.runtime import triton_heuristics


MOST = 256  # programs in a launch: with more, blocks are made larger
_VOLUME = 1 << 17  # elements in the largest block
_NUMBERS = itertools.count()


def main() -> None:
    """Answer orders, one module each with its inputs, until none come for a while."""
    pipe, idle_s = Connection(int(sys.argv[1])), float(sys.argv[2])
    improve()
    torch.cuda._DeviceGuard = torch.cuda.device = lambda _: torch.no_grad()
    torch.cuda.set_device = torch.cuda.synchronize = lambda *_: None
    with torch.no_grad(), np.errstate(all="ignore"):
        with fake_gpu.gpu(gpus.find("h100")):  # imports what Inductor's modules will
            pipe.send_bytes(b"ready")
        while pipe.poll(idle_s):
            try:
                order = unpack(pipe.recv_bytes())
            except EOFError:
                return
            with fake_gpu.gpu(gpus.find(order["gpu"])):
                run = Run(order, lambda said: pipe.send_bytes(pack(said)))
                pipe.send_bytes(pack(run.answer()))


class Run:
    """One call of a generated module."""

    def __init__(self, order: dict[str, Any], say: Callable[[Any], None]) -> None:
        self.order, self.say = order, say
        self.launches: list[dict[str, Any]] = []
        self.alive: list[Any] = []  # so that no address is used twice
        self.own: list[Any] = []  # what each kernel of the user's was given, and left

    def answer(self) -> dict[str, Any]:
        """Return the outputs, the inputs as they were left, and what went wrong."""
        inputs, outputs, error = list(self.order["inputs"]), [], ""
        try:
            outputs = list(self._call()(list(inputs)))
        except Exception as problem:  # of the kernel: whatever it is, it is reported
            lines = str(problem).strip().splitlines() or [""]
            error = f"{type(problem).__name__}: {lines[0]}"
        places = [*map(_place, [*outputs, *inputs])]
        for launch in self.launches:
            wrote = launch.pop("wrote")
            launch["outputs"] = [i for i, p in enumerate(places) if p in wrote]
        return {
            "outputs": [
                x.detach() if isinstance(x, torch.Tensor) else x for x in outputs
            ],
            "inputs": inputs,
            "launches": self.launches,
            "own": self.own,
            "error": error,
        }

    def _call(self) -> Callable[..., Any]:
        source = self.order["source"]
        source = re.sub(r"^from torch.* as get_raw_stream$", "", source, flags=re.M)
        source = source.replace("= AsyncCompile()", "= KERNELS")
        source = source.replace("torch.ops.aten._scaled_dot", "ATTENTION._scaled_dot")
        source = re.sub(r"device\(type='cuda', index=\d+\)", "device('cpu')", source)
        source = re.sub(r"(['\"])cuda(:\d+)?\1", "'cpu'", source)
        # A library's output, or an input, may be laid out otherwise on a GPU.
        given = r"assert_size_stride\((\w+), (.*)\)$"
        source = re.sub(given, r"\1 = LAID_OUT(\1, \2)", source, flags=re.M)
        space = {
            "__name__": "generated",
            "LAID_OUT": _laid_out,
            "KERNELS": self,
            "ATTENTION": ATTENTION,
            "get_raw_stream": int,
        }
        exec(compile(source, "<generated module>", "exec"), space)
        space["empty_strided_cuda"] = _empty
        torch.manual_seed(self.order["seed"])
        return space["call"]

    def triton(self, name: str, text: str, **_: Any) -> Launcher:
        """Stand in for Inductor's compiler: the kernel *name* of the module *text*."""
        return Launcher(self, name, text)

    def wait(self, _: Any) -> None:
        """Do nothing: no kernel is being compiled in the background."""


class Launcher:
    """What a generated module calls to launch a kernel."""

    def __init__(self, owner: Run, name: str, text: str) -> None:
        self.owner = owner
        # Triton reads a kernel's text through its file, and there is none.
        file = f"<generated kernel {next(_NUMBERS)}>"
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        space = {"__name__": file, "__file__": file}
        text = text.replace("device='cuda'", "device='cpu'")
        exec(compile(text, file, "exec"), space)
        self.tuner, self.name = space[name], name

    def run(self, *args: Any, stream: Any = None, **more: Any) -> None:
        """Launch the kernel in the interpreter."""
        tuner = self.tuner
        chosen = self.owner.order["chosen"].get(self.name, 0)
        config = tuner.configs[chosen]
        bound, extra = self._bind(config, args)
        larger = self._larger(config, {**bound, **extra})
        grid = self._grid(larger, {**bound, **extra})
        tensors = [x for x in bound.values() if isinstance(x, torch.Tensor)]
        shown = {k: v for k, v in larger.kwargs.items() if "BLOCK" in k}
        said = {
            "name": self.name,
            "programs": math.prod(grid),
            "blocks": _text(shown),
            "own": bool(tuner.custom_kernel),
            "instead": "" if larger is config else _text(config.kwargs),
        }
        self.owner.say(said)
        self.owner.alive += tensors
        BOUNDS.allow(tensors)
        before = [x.clone() for x in tensors]
        tuner.fn[grid](**{**bound, **larger.kwargs})
        if tuner.custom_kernel:
            self.owner.own.append([before, [x.clone() for x in tensors]])
        wrote = [
            _place(x)
            for x, old in zip(tensors, before, strict=True)
            if not _same(x, old)
        ]
        self.owner.launches.append({**said, "wrote": wrote})

    def _bind(self, config: Any, args: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arguments by name: the kernel's, and those of the grid alone."""
        names = self.tuner.inductor_meta.get("extra_launcher_args", ())
        extra = dict(zip(names, args[len(args) - len(names) :], strict=True))
        args = args[: len(args) - len(names)]
        wanted = [n for n in self.tuner.fn.arg_names if n not in config.kwargs]
        constants = self.tuner.triton_meta.get("constants", {})
        if len(args) < len(wanted):
            wanted = [n for n in wanted if n not in constants]
        bound = dict(zip(wanted, args, strict=True))
        rest = {n: v for n, v in constants.items() if n in self.tuner.fn.arg_names}
        return {**rest, **bound}, extra

    def _grid(self, config: Any, values: dict[str, Any]) -> tuple[int, ...]:
        rule = triton_heuristics.GridExpr.from_meta(self.tuner.inductor_meta, config)
        return tuple(map(int, rule.eval_slow({**config.kwargs, **values})))

    def _larger(self, config: Any, values: dict[str, Any]) -> Any:
        """Return *config*, with larger blocks where it takes too many programs."""
        simple = re.match(r"Grid\dD", self.tuner.inductor_meta["grid_type"])
        inner = {} if "R0_BLOCK" in config.kwargs else self.tuner.size_hints or {}
        inner = math.prod(n for name, n in inner.items() if name[0] == "r")
        while simple and math.prod(self._grid(config, values)) > MOST:
            options = []
            for name in {"XBLOCK", "YBLOCK"} & set(config.kwargs):
                option = copy.copy(config)
                option.kwargs = {**config.kwargs, name: 2 * config.kwargs[name]}
                options.append((math.prod(self._grid(option, values)), option))
            _, best = min(options, key=lambda each: each[0])
            blocks = [n for name, n in best.kwargs.items() if "BLOCK" in name]
            if math.prod(blocks) * inner > _VOLUME:
                break
            config = best
        return config


def _text(blocks: dict[str, Any]) -> str:
    return ", ".join(f"{k} {v}" for k, v in blocks.items() if "BLOCK" in k)


def _same(now: torch.Tensor, before: torch.Tensor) -> bool:
    return torch.equal(
        now.reshape(-1).view(torch.uint8), before.reshape(-1).view(torch.uint8)
    )


def _place(value: Any) -> int:
    return value.untyped_storage().data_ptr() if isinstance(value, torch.Tensor) else 0


def _laid_out(value: torch.Tensor, size: Any, stride: Any, *_: Any) -> torch.Tensor:
    """Return *value*, copied where its strides are not those of the GPU."""
    pairs = zip(value.stride(), stride, size, strict=True)
    if all(a == b for a, b, n in pairs if n > 1) or not value.numel():
        return value
    return torch.empty_strided(size, stride, dtype=value.dtype).copy_(value)


def _empty(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
    """Return memory in which a number that no kernel wrote is seen."""
    made = torch.empty_strided(size, stride, dtype=dtype)
    return made.fill_(float("nan") if dtype.is_floating_point else 0)


if __name__ == "__main__":
    main()
