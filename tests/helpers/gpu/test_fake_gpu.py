"""Lowering for a GPU that is not here leaves no trace, and notes what is written."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.device_interface import CudaInterface
from torch._inductor import config as inductor_config
from torch._inductor.codegen.wrapper import PythonWrapperCodegen
from torch._inductor.graph import GraphLowering
from torch.nn import functional as F
from torch.utils import _triton as triton_support
from torch.utils._python_dispatch import TorchDispatchMode

from helpers import dump_triton
from helpers.errors import InputError
from helpers.gpu import gpus
from helpers.gpu.fake_gpu import Lowering, LoweringHere, gpu_attention
from helpers.gpu.gpus import find
from tests.kinds import broken, randn

pytest.importorskip("triton")


def state():
    """Return all that a dump changes while it runs."""
    from triton.runtime import driver

    owners = (torch.cuda, CudaInterface, CudaInterface.Worker, GraphLowering)
    owners += (PythonWrapperCodegen, triton_support, F)
    return {
        "patched": [{n: id(v) for n, v in vars(owner).items()} for owner in owners],
        "driver": id(vars(driver)["_active"]),
        "cudagraphs": inductor_config.triton.cudagraphs,
        "available": torch.cuda.is_available(),
        "random": torch.get_rng_state().tolist(),
        "gradients": torch.is_grad_enabled(),
    }


def test_the_session_is_as_it_was():
    net, x = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1)), randn(4, 8)
    dump_triton(torch.sin, randn(4))  # what a process does once
    before, weights = state(), [p.detach().clone() for p in net.parameters()]
    dump_triton(net, x, training=True)
    assert state() == before
    assert all(map(torch.equal, weights, net.parameters()))
    assert not x.requires_grad and all(p.grad is None for p in net.parameters())
    with pytest.raises(InputError, match="Call it yourself"):
        dump_triton(lambda x: x @ x, randn(3, 4))
    assert state() == before


def test_a_count_of_devices_is_no_gpu(monkeypatch):
    """Lightning sets this: with it, torch asks for no more than the count."""
    monkeypatch.setenv("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    assert dump_triton(torch.sin, randn(5)).kernels


def test_the_program_runs_on_the_cpu_and_is_right(capsys):
    @torch.compiler.disable
    def note(x, y):
        torch.testing.assert_close(y, torch.softmax(x, -1) * 2)
        print("right")  # a list in a closure would be put back

    def noted(x):
        y = torch.softmax(x, -1) * 2
        note(x, y)
        return y.cos()

    dump = dump_triton(noted, randn(8, 33))
    assert capsys.readouterr().out == "right\n"
    assert [graph.index for graph in dump.graphs] == [0, 1]


# --- as on a GPU, not as on the CPU it was traced on ----------------------------------


def test_products_norms_and_biases_take_the_gpus_steps():
    dump = dump_triton(torch.mm, randn(1, 64), randn(64, 1))
    assert [k.kind for k in dump.launches] == ["library"]
    norm = dump_triton(torch.nn.GroupNorm(2, 8), randn(2, 8, 4, 4), training=True)
    assert [k.phase for k in norm.kernels].count("forward") < 3  # as on a CPU
    conv = torch.nn.Conv2d(2, 4, 3)
    dump = dump_triton(conv, randn(1, 2, 6, 6), training=True)
    backward = [k.kind for k in dump.launches if k.phase == "backward"]
    assert backward == ["persistent reduction", "library"]  # the bias is summed apart


# --- the kernel that a GPU has for attention ------------------------------------------

HALF, SINGLE, BRAIN = torch.float16, torch.float32, torch.bfloat16
FLASH, EFFICIENT = "flash attention", "memory-efficient attention"
MATH = "two matrix products and a softmax"
GROUPED, SCALED = {"enable_gqa": True}, {"scale": 0.3}
ALL, MASK = {"dropout_p": 0.5, "is_causal": True, **SCALED}, (2, 3, 16, 20)


class Called(TorchDispatchMode):
    """Notes a call of an attention kernel, its tensors by shape; counts all calls."""

    call: tuple[Any, ...] = ()
    count = 0

    def __torch_dispatch__(self, op, _, args=(), kwargs=None):
        self.count += 1
        if "attention" in str(op):
            shapes = [x.shape if isinstance(x, torch.Tensor) else x for x in args[1:]]
            self.call = (*shapes, *(kwargs or {}).values())
        return op(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("gpu", "dtype", "width", "options", "name", "rest"),
    [
        ("a100", HALF, 256, {}, FLASH, (0.0625,)),
        ("h100", BRAIN, 36, ALL, FLASH, (0.5, True, 0.3)),
        ("h100", HALF, 32, GROUPED | SCALED, FLASH, (0.3,)),
        ("a100", HALF, 264, {}, EFFICIENT, (None, False)),
        ("t4", HALF, 32, {}, EFFICIENT, (None, False)),
        ("t4", SINGLE, 36, ALL, EFFICIENT, (None, False, 0.5, True, 0.3)),
        ("a100", BRAIN, 32, {"attn_mask": HALF}, EFFICIENT, (MASK, False)),
        ("h100", HALF, 32, {"attn_mask": torch.bool}, EFFICIENT, (MASK, False)),
        ("t4", BRAIN, 32, {}, MATH, ()),
        ("h100", SINGLE, 34, {}, MATH, ()),
        ("h100", torch.float64, 32, {}, MATH, ()),
        ("h100", SINGLE, 32, GROUPED, MATH, ()),
    ],
)
def test_attention_is_what_the_gpu_has(gpu, dtype, width, options, name, rest):
    query = torch.empty(2, 3, 16, width, dtype=dtype, device="meta")
    key = torch.empty(2, 3, 20, width, dtype=dtype, device="meta")
    if kind := options.get("attn_mask"):
        mask = torch.empty(16, 20, dtype=kind, device="meta")
        options = {**options, "attn_mask": mask}
    with Called() as called:
        result, chosen = gpu_attention(find(gpu), query, key, key, **options)
    assert (chosen, result.shape, result.dtype) == (name, query.shape, dtype)
    if name == FLASH:  # padded, cut and nothing else, or not at all
        assert called.count == (5 if width % 8 else 1)
    fed = (2, 3, 20, -(-width // 8) * 8 if name == FLASH else width)
    assert called.call == ((fed, fed, *rest) if rest else ())


# --- the back ends --------------------------------------------------------------------


def test_a_mode_is_followed_as_far_as_it_needs_no_device():
    here = LoweringHere(find("h100"), "max-autotune").options
    assert here["max_autotune"] and here["triton.cudagraphs"]
    most = Lowering(find("h100"), "max-autotune").options
    assert most == {**here, **most} and not most["shape_padding"]
    with pytest.raises(InputError, match=r"^no mode 'turbo': there are default, "):
        Lowering(find("h100"), "turbo")


def test_what_really_runs_is_noted(monkeypatch):
    """Here that is C++, as nothing is on a GPU."""
    monkeypatch.setattr(gpus, "here", lambda: find("h100"))
    weight = torch.ones(8, requires_grad=True)
    dump = dump_triton(lambda: broken(weight), gpu="this", training=True)
    both = [(n, phase) for n in range(2) for phase in ("forward", "backward")]
    assert [(graph.index, graph.phase) for graph in dump.graphs] == both
    assert "def call(" in dump.source and "async_compile.cpp" in dump.source
