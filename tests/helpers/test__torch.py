"""The private names of torch: what is asked of them, and what is said without one."""

import logging
from types import SimpleNamespace

import pytest
import torch
from torch._inductor import cpp_builder

from helpers import _torch
from helpers._torch import Event, needed_for, trace
from helpers.errors import Unavailable


@pytest.mark.parametrize("error", [ImportError, AttributeError])
def test_a_version_without_the_name_says_what_is_lost(error):
    with pytest.raises(Unavailable) as raised, needed_for("the kernels"):
        raise error("no name 'x'")
    assert str(raised.value) == (
        f"torch {torch.__version__} lacks a private name (no name 'x'). Without it, "
        "this code loses: the kernels. Use torch 2.13, for which it is written."
    )
    with pytest.raises(KeyError), needed_for("the kernels"):
        raise KeyError("another")


# --- the structured log --------------------------------------------------------------


def record(metadata, payload=None):
    return SimpleNamespace(metadata=metadata, payload=payload)


@pytest.mark.parametrize(
    ("given", "event"),
    [
        (
            record({"inductor_output_code": {}}, "code"),
            ("inductor_output_code", "code"),
        ),
        (record({"artifact": {"name": "cache_hit"}}, "{}"), ("cache_hit", "{}")),
        (record({"artifact": {}}), ("", "")),
        (record(None), ("", "")),
        (object(), ("", "")),
    ],
)
def test_a_record_is_read_as_its_kind_and_its_text(given, event):
    assert _torch._event(given) == Event(*event)


def test_a_graph_break_has_the_stack_that_leads_to_it():
    def inner(x):
        torch._dynamo.graph_break()
        return x.cos()

    def outer(x):
        return inner(x.sin())

    with trace() as events:
        torch.compile(outer, backend="eager")(torch.ones(2))
    stop = next(e for e in events if e.kind == "dynamo_graph_break_reason")
    assert [frame.name for frame in stop.stack[-2:]] == ["outer", "inner"]
    assert not any("torch_dynamo_resume" in frame.name for frame in stop.stack)
    assert any(frame.name.startswith("test_a_graph_break") for frame in stop.stack)


def test_the_log_is_left_as_it_was():
    log = logging.getLogger("torch.__trace")
    handlers, level = log.handlers[:], log.level

    def failing():
        with trace() as events:
            assert log.level == logging.DEBUG
            log.handlers[:] = log.handlers[-1:]  # as torch's own removes itself
            log.debug("", extra={"metadata": {"a": {}}, "payload": "text"})
            raise ZeroDivisionError(events)

    with pytest.raises(ZeroDivisionError) as error:
        failing()
    assert error.value.args[0] == [Event("a", "text")]
    assert (log.handlers, log.level) == (handlers, level)


# --- what is compiled ----------------------------------------------------------------


def test_what_was_given_to_compile_is_found_again():
    def f(x):
        return x

    layer, quick = torch.nn.Linear(2, 2), {"backend": "eager"}
    for one in (f, layer):
        compiled = torch.compile(one, **quick)
        assert _torch.unwrap(one) is _torch.unwrap(compiled) is one
        assert _torch.is_compiled(compiled) and not _torch.is_compiled(one)
    assert _torch.unwrap(torch.compile(torch.compile(f, **quick), **quick)) is f
    disabled = torch.compiler.disable(f)
    assert _torch.unwrap(disabled) is disabled and not _torch.is_compiled(disabled)
    layer.compile(**quick)
    assert _torch.is_compiled(layer) and _torch.unwrap(layer) is layer


def plain(x):
    return x.sin()


def resumed(x):
    torch._dynamo.graph_break()
    return x.sin()


def no_graph(x):
    return x


class Inside(torch.nn.Module):
    def forward(self, x):
        return x.sin()


@pytest.mark.parametrize(
    ("make", "graphs"),
    [
        (lambda: plain, True),
        (lambda: resumed, True),  # the graph is in what goes on after the break
        (lambda: no_graph, False),
        (lambda: torch.sin, True),  # it has no code of Python
        (Inside, True),
        (lambda: torch.nn.Sequential(Inside()), True),
    ],
    ids=[
        "a function",
        "after a break",
        "nothing",
        "a builtin",
        "a module",
        "a module inside",
    ],
)
def test_what_has_graphs_was_compiled_and_called(make, graphs):
    torch.compiler.reset()
    fn, x = make(), torch.ones(2)
    compiled = torch.compile(fn, backend="eager")
    assert not _torch.has_graphs(compiled)
    compiled(x)
    assert _torch.has_graphs(compiled) is graphs
    assert not _torch.has_graphs(fn)  # which is not compiled
    torch.compiler.reset()
    assert not _torch.has_graphs(compiled)


# --- errors --------------------------------------------------------------------------


def raised(name, module, text=""):
    return type(name, (Exception,), {"__module__": module})(text)


@pytest.mark.parametrize(
    ("error", "compilers"),
    [
        (raised("Unsupported", "torch._dynamo.exc"), True),
        (raised("InductorError", "torch._inductor.exc"), True),
        (raised("TorchRuntimeError", "torch._dynamo.exc"), False),
        (raised("OutOfMemoryError", "torch"), False),
        (ValueError(), False),
    ],
)
def test_an_error_is_the_compilers_own_or_not(error, compilers):
    assert _torch.failed_compiling(error) is compilers


VIOLATED = "ConstraintViolationError", "torch.fx.experimental.symbolic_shapes"
ADVICE = "Take the mark (mark_dynamic) away, change its bounds, or mend that line."


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            raised(*VIOLATED, "Violated!\n  - You marked x.\n  - And y."),
            "You marked x.",
        ),
        (raised(*VIOLATED, "\nNot a list\nbut this"), "Not a list"),
    ],
)
def test_a_broken_promise_says_which_one(error, reason):
    said = f"a marked size does not keep its promise: {reason}\n{ADVICE}"
    assert _torch.broken_promise(error) == said
    assert _torch.broken_promise(ValueError(str(error))) == ""


# --- the machine ---------------------------------------------------------------------


def test_the_cache_folder_is_that_of_inductor(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "here"))
    assert _torch.inductor_cache_dir() == str(tmp_path / "here")


@pytest.mark.parametrize(
    ("error", "why"),
    [(ValueError("no g++\nlook there"), "no g++"), (KeyError(), "KeyError")],
)
def test_a_compiler_that_is_not_there_has_a_reason(error, why, monkeypatch):
    def fails():
        raise error

    monkeypatch.setattr(cpp_builder, "get_cpp_compiler", fails)
    assert _torch.cpp_compiler() == (None, why)
    monkeypatch.setattr(cpp_builder, "get_cpp_compiler", lambda: "g++")
    assert _torch.cpp_compiler() == ("g++", "")


@pytest.mark.parametrize(
    ("needs", "installed", "pair"),
    [
        (["filelock", "triton==3.7.1 ; linux"], "3.7.1", ("3.7.1", True)),
        (["triton (==3.7.1)"], "3.7.10", ("3.7.1", False)),
        (["triton~=3.7.0"], "3.7.9", ("3.7", True)),
        (["triton~=3.7.0"], "3.70", ("3.7", False)),
        (["triton==3.7.1"], None, ("3.7.1", False)),
        (None, "3.7.5", ("3.7", True)),  # the CPU wheels name none
    ],
)
def test_the_triton_that_torch_wants_and_the_one_that_is_there(
    needs, installed, pair, monkeypatch
):
    monkeypatch.setattr(torch, "__version__", "2.13.0+cpu")
    monkeypatch.setattr(_torch.metadata, "requires", lambda _: needs)
    monkeypatch.setattr(_torch, "version_of", lambda _: installed)
    wanted, matches = pair
    assert _torch.triton_pair() == (wanted, installed, matches)
