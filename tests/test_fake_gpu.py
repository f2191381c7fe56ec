"""Lowering for a GPU that is not here leaves no trace, and notes what is written."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
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

from helpers import dump_triton, output_code
from helpers.errors import InputError
from tests.kinds import randn

pytest.importorskip("triton")


def state() -> dict[str, object]:
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


def test_the_session_is_as_it_was() -> None:
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


def test_indexing_a_gpu_that_is_not_here_fails_again_afterwards() -> None:
    """The device guard that stands in is taken away."""
    if torch.version.cuda:
        pytest.skip("this build of torch has a guard of its own")
    from torch._subclasses.fake_tensor import FakeTensorMode

    dump_triton(torch.sin, randn(4))
    with FakeTensorMode():
        there = torch.empty(4, device="cuda")
        with pytest.raises(RuntimeError, match="not linked with support for cuda"):
            there[torch.tensor([0])]


def test_what_the_reader_compiled_is_still_compiled_for_the_cpu() -> None:
    graphs: list[Any] = []

    @torch.compile(backend=lambda graph, _: graphs.append(graph) or graph)
    def mine(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1)

    mine(x := randn(4, 8))
    dump_triton(mine, x)
    mine(x)
    assert len(graphs) == 1
    assert "async_compile.cpp" in output_code(lambda x: x.sin() * 3, x).text


def test_the_program_runs_on_the_cpu_and_is_right(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @torch.compiler.disable
    def note(x: torch.Tensor, y: torch.Tensor) -> None:
        torch.testing.assert_close(y, torch.softmax(x, -1) * 2)
        print("right")  # a list in a closure would be put back

    def noted(x: torch.Tensor) -> torch.Tensor:
        y = torch.softmax(x, -1) * 2
        note(x, y)
        return y.cos()

    dump = dump_triton(noted, randn(8, 33))
    assert capsys.readouterr().out == "right\n"
    assert [graph.index for graph in dump.graphs] == [0, 1]


def test_from_several_threads() -> None:
    """Two at a time once ended the process."""

    def kernels(n: int) -> int:
        return len(dump_triton(lambda x: x.sin() * n, torch.ones(8)).kernels)

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(kernels, range(2, 5))) == [1, 1, 1]
