"""What a watch reads in a history of compiles that is made up."""

import collections
import types

import pytest
import torch

from helpers import capture
from helpers.capture import Compile, Watch

LIMIT = "recompile limit exceeded: see the log"


def record(name="f", **more):
    usual = {
        "co_name": name,
        "is_runtime": False,
        "is_forward": True,
        "fail_type": None,
        "fail_reason": None,
        "recompile_reason": None,
        "cudagraph_skip_reason": None,
        "runtime_cudagraphify_time_us": None,
    }
    return types.SimpleNamespace(**usual | more)


@pytest.fixture
def torch_says(monkeypatch):
    """A history and counters that the test fills."""
    history = collections.deque(maxlen=4)
    counters = collections.defaultdict(collections.Counter)
    kept = {"history": history, "counters": counters}
    monkeypatch.setattr(capture, "private", kept.__getitem__)
    return types.SimpleNamespace(**kept)


def test_only_what_is_new_counts(torch_says):
    torch_says.history.append(record("before"))
    with Watch() as seen:
        assert seen.compiles == 0 and seen.events == ()
        torch_says.history.append(record("f"))
        assert seen.compiles == 1
        torch_says.history.append(record("g"))
        assert [e.name for e in seen.events] == ["f", "g"]
    torch_says.history.append(record("after"))
    assert seen.events == (Compile("f", "", "forward"), Compile("g", "", "forward"))
    assert seen.compiles == 2


def test_an_empty_history_and_one_that_has_forgotten(torch_says):
    with Watch() as seen:
        assert seen.compiles == 0
        torch_says.history.append(record())
    assert seen.compiles == 1
    with Watch() as seen:
        torch_says.history.extend(record(str(i)) for i in range(9))
    assert seen.compiles == 4  # all that torch remembers


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({}, "forward"),
        ({"is_forward": None}, "forward"),
        ({"is_forward": False}, "backward"),
        ({"fail_type": "Unsupported", "fail_reason": "x"}, "skipped"),
        ({"fail_type": "Unsupported", "is_forward": False}, "skipped"),
    ],
)
def test_the_kind_of_a_compile(torch_says, more, kind):
    with Watch() as seen:
        torch_says.history.append(record(**more))
    assert [e.kind for e in seen.events] == [kind]


def test_what_only_ran_or_was_refused_is_no_compile(torch_says):
    with Watch() as seen:
        torch_says.history.append(record(is_runtime=True))
        assert not seen.limit_hit
        torch_says.history.append(record(fail_type="Limit", fail_reason=LIMIT))
    assert seen.compiles == 0 and seen.limit_hit


def test_each_reason_once_and_none_of_a_first_compile(torch_says):
    reasons = ["0/0: x changed", None, "0/1: y changed", "0/0: x changed"]
    with Watch() as seen:
        for why in reasons:
            torch_says.history.append(record(recompile_reason=why))
    assert [e.reason for e in seen.events] == [
        *(seen.events[0].reason, "", seen.events[2].reason, seen.events[0].reason)
    ]
    assert "x changed" in seen.reasons[0] and "y changed" in seen.reasons[1]
    assert len(seen.reasons) == 2


def test_a_function_without_a_name_is_still_a_compile(torch_says):
    with Watch() as seen:
        torch_says.history.append(record(None))
    assert seen.compiles == 1 and seen.events[0].name == ""


def test_counters_count_from_the_start_of_the_block_to_its_end(torch_says):
    torch_says.counters["stats"]["unique_graphs"] = 3
    torch_says.counters["graph_break"]["old\nmore"] = 1
    with Watch() as seen:
        assert seen.graphs == seen.graph_breaks == 0
        torch_says.counters["stats"]["unique_graphs"] += 2
        torch_says.counters["graph_break"]["old\nmore"] += 1
        torch_says.counters["graph_break"]["new"] += 5
        torch_says.counters["unimplemented"]["other"] += 1
        torch_says.counters["unimplemented"][LIMIT] += 1
        assert seen.graphs == 2
    torch_says.counters["stats"]["unique_graphs"] += 1
    torch_says.counters["graph_break"]["late"] += 1
    assert seen.graphs == 2
    assert seen.break_reasons == ("old", "new", "other")
    assert seen.graph_breaks == 3


def test_the_counts_of_a_block_are_those_of_its_own_growth(torch_says):
    torch_says.counters["stats"]["a"] = 5
    with Watch() as seen:
        torch_says.counters["stats"].update({"a": 2, "b": 1, "c": 0})
        assert seen._grown("stats") == {"a": 2, "b": 1}
    assert seen._grown("stats") == {"a": 2, "b": 1}


def test_why_cuda_graphs_were_not_used(torch_says):
    with Watch() as seen:
        assert seen.ignored == ()
        for why in ("dynamic", None, "dynamic", "mutated"):
            torch_says.history.append(record(cudagraph_skip_reason=why))
    assert seen.ignored == ("dynamic", "mutated")


def test_cuda_graphs_on_a_cpu_are_only_counted(torch_says, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with Watch() as seen:
        torch_says.history.append(record())
        torch_says.counters["inductor"]["cudagraph_skips"] += 1
    assert seen.ignored == ("CUDA graphs need tensors on an NVIDIA GPU",)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert len(seen.ignored) == 1 and "on an NVIDIA GPU" not in seen.ignored[0]
    with Watch() as seen:
        torch_says.counters["inductor"]["cudagraph_skips"] += 1
        torch_says.history.append(record(cudagraph_skip_reason="dynamic"))
    assert seen.ignored == ("dynamic",)


def test_recordings_of_cuda_graphs_are_counted(torch_says):
    with Watch() as seen:
        for took in (None, 0, 12, 7):
            torch_says.history.append(record(runtime_cudagraphify_time_us=took))
    assert seen.recordings == 2
