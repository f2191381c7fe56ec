"""What a capture notes beside the lowering itself: modes, sizes, phases, gradients."""

from __future__ import annotations

import types

import pytest
import torch

from helpers import _torch
from helpers.errors import InputError
from helpers.gpu import capture
from helpers.gpu.gpus import find

ALWAYS = {
    "triton.cudagraphs": False,
    "cpp_wrapper": False,
    "shape_padding": False,
    "fx_graph_cache": False,
    "compile_threads": 1,
}


@pytest.mark.parametrize(
    ("mode", "more"),
    [
        (None, {}),
        ("default", {}),
        ("reduce-overhead", {}),
        ("max-autotune", {"max_autotune_pointwise": True}),
        ("max-autotune-no-cudagraphs", {"max_autotune_pointwise": True}),
    ],
)
def test_a_mode_is_followed_as_far_as_it_needs_no_device(mode, more):
    found = capture._options(mode)
    assert {name: found[name] for name in ALWAYS} == ALWAYS
    assert "max_autotune" not in found
    assert found.get("max_autotune_pointwise") == more.get("max_autotune_pointwise")
    known = _torch_private("modes")()
    rest = dict(known[mode] if mode else {})
    rest.pop("max_autotune", None)
    assert rest.keys() <= found.keys()
    for name in rest.keys() - ALWAYS.keys() - more.keys():
        assert found[name] == rest[name]


def test_torch_s_own_modes_are_not_changed():
    before = {k: dict(v) for k, v in _torch_private("modes")().items()}
    capture._options("max-autotune")
    assert {k: dict(v) for k, v in _torch_private("modes")().items()} == before


def test_a_mode_that_is_none_names_those_there_are():
    with pytest.raises(InputError, match=r"no mode .turbo.: there are .*max-autotune"):
        capture._options("turbo")


@pytest.mark.parametrize(
    ("settings", "phase"),
    [
        ({}, "forward"),
        ({"is_inference": True}, "inference"),
        ({"is_backward": True}, "backward"),
        ({"is_backward": True, "is_inference": True}, "backward"),
        ({"is_backward": False, "is_inference": False}, "forward"),
    ],
)
def test_the_phase_of_a_graph(settings, phase):
    assert capture._phase(settings) == phase


def test_the_sizes_behind_the_symbols():
    found = []

    @torch.compile(
        backend=lambda graph, inputs: found.append(inputs) or graph, dynamic=True
    )
    def f(x, y):
        return x.sum() + y

    f(torch.ones(3, 5), torch.ones(7))
    hints = capture._hints(found[0])
    assert sorted(hints.values()) == [3, 5, 7]
    assert all(name.startswith("s") for name in hints)
    alone = [v for v in found[0] if isinstance(v, torch.SymInt)]
    assert set(capture._hints(alone)) <= set(hints)
    assert capture._hints([torch.ones(3), 4, "x"]) == {}


def test_a_symbol_given_alone_counts_and_one_without_a_size_does_not(monkeypatch):
    class Symbol:
        def __init__(self, name, hint):
            self.node = types.SimpleNamespace(expr=name, hint=hint)

    monkeypatch.setattr(capture.torch, "SymInt", Symbol)
    given = [Symbol("s0", 4), Symbol("u0", None), 3]
    assert capture._hints(given) == {"s0": 4}


def nodes(*targets):
    held = [types.SimpleNamespace(target=target) for target in targets]
    return types.SimpleNamespace(graph=types.SimpleNamespace(nodes=held))


def test_autocast_is_seen_in_a_graph_and_around_it():
    assert not capture._casts(nodes(torch.sin))
    assert capture._casts(nodes(torch.sin, torch.amp.autocast_mode._enter_autocast))
    with torch.autocast("cpu"):
        assert capture._casts(nodes())
    with torch.autocast("cpu", enabled=False):
        assert not capture._casts(nodes())


def test_a_kernel_of_ones_own_is_seen():
    assert capture._has_user_kernel(nodes("triton_kernel_wrapper_mutation"))
    assert not capture._has_user_kernel(nodes(torch.sin, "triton"))


def gradients(fn, *inputs):
    """Return which inputs require gradients when *fn* is called for training."""
    capture.needing_gradients(fn)(*inputs)
    leaves = _torch_private("trees").tree_leaves(inputs)
    return [getattr(each, "requires_grad", None) for each in leaves]


def test_inputs_get_gradients_where_nothing_else_has_them():
    x, n = torch.ones(2), torch.arange(2)
    assert gradients(lambda *_: None, x, n, 3) == [True, False, None]
    nested = {"a": [torch.ones(1)], "b": torch.ones(1)}
    assert gradients(lambda _: None, nested) == [True, True]


def test_inputs_are_left_alone_where_gradients_are_asked_for_already():
    one = torch.ones(2, requires_grad=True)
    assert gradients(lambda *_: None, torch.ones(2), one) == [False, True]
    model = torch.nn.Linear(2, 2)
    assert gradients(model, torch.ones(2)) == [False]
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    assert gradients(model, torch.ones(2)) == [True]


def test_the_function_s_answer_is_passed_on():
    assert capture.needing_gradients(lambda x, y: (x, y))(1, 2) == (1, 2)


def test_the_configuration_that_ran_is_noted():
    def kernel(ran, *configs):
        launchers = [types.SimpleNamespace(config=ran)] if ran else []
        return types.SimpleNamespace(launchers=launchers, configs=[*configs])

    def graph():
        return capture.Lowered(0, "forward", "", (), None, {})

    seen = capture.Observed(find("h100"), None)
    seen.found = [graph(), graph()]
    seen.modules = [
        types.SimpleNamespace(
            one=kernel("b", "a", "b"),
            two=kernel("a", "a"),
            three=kernel(None, "a"),
            four=kernel("z", "a"),
            five=types.SimpleNamespace(launchers=[3], configs=None),
            call=print,
        ),
        types.SimpleNamespace(six=kernel("c", "a", "b", "c")),
    ]
    del seen.modules[0].five
    seen.settle()
    assert [g.chosen for g in seen.found] == [{"one": 1, "two": 0}, {"six": 2}]
    seen.modules.pop()
    with pytest.raises(ValueError, match="zip"):
        seen.settle()


def test_what_is_observed_is_compiled_in_the_mode_that_was_asked_for():
    modes = _torch_private("modes")()
    for mode in (None, "max-autotune"):
        found = capture.Observed(find("h100"), mode).options
        asked = modes[mode] if mode else {}
        assert found == {**asked, "fx_graph_cache": False}


def test_code_for_a_gpu_that_is_not_here_is_never_called():
    with pytest.raises(AssertionError, match="not here"):
        capture._never(1, 2)


# ------------------------------------------------------------ one graph, lowered really


def captured(fn, *inputs, gpu="h100", mode=None):
    torch.compiler.reset()
    backend = capture.Capture(find(gpu), mode)
    return backend, torch.compile(fn, backend=backend)(*inputs)


@pytest.mark.skipif(not _torch.version_of("triton"), reason="Triton is not installed")
def test_each_graph_is_noted_and_its_answer_is_eager_s():
    def two(x):
        y = x.sin() + 1
        torch._dynamo.graph_break()
        return y.cos() * 2

    x = torch.randn(64)
    backend, answer = captured(two, x)
    assert torch.equal(answer, two(x))
    assert [(g.index, g.phase) for g in backend.found] == [
        (0, "inference"), (1, "inference"),
    ]  # fmt: skip
    assert backend.graphs == 2 and not backend.stopped and not backend.eager
    assert not backend.autocast and backend.attention == set()
    first = backend.found[0]
    assert "async_compile.triton" in first.source and len(first.launches) == 1
    assert len(first.inputs) == 1 and torch.equal(first.inputs[0], x)
    assert first.inputs[0].data_ptr() != x.data_ptr() and first.hints == {}
    names = [str(node.target) for node in first.aten.graph.nodes]
    assert "aten.sin.default" in names


@pytest.mark.skipif(not _torch.version_of("triton"), reason="Triton is not installed")
def test_a_gpu_without_bfloat16_is_said_and_the_program_goes_on():
    x = torch.ones(64, dtype=torch.bfloat16)
    backend, answer = captured(lambda x: x.sin() * 2, x, gpu="t4")
    assert torch.equal(answer, x.sin() * 2)
    assert backend.eager == "Tesla T4 has no bfloat16" and backend.found == []
    assert backend.graphs == 1


@pytest.mark.skipif(not _torch.version_of("triton"), reason="Triton is not installed")
def test_forward_and_backward_are_noted_with_the_inputs_of_the_forward():
    x = torch.ones(64, requires_grad=True)
    backend, answer = captured(lambda x: x.sin().sum(), x)
    assert [g.phase for g in backend.found] == ["forward", "backward"]
    forward, backward = backend.found
    assert len(forward.inputs) == 1 and backward.inputs == []
    answer.backward()
    assert torch.allclose(x.grad, x.detach().cos())


# --------------------------------------------------- what is asked of Inductor, made up


def test_the_arguments_of_an_attention_reach_the_choice(monkeypatch):
    asked = []

    def choose(*given, **more):
        asked.append((given, more))
        return "result", "flash attention"

    monkeypatch.setattr(capture.choices, "gpu_attention", choose)
    backend = capture.Capture(find("h100"), None)
    assert backend._attention(1, 2, 3, 4, is_causal=True) == "result"
    assert asked == [((find("h100"), 1, 2, 3, 4), {"is_causal": True})]
    assert backend.attention == {"flash attention"}


@pytest.mark.parametrize("written", ["text", types.SimpleNamespace(value="text")])
def test_a_module_is_collected_as_text_and_never_loaded(monkeypatch, written):
    class Lowering:
        def codegen(self):
            return written, None

        def compile_to_module(self):
            raise AssertionError("loaded")

    monkeypatch.setattr(capture.compat, "private", {"output module": Lowering}.get)
    with capture._unloaded() as sources:
        module = Lowering().compile_to_module()
    assert sources == ["text"] and module.runner is None and module.__file__ is None
    with pytest.raises(AssertionError, match="not here"):
        module.call([])
    with pytest.raises(AssertionError, match="loaded"):
        Lowering().compile_to_module()


@pytest.mark.parametrize("written", ["text", types.SimpleNamespace(value="text")])
def test_a_module_that_is_loaded_is_collected_with_its_text(monkeypatch, written):
    class Lowering:
        def codegen(self):
            return written, "more"

        def compile_to_module(self):
            self.made = self.codegen()
            return "module"

    monkeypatch.setattr(capture.compat, "private", {"output module": Lowering}.get)
    with capture._loaded() as found:
        lowering = Lowering()
        assert lowering.compile_to_module() == "module"
    assert found == [("text", "module")] and lowering.made == (written, "more")


def test_what_really_is_compiled_is_noted_with_its_module(monkeypatch):
    import contextlib

    seen = []

    def lower(graph, inputs, **settings):
        seen.append((graph, inputs, settings))
        return "done"

    def held(value):
        return contextlib.nullcontext(value)

    real = capture.compat.private
    monkeypatch.setattr(
        capture.compat,
        "private",
        lambda key: {"lower graph": lower}.get(key) or real(key),
    )
    monkeypatch.setattr(capture.pretend, "twin", lambda graph: f"twin of {graph}")
    monkeypatch.setattr(capture, "lowered", lambda: held(["launch"]))
    monkeypatch.setattr(capture, "_loaded", lambda: held([("text", "module")]))
    backend = capture.Observed(find("h100"), None)
    backend.graphs = 4
    assert backend._inner("graph", [3], is_backward=True) == "done"
    assert seen == [("graph", [3], {"is_backward": True})]
    assert backend.modules == ["module"]
    assert backend.found == [
        capture.Lowered(4, "backward", "text", ("launch",), "twin of graph", {})
    ]
