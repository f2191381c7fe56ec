"""compat: missing names, the structured log, watching a region, this machine."""

import logging
from unittest import mock

import pytest
import torch

from helpers import _torch
from helpers.capture import Watch


def scaled(x, n=2):
    return x.sin() * n


def stopped(x):
    return sum(x.tolist())


def test_this_torch_has_every_private_name():
    assert _torch.missing() == {}


@pytest.mark.parametrize("name", ["_dynamo.utils:gone", "_gone.module:x", "_gone"])
def test_a_missing_name_says_which_torch_and_what_is_lost(name):
    with mock.patch.dict(_torch.NAMES, {"gone": (name, "the moon")}):
        with pytest.raises(Unavailable) as caught:
            _torch_private("gone")
        assert list(_torch.missing().values()) == ["the moon"]
    said = str(caught.value)
    assert torch.__version__ in said
    assert "the moon" in said
    assert name.replace(":", ".") in said
    assert "2.13" in said


def test_a_helper_that_needs_a_missing_name_raises_unavailable(monkeypatch):
    from helpers.capture import graphs

    monkeypatch.delattr("torch._dynamo.utils.clone_input")
    with pytest.raises(Unavailable, match="clone_input"):
        graphs(scaled, torch.ones(3))


def test_trace_gives_graphs_and_puts_the_logger_back():
    log = logging.getLogger("torch.__trace")
    before = log.handlers[:], log.level
    with _torch.trace() as events:
        torch.compile(scaled, backend="eager")(torch.ones(3))
    assert "dynamo_output_graph" in {event.kind for event in events}
    assert (log.handlers[:], log.level) == before
    seen = len(events)
    torch.compile(scaled, backend="eager")(torch.ones(3, 3))
    assert len(events) == seen


def test_trace_puts_the_logger_back_after_an_exception():
    log = logging.getLogger("torch.__trace")
    level = log.level
    log.setLevel(logging.ERROR)
    before = log.handlers[:], log.level
    with pytest.raises(RuntimeError, match="mine"), _torch.trace():
        raise RuntimeError("mine")
    assert (log.handlers[:], log.level) == before
    log.setLevel(level)


def test_watch_counts_compiles_with_their_reason_while_they_happen():
    compiled = torch.compile(scaled, backend="eager")
    with Watch() as watch:
        seen = [watch.compiles]
        for x in (torch.ones(3), torch.ones(3), torch.ones(4), torch.ones(5)):
            compiled(x)
            seen.append(watch.compiles)
    assert seen == [0, 1, 1, 2, 2]
    assert [event.kind for event in watch.events] == ["forward", "forward"]
    assert watch.events[0].reason == ""
    assert watch.reasons == (
        "tensor 'x' size mismatch at index 0. expected 3, actual 4",
    )
    assert (watch.graphs, watch.graph_breaks, watch.limit_hit) == (2, 0, False)
    compiled(torch.ones(3, 3))
    assert watch.compiles == 2, "what happens after the block is not its own"


def test_watch_survives_more_compiles_than_torch_remembers():
    with Watch() as watch:
        for n in range(70):
            torch.compile(eval(f"lambda x: x + {n}"), backend="eager")(torch.ones(3))
    assert 0 < watch.compiles <= 70
    assert watch.graphs == 70


def test_watch_survives_a_cleared_history():
    torch.compile(scaled, backend="eager")(torch.ones(3))
    with Watch() as watch:
        _torch_private("history").clear()
        torch.compile(scaled, backend="eager")(torch.ones(3, 3))
    assert watch.compiles == 1


def test_watch_sees_breaks_and_that_nothing_was_captured():
    compiled = torch.compile(stopped, backend="eager")
    with Watch() as watch:
        compiled(torch.ones(3))
    assert watch.graphs == 0
    assert watch.graph_breaks == 1
    assert "tolist" in watch.break_reasons[0]
    assert _torch.is_compiled(compiled)
    assert not _torch.captured(compiled)


def test_watch_sees_the_recompile_limit():
    compiled = torch.compile(scaled, backend="eager", dynamic=False)
    limit = torch._dynamo.config.recompile_limit
    with Watch() as watch:
        for n in range(2, limit + 5):
            compiled(torch.ones(n))
    assert watch.limit_hit
    assert watch.compiles == limit
    assert watch.graph_breaks == 0


def test_watch_sees_the_backward_and_a_mode_that_was_ignored():
    compiled = torch.compile(lambda x: x.cos() + 1, mode="reduce-overhead")
    # From the cache, forward and backward would come together.
    cold = torch._functorch.config.patch(enable_autograd_cache=False)
    with cold, Watch() as watch:
        compiled(torch.ones(3, requires_grad=True)).sum().backward()
    assert [event.kind for event in watch.events] == ["forward", "backward"]
    assert watch.ignored == ("CUDA graphs need tensors on an NVIDIA GPU",)
    assert watch.recordings == 0


def test_watch_does_not_see_another_mode_as_ignored():
    with Watch() as watch:
        torch.compile(scaled)(torch.ones(3))
    assert watch.ignored == ()


def test_unwrap_finds_what_was_given_to_compile():
    module = torch.nn.Linear(2, 2)
    assert _torch.unwrap(torch.compile(scaled)) is scaled
    assert _torch.unwrap(torch.compile(module)) is module
    assert _torch.unwrap(module) is module
    disabled = torch.compiler.disable(scaled)
    assert _torch.unwrap(disabled) is disabled
    assert not _torch.is_compiled(scaled)
    assert not _torch.is_compiled(disabled)


def test_captured_needs_a_call():
    compiled = torch.compile(scaled, backend="eager")
    assert not _torch.captured(compiled)
    compiled(torch.ones(3))
    assert _torch.captured(compiled)
    assert not _torch.captured(scaled)


def test_captured_looks_behind_a_break():
    def late(x):
        print(end="")
        return x.sin()

    compiled = torch.compile(late, backend="eager")
    compiled(torch.ones(3))
    assert _torch.captured(compiled)


class Block(torch.nn.Module):
    def forward(self, x):
        return x.sin()


@pytest.mark.parametrize("how", ["wrapped", "in place"])
def test_captured_knows_modules(how):
    module = Block()
    if how == "wrapped":
        module = torch.compile(module, backend="eager")
    else:
        module.compile(backend="eager")
    assert _torch.is_compiled(module)
    module(torch.ones(3))
    assert _torch.captured(module)


def test_no_cpp_compiler_comes_with_the_reason(monkeypatch):
    assert _torch.cpp_compiler()[1] == ""

    def none():
        raise RuntimeError("No working C++ compiler found in ...\nmore")

    monkeypatch.setattr("torch._inductor.cpp_builder.get_cpp_compiler", none)
    found, reason = _torch.cpp_compiler()
    assert found is None
    assert reason == "No working C++ compiler found in ..."


@pytest.mark.parametrize(
    ("needs", "installed", "expected"),
    [
        (['triton==3.7.1; platform_system == "Linux"'], "3.7.1", ("3.7.1", True)),
        (["triton==3.7.1"], "3.7.10", ("3.7.1", False)),
        (["triton~=3.8.0"], "3.8.4", ("3.8", True)),
        (["triton~=3.8.0"], "3.9.0", ("3.8", False)),
        ([], None, (None, False)),
    ],
)
def test_triton_pair(monkeypatch, needs, installed, expected):
    monkeypatch.setattr(_torch.metadata, "requires", lambda _: needs)
    monkeypatch.setattr(_torch, "version_of", lambda _: installed)
    monkeypatch.setattr(_torch, "_TRITON", {})
    assert _torch.triton_pair() == (expected[0], installed, expected[1])


def test_the_reference_pair_matches():
    wanted, installed, matches = _torch.triton_pair()
    assert wanted is not None
    if installed:
        assert matches, f"torch {torch.__version__} wants {wanted}, found {installed}"


def test_cache_folder_and_fresh_caches(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    assert _torch.inductor_cache_dir() == str(tmp_path)
    with _torch.fresh_caches():
        assert _torch.inductor_cache_dir() != str(tmp_path)
    assert _torch.inductor_cache_dir() == str(tmp_path)


def test_has_triton_gpu_is_false_without_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert _torch.has_triton_gpu() is False
