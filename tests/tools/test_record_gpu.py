"""What records on a GPU, as far as a CPU can tell: its programs, and what is kept."""

import contextlib
import dataclasses
import types

import pytest
import torch
from torch.autograd import DeviceType

from course.recordings import read
from helpers.capture import graphs
from helpers.errors import ResultError
from helpers.gpu import dump, gpus
from tests.refresh import python
from tools.record_gpu import experiments, observations, programs, recorder
from tools.record_gpu.__main__ import main
from tools.record_gpu.cases import Case, Outcome, Setting, count_events

pytestmark = pytest.mark.usefixtures("one_thread")
QUICK = Setting("cpu", quick=True)
TIMED = [c for c in recorder.cases(QUICK) if not c.gpu and c.experiment != "machine"]
# A program runs the same in each mode where torch.compile does nothing.
TIMED = [c for c in TIMED if c.experiment != "modes" or c.value == "default"]


# --- what is kept -----------------------------------------------------------------


@pytest.fixture
def path(tmp_path, monkeypatch):
    """Where to record cases that leave nothing behind, so nothing is cleared away."""
    monkeypatch.setattr(recorder, "free", lambda: None)
    return tmp_path / "gpu.json"


def test_a_quick_run_on_the_cpu(path):
    wanted = {
        ("machine", "copy bandwidth", 2**20),
        ("tf32", "high", 64),
        ("matmul", "float32", 64),
        ("CUDA graphs", "texts", "58 sizes"),
    }
    chosen = [case for case in recorder.cases(QUICK) if case.key in wanted]
    lines = list[str]()
    recording = recorder.record(path, QUICK, chosen, say=lines.append)
    assert read(path) == recording and len(lines) == len(chosen) == 4
    found = {f.experiment: f for f in recording.findings}
    assert found["CUDA graphs"].summary() == "not run: needs an NVIDIA GPU"
    assert found["machine"].facts["GB/s"] > 0
    assert found["matmul"].comparison.compiles == 1, "not from a cold start"
    assert found["tf32"].facts["error, highest"] < 1e-4


def works(setting):
    return Outcome(facts={"n": 1})


def toy(*values, run=works):
    return [Case("machine", "test", value, run) for value in values]


def test_a_failing_case_is_kept_as_failed_and_tried_again(path):
    def fails(setting):
        raise RuntimeError("1/2 of a/b is left, see /opt/some/where/x.py\nand more")

    recorder.record(path, QUICK, toy(1, run=fails) + toy(2), say=str)
    failed, done = read(path).findings
    assert failed.summary() == "failed: RuntimeError: 1/2 of a/b is left, see x.py"
    assert done.status == "done"
    recorder.record(path, QUICK, toy(1, 2), say=str)
    again = read(path).findings
    assert again[0].status == "done" and again[1] == done


def test_an_interrupt_loses_nothing_that_was_measured(path):
    def interrupted(setting):
        raise KeyboardInterrupt

    lines, chosen = list[str](), toy(1) + toy(2, run=interrupted) + toy(3)
    with pytest.raises(KeyboardInterrupt):
        recorder.record(path, QUICK, chosen, say=lines.append)
    assert [f.value for f in read(path).findings] == [1]
    recorder.record(path, QUICK, toy(1, 2, 3), say=lines.append)
    assert [f.value for f in read(path).findings] == [1, 2, 3]
    assert len(lines) == 3, "what was there was measured again"


def test_the_budget_stops_between_two_cases(path):
    lines = list[str]()
    recording = recorder.record(path, QUICK, toy(1, 2), minutes=0.01, say=lines.append)
    assert not recording.findings
    assert lines == ["2 cases are left: run it again to go on"]


def test_a_case_that_hangs_is_broken_off(path, monkeypatch):
    monkeypatch.setattr(recorder, "_PATIENCE", 0.02)

    def hangs(setting):
        while True:
            pass

    recorder.record(path, QUICK, toy(1, run=hangs) + toy(2), say=str)
    hung, after = read(path).findings
    assert "TimeoutError" in hung.message and after.status == "done"


def test_a_file_of_another_machine_is_not_touched(path):
    recording = recorder.record(path, QUICK, toy(1), say=str)
    for name in ("gpu", "torch", "triton"):
        machine = dataclasses.replace(recording.machine, **{name: "9.9"})
        other = dataclasses.replace(recording, machine=machine)
        other.save(path)
        with pytest.raises(ResultError, match="name another file"):
            recorder.record(path, QUICK, toy(2), say=str)
        assert read(path) == other
    with pytest.raises(ResultError, match="name another file"):
        recorder.record(path, Setting("cpu"), toy(2), say=str)


# --- what is chosen ---------------------------------------------------------------


def test_what_slows_the_process_down_comes_last():
    chosen = recorder.cases(Setting("cuda"))
    names = [case.experiment for case in chosen]
    assert {*names} == {*recorder.EXPERIMENTS}
    assert {*names[names.index("launches") :]} == {"launches"}
    assert len({case.key for case in chosen}) == len(chosen)
    assert sum(case.seconds for case in chosen if case.rank < 2) < 20 * 60


def test_the_command_lists_and_refuses(capsys):
    assert main(["--list", "--quick"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in recorder.EXPERIMENTS)
    assert main(["--only", "chain", "--list"]) == 1
    assert "no experiment chain: there are machine" in capsys.readouterr().err
    assert main(["--quick"]) == 1
    assert "--to" in capsys.readouterr().err


def test_a_machine_that_only_records_needs_little(tmp_path):
    """Nothing of Jupyter: a machine that is lent for its GPU has torch and little."""
    without = "platformdirs IPython ipywidgets nbformat pygments pytest"
    code = f"""
import sys
sys.modules |= dict.fromkeys({without.split()!r})
from tools.record_gpu.__main__ import main
options = ["--quick", "--only", "machine", "--to", {str(tmp_path / "cpu.json")!r}]
sys.exit(main(options))"""
    python(code)
    assert {f.status for f in read(tmp_path / "cpu.json").findings} == {
        "done",
        "not run",
    }


# --- the programs -----------------------------------------------------------------


@pytest.fixture
def uncompiled(monkeypatch):
    """Both sides of a race are called once and compared; torch.compile does nothing."""
    asked = []

    def compile(f, **options):
        asked.append(options)
        return f

    def race(setting, eager, compiled, *inputs, **how):
        expected, result = eager(*inputs), compiled(*inputs)
        if how.get("same_answer", True):
            near = {name: how[name] for name in ("rtol", "atol") if name in how}
            torch.testing.assert_close(result, expected, **near)
        comparison = types.SimpleNamespace(compiles=0, median_s=(1.0, 1.0))
        return Outcome(facts=how["facts"](comparison) if "facts" in how else {})

    monkeypatch.setattr(torch, "compile", compile)
    monkeypatch.setattr(experiments, "race", race)
    return asked


@pytest.mark.parametrize("case", TIMED, ids=lambda c: f"{c.series}-{c.value}")
def test_every_race_runs_and_its_sides_agree(case, uncompiled):
    """What padding or a wrong side changes is the experiment's own mistake."""
    facts = case.run(QUICK).facts
    assert all(value == value for value in facts.values())  # no NaN
    if case.experiment == "modes":
        assert [options["mode"] for options in uncompiled] == [case.value]
    assert uncompiled or case.experiment == "tf32"


def test_the_resnet_is_the_one_of_the_paper():
    """25.6 million parameters, and half the size at each stage but the first."""
    with torch.device("meta"):
        net = programs.forward(programs.resnet())
        assert sum(p.numel() for p in net.parameters()) == 25_557_032
        assert net(torch.empty(2, 3, 224, 224)).shape == (2, 1000)
        assert net[:-3](torch.empty(2, 3, 224, 224)).shape == (2, 2048, 7, 7)


def test_each_program_is_one_graph():
    """A break would be timed as if it were the compiler's work."""
    for fn, *inputs in (
        (programs.block, torch.randn(4, 8), torch.ones(8), torch.randn(8, 8)),
        (programs.Transformer(8, 2), torch.randn(1, 4, 8)),
        (programs.adapted(8, 2, 1), torch.randn(1, 4, 8)),
        (programs.resnet((1, 1), 4), torch.randn(1, 3, 32, 32)),
        (programs.Sentence(9, 8), torch.tensor([[1, 2, 0]])),
        (programs.tiny, torch.randn(8, 8) / 8),
    ):
        captured = graphs(fn, *inputs)
        assert (captured.count, len(captured.breaks)) == (1, 0)


def test_sources_that_ran_are_held_against_the_dump(monkeypatch):
    """A dump for an H100 stands in for what really ran on one."""

    def pretended(*given, gpu, **how):
        return dump.dump_triton(*given, gpu="h100", **how)

    monkeypatch.setattr(gpus, "here", lambda: gpus.find("h100"))
    monkeypatch.setattr(observations, "dump_triton", pretended)
    block = next(c for c in recorder.cases(QUICK, ["sources"]) if c.rank == 0)
    outcome = block.run(QUICK)
    same = {"launches": "same", "sources": "same", "kernels": 2, "library calls": 1}
    assert outcome.facts == same
    x = torch.randn(4, 8)
    outcome = observations.hold_sources((torch.sin, x), (torch.cos, x))
    assert outcome.facts["sources"] == outcome.facts["launches"] == "differ"
    [(name, source)] = outcome.texts.items()
    assert "sin" in name and "backend_hash" not in source


def test_launches_are_told_from_kernels_and_copies():
    def event(name, on_gpu, region=False):
        device = DeviceType.CUDA if on_gpu else DeviceType.CPU
        return types.SimpleNamespace(
            name=name, device_type=device, is_user_annotation=region
        )

    events = [
        event("aten::mm", False),
        event("cudaLaunchKernel", False),
        event("cudaGraphLaunch", False),
        event("cuLaunchKernelEx", False),
        event("triton_poi_fused_0", True),
        event("sm90_gemm", True),
        event("Memcpy DtoD (Device -> Device)", True),
        event("Torch-Compiled Region: 0/0", True, region=True),
    ]
    assert count_events(events) == {"kernels": 2, "launches": 3, "copies": 1}
    with pytest.raises(RuntimeError, match="saw no kernel"):
        count_events(events[:4])


def test_what_only_a_gpu_has_runs_here_up_to_it(monkeypatch, uncompiled):
    """The programs run in toy sizes; memory and energy are those of no GPU."""
    monkeypatch.setattr(observations, "cold", contextlib.nullcontext)
    monkeypatch.setattr(observations, "energy_counter", lambda: lambda: 0.0)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    joules = observations.joules
    monkeypatch.setattr(
        observations, "joules", lambda call, _, *rest: joules(call, 0.001, *rest)
    )
    chosen = recorder.cases(QUICK, ["held", "energy"])
    assert len(chosen) == 8 and all(case.gpu for case in chosen)
    for case in chosen:
        facts = case.run(QUICK).facts
        assert facts.get("held, bytes", facts.get("J a call")) == 0
    assert uncompiled
