"""Lowering for a GPU that is not here leaves no trace, and notes what is written."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
from torch import nn
from torch._dynamo.device_interface import CudaInterface
from torch._inductor import config as inductor_config
from torch._inductor import list_mode_options
from torch._inductor.codegen.wrapper import PythonWrapperCodegen
from torch._inductor.graph import GraphLowering
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _triton as triton_support
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from helpers import dump_triton, output_code
from helpers.errors import InputError, Unavailable
from helpers.gpu import gpus
from helpers.gpu.fake_gpu import (
    LoweredGraph,
    Lowering,
    LoweringHere,
    Stopped,
    gpu,
    gpu_attention,
)
from helpers.gpu.gpus import find
from tests.kinds import KINDS, dumped, randn

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


def test_indexing_a_gpu_that_is_not_here_fails_again_afterwards():
    """The device guard that stands in is taken away."""
    if torch.version.cuda:
        pytest.skip("this build of torch has a guard of its own")
    from torch._subclasses.fake_tensor import FakeTensorMode

    dump_triton(torch.sin, randn(4))
    with FakeTensorMode():
        there = torch.empty(4, device="cuda")
        with pytest.raises(RuntimeError, match="not linked with support for cuda"):
            there[torch.tensor([0])]


def test_what_the_caller_compiled_is_still_compiled_for_the_cpu():
    graphs = []

    @torch.compile(backend=lambda graph, _: graphs.append(graph) or graph)
    def mine(x):
        return torch.softmax(x, -1)

    mine(x := randn(4, 8))
    dump_triton(mine, x)
    mine(x)
    assert len(graphs) == 1
    assert "async_compile.cpp" in output_code(lambda x: x.sin() * 3, x).text


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


def test_from_several_threads():
    """Two at a time once ended the process."""

    def kernels(n):
        return len(dump_triton(lambda x: x.sin() * n, torch.ones(8)).kernels)

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(kernels, range(2, 5))) == [1, 1, 1]


# --- as on a GPU, not as on the CPU it was traced on ----------------------------------


def test_statistics_of_a_half_precision_norm_stay_wide():
    forward = dumped("bfloat16 LayerNorm, training").kernels[0]
    signature = forward.generated.split("'signature': {")[1].split("}")[0]
    assert signature.count("*fp32") == 2 and "*bf16" in signature


def test_products_norms_and_biases_take_the_gpus_steps():
    dump = dump_triton(torch.mm, randn(1, 64), randn(64, 1))
    assert [k.kind for k in dump.launches] == ["library"]
    norm = dump_triton(torch.nn.GroupNorm(2, 8), randn(2, 8, 4, 4), training=True)
    assert [k.phase for k in norm.kernels].count("forward") < 3  # as on a CPU
    conv = torch.nn.Conv2d(2, 4, 3)
    dump = dump_triton(conv, randn(1, 2, 6, 6), training=True)
    backward = [k.kind for k in dump.launches if k.phase == "backward"]
    assert backward == ["persistent reduction", "library"]  # the bias is summed apart


def test_constants_are_folded():
    dump = dump_triton(lambda x: (x * 0 + torch.ones(4) * 3) * x, randn(4))
    assert [(k.loads, k.stores) for k in dump.kernels] == [(1, 1)]


@pytest.mark.parametrize(
    ("fn", "shape", "training"),
    [
        (lambda x: x * torch.tensor(2.0), (8,), False),
        (lambda x: x * torch.tensor([0.5, 0.4])[:, None], (2, 3), True),
        (lambda x: x[torch.tensor([0, 2])] * 2, (3, 4), True),
        (lambda x: x + torch.as_tensor([1.0, 2.0], device=x.device), (3, 2), False),
    ],
)
def test_constants_made_inside_are_on_the_gpu(fn, shape, training):
    dump = dump_triton(fn, randn(*shape), training=training)
    assert {k.kind for k in dump.launches} == {"pointwise"}
    assert "cpp" not in dump.source and all(min(k.grid) > 0 for k in dump.kernels)


def test_attention_that_runs_again_in_the_backward():
    def attend(q):
        return F.scaled_dot_product_attention(q.sin(), q, q)

    dump = dump_triton(
        lambda q: checkpoint(attend, q, use_reentrant=False),
        randn(1, 2, 16, 32),
        training=True,
    )
    assert [call.phase for call in dump.library] == ["forward", "backward", "backward"]


def test_the_gpu_is_the_one_asked_for():
    fn, inputs = KINDS["pointwise chain"].make()
    source = dump_triton(fn, *inputs, gpu="b200").source
    assert "cc=100" in source and "multi_processor_count=148" in source


@pytest.mark.parametrize(
    ("version", "message"), [(None, "here is none: pip"), ("1.0.0", "here is 1.0.0")]
)
def test_without_the_right_triton(version, message, monkeypatch):
    from helpers import _torch

    monkeypatch.setattr(_torch, "version_of", lambda name: version)
    said = "; elsewhere output_code\\(f, x\\) shows the C\\+\\+ code$"
    with pytest.raises(
        Unavailable, match=rf"{message}.* It exists for Linux only{said}"
    ):
        dump_triton(torch.sin, randn(4))


def test_the_gpu_answers_in_the_place_of_one():
    for name, knows_bfloat16 in (("t4", False), ("a100", True)):
        with gpu(find(name)):
            assert CudaInterface.is_available()
            for owner in (torch.cuda, CudaInterface):
                assert (owner.current_device(), owner.device_count()) == (0, 1)
                assert owner.is_bf16_supported() is knows_bfloat16
                properties = owner.get_device_properties(0)
                assert properties.multi_processor_count == find(name).multiprocessors
            random = torch.cuda.get_rng_state()
            assert (random.shape, random.dtype) == ((16,), torch.uint8)
            torch.cuda.set_rng_state(random)


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


@pytest.mark.parametrize("shape", [(2, 3, 16, 34), (3, 16, 32)])
def test_attention_without_a_kernel_is_computed(shape):
    q, mask, options = randn(*shape), randn(16, 16), {"scale": 0.3}
    for more in ({"attn_mask": mask}, {"is_causal": True}, {"dropout_p": 0.5}):
        torch.manual_seed(0)
        result, name = gpu_attention(
            find("h100"), q, q.sin(), q.cos(), **more, **options
        )
        torch.manual_seed(0)
        with sdpa_kernel(SDPBackend.MATH):
            wanted = F.scaled_dot_product_attention(
                q, q.sin(), q.cos(), **more, **options
            )
        assert name == MATH and torch.equal(result, wanted)


def test_the_choice_follows_what_is_switched_off_and_what_needs_gradients():
    q = torch.empty(1, 2, 16, 32, dtype=HALF, device="meta", requires_grad=True)
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION), Called() as called:
        assert gpu_attention(find("h100"), q, q, q)[1] == EFFICIENT
    assert called.call[2:] == (None, True)  # with what the backward needs
    with sdpa_kernel(SDPBackend.MATH):
        assert gpu_attention(find("h100"), q, q, q)[1] == MATH


# --- the back ends --------------------------------------------------------------------


def lowering(fn, *inputs):
    """Return the back end with which *fn* was compiled, and called twice."""
    backend = Lowering(find("h100"), None)
    compiled = torch.compile(fn, backend=backend)
    with torch.no_grad():
        for each in (inputs, [x + 1 for x in inputs]):
            torch.testing.assert_close(compiled(*each), fn(*each))
    return backend


def three_graphs(x):
    y = x.sin()
    torch._dynamo.graph_break()
    z = y.cos()
    torch._dynamo.graph_break()
    return z.exp()


def test_a_mode_is_followed_as_far_as_it_needs_no_device():
    known = {"coordinate_descent_tuning": True, "fx_graph_cache": False}
    more = dict.fromkeys(("cpp_wrapper", "shape_padding"), False)
    known["triton.cudagraphs"] = True
    here = {**known, "max_autotune": True}
    most = {**here, **more, "compile_threads": 1}
    assert Lowering(find("h100"), "max-autotune").options == most
    assert LoweringHere(find("h100"), "max-autotune").options == here
    usual = {**more, "fx_graph_cache": False, "compile_threads": 1}
    assert Lowering(find("h100"), None).options == usual
    names = ", ".join(list_mode_options())
    with pytest.raises(InputError, match=f"^no mode 'turbo': there are {names}$"):
        Lowering(find("h100"), "turbo")


def test_a_back_end_notes_its_graphs_and_the_inputs_of_the_first_call():
    x = randn(4, 4)
    backend = lowering(lambda x: x.sin() @ x, x)
    [graph] = backend.graphs
    assert (graph.index, graph.phase, backend.count) == (0, "inference", 1)
    assert torch.equal(graph.inputs[0], x) and graph.inputs[0] is not x
    assert (backend.autocast, backend.stopped, backend.attention) == (False, "", set())
    assert [graph.index for graph in lowering(three_graphs, x).graphs] == [0, 1, 2]
    either = lowering(lambda x: torch.cond(x.sum() > 0, torch.sin, torch.exp, (x,)), x)
    assert len(either.graphs[0].kernels) == 3
    half = lowering(
        lambda x: F.scaled_dot_product_attention(x, x, x), randn(1, 2, 4, 8)
    )
    assert half.attention == {EFFICIENT}


def test_autocast_is_noted():
    def inside(x):
        with torch.autocast("cpu", BRAIN):
            return x @ x

    x = randn(4, 4)
    assert lowering(inside, x).autocast
    for device in ("cpu", "cuda"):
        before = torch.is_autocast_enabled(device)
        torch.set_autocast_enabled(device, True)
        try:
            assert lowering(torch.sin, x).autocast
        finally:
            torch.set_autocast_enabled(device, before)


def test_what_needs_a_gpu_stops_the_program():
    from tests.helpers.gpu.triton_kernel import add_one

    def launch(x):
        out = torch.empty_like(x)
        add_one[(1,)](x, out, x.numel(), BLOCK=64)
        return out

    backend = Lowering(find("h100"), None)
    around = torch.compile(
        lambda x: checkpoint(launch, x, use_reentrant=False), backend=backend
    )
    believes = mock.patch.object(triton_support, "has_triton", return_value=True)
    with believes, pytest.raises(Stopped):
        around(randn(8))
    assert backend.stopped == "your own Triton kernel"


def test_what_really_runs_is_noted(monkeypatch):
    """Here that is C++, as nothing is on a GPU."""
    monkeypatch.setattr(gpus, "here", lambda: find("h100"))
    weight = torch.ones(8, requires_grad=True)
    dump = dump_triton(lambda: three_graphs(weight), gpu="this", training=True)
    both = [(n, phase) for n in range(3) for phase in ("forward", "backward")]
    assert [(graph.index, graph.phase) for graph in dump.graphs] == both
    assert "def call(" in dump.source and "async_compile.cpp" in dump.source

    tuned = SimpleNamespace(configs=["a", "b"], launchers=[SimpleNamespace(config="b")])
    plain = SimpleNamespace(configs=None, launchers=[SimpleNamespace(config="b")])
    module = SimpleNamespace(tuned=tuned, plain=plain, other=None)
    backend = LoweringHere(find("h100"), None)
    [*backend.graphs] = (
        LoweredGraph(0, "inference", None, module=each) for each in (None, module)
    )
    backend.settle()
    assert [graph.chosen for graph in backend.graphs] == [{}, {"tuned": 1}]
