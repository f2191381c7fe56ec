"""What is recorded on a GPU, as far as a CPU can tell: the programs and the texts."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

from helpers.capture import graphs
from helpers.gpu import dump, experiments, gpus, observations, programs
from helpers.gpu.cases import Case, Outcome, Setting

QUICK = Setting("cpu", quick=True)
TIMED = list(experiments.timed(QUICK))


def raced(setting: Setting, *given: Any, facts: Any = None, **options: Any) -> Outcome:
    """Call both sides once, and hold them against each other as compare() would."""
    (first, second), inputs = given[:2], given[2:]
    one, two = first(*inputs), second(*inputs)
    if options.get("same_answer", True):
        near = {name: options[name] for name in ("rtol", "atol") if name in options}
        torch.testing.assert_close(two, one, **near)
    found = types.SimpleNamespace(compiles=0, median_s=(1.0, 1.0))
    return Outcome(facts=tuple(facts(found)) if facts else ())


@pytest.mark.parametrize(
    "case", [c for c in TIMED if not c.gpu], ids=lambda c: f"{c.series}-{c.value}"
)
def test_every_race_runs_and_its_sides_agree(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the compiler: what padding changes is the experiment's own mistake."""
    asked: list[dict[str, Any]] = []

    def uncompiled(f: Callable, **options: Any) -> Callable:
        asked.append(options)
        return f

    monkeypatch.setattr(torch, "compile", uncompiled)
    monkeypatch.setattr(experiments, "race", raced)
    outcome = case.run(QUICK)
    assert all(value == value for _, value in outcome.facts)  # no NaN
    if case.experiment == "modes":
        assert [options["mode"] for options in asked] == [case.value]
    assert asked or case.experiment == "tf32"


def test_padding_costs_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda f, **options: f)
    monkeypatch.setattr(experiments, "race", raced)
    cases = [c for c in TIMED if c.experiment == "lengths" and c.series == "default"]
    work = {
        c.value: dict(c.run(QUICK).facts)["computed for a real token"] for c in cases
    }
    assert min(map(min, programs.sentences())) == 1  # 0 is padding
    assert work["exact"] == work["marked dynamic"] == 1
    assert 1 < work["six buckets"] < work["padded to the longest"]


def test_the_resnet_is_the_one_of_the_paper() -> None:
    """25.6 million parameters, and half the size at each stage but the first."""
    with torch.device("meta"):
        net = programs.forward(programs.resnet())
        assert sum(p.numel() for p in net.parameters()) == 25_557_032
        assert net(torch.empty(2, 3, 224, 224)).shape == (2, 1000)
        assert net[:-3](torch.empty(2, 3, 224, 224)).shape == (2, 2048, 7, 7)


@pytest.mark.parametrize("made", [programs.mlp, programs.Example])
def test_a_step_returns_the_gradients_and_keeps_none(made: Callable) -> None:
    net = made(8)
    loss, *slopes = programs.training(net)(torch.randn(4, 8))
    assert loss > 0 and not loss.requires_grad
    assert [s.shape for s in slopes] == [p.shape for p in net.parameters()]
    assert all(s.abs().sum() > 0 for s in slopes)
    assert all(p.grad is None for p in net.parameters())


def test_each_program_is_one_graph() -> None:
    """A break would be timed as if it were the compiler's work."""
    x, gain, weight = torch.randn(4, 8), torch.ones(8), torch.randn(8, 8)
    assert graphs(programs.block, x, gain, weight).count == 1
    for net, given in (
        (programs.Transformer(8, 2), torch.randn(1, 4, 8)),
        (programs.resnet((1, 1), 4), torch.randn(1, 3, 32, 32)),
        (programs.Sentence(9, 8), torch.tensor([[1, 2, 0]])),
        (programs.tiny, torch.randn(8, 8) / 8),
    ):
        found = graphs(net, given)
        assert (found.count, len(found.breaks)) == (1, 0)


TEXTS = {name: run for name, run in observations._GRAPHS.items() if "sizes" not in name}


@pytest.mark.parametrize("name", TEXTS)
def test_where_there_are_no_cuda_graphs_the_text_says_so(name: str) -> None:
    found = observations._graph(QUICK, TEXTS[name])
    facts, texts = dict(found.facts), dict(found.texts)
    assert facts["recordings"] == 0 and facts["compiles"] >= 1
    assert "GPU" in facts["says"] and "GPU" in texts["ignored"]
    x = QUICK.randn(64, 64)
    if name == "writes its input":  # 1 is added in each call; the fourth result is kept
        want = (x + 4).square().sum()
    else:
        want = observations._on_cpu(x).sum() if "CPU" in name else x.square().sum()
    assert float(texts["result"]) == pytest.approx(float(want), rel=1e-4)


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a dump for an H100 stand in for what really ran on one."""
    real = dump.dump_triton
    monkeypatch.setattr(gpus, "here", lambda: gpus.find("h100"))
    monkeypatch.setattr(
        dump, "dump_triton", lambda *a, gpu, **k: real(*a, gpu="h100", **k)
    )


@pytest.mark.usefixtures("pretended")
def test_sources_that_ran_are_held_against_the_dump() -> None:
    facts = dict(observations._block(QUICK).facts)
    assert facts == {
        "launches": "same",
        "sources": "same",
        "kernels": 2,
        "library calls": 1,
    }
    x = torch.randn(4, 8)
    found = observations._held(torch.sin, (x,), torch.cos, (x,))
    assert dict(found.facts)["sources"] == dict(found.facts)["launches"] == "differ"
    [(name, source)] = found.texts
    assert "sin" in name and "backend_hash" not in source


@pytest.mark.usefixtures("pretended")
def test_each_kind_has_a_case_and_one_of_them_runs() -> None:
    cases = {c.value: c for c in observations.observed(QUICK) if c.series == "kinds"}
    assert len(cases) >= 25 and all(c.gpu for c in cases.values())
    facts = dict(next(iter(cases.values())).run(QUICK).facts)
    assert facts["launches"] == facts["sources"] == "same"


def test_the_kernel_by_hand_compiles_for_the_gpu() -> None:
    from helpers.gpu import by_hand

    h, x = torch.randn(2, 5000)
    [kernel] = dump.dump_triton(by_hand.residual, h, x, gpu="h100").kernels
    assert (kernel.kind, kernel.grid) == ("yours", (5, 1, 1))
    assert kernel.spills == 0 and kernel.ptx.count("ld.global") >= 2
