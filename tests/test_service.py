"""The service of lesson 27: its own tests, and a load through a new model."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from tests.refresh import ROOT, ran

FOLDER = ROOT / "notebooks" / "examples" / "service"


@pytest.mark.weekly
def test_its_own_tests_pass_where_it_is_copied_to(tmp_path):
    for file in FOLDER.glob("*.py"):
        (tmp_path / file.name).write_text(file.read_text())
    command = sys.executable, "-m", "pytest", "-q", "test_service.py"
    ran(*command, cwd=tmp_path, timeout=600)


@pytest.mark.weekly
def test_no_request_is_lost_through_a_new_model():
    from examples.service.load import traffic

    from course.ch27.services import started, wrong

    requests, reloads, after = 200, 2, 8  # so many, that a new model answers some
    (service,) = started("--warm-up shapes")
    try:
        before = service.health()["in_warm_up"]
        with ThreadPoolExecutor(1) as other:
            load = other.submit(service.load, traffic(requests - after * reloads))
            later = []
            for turn in range(1, reloads + 1):
                while service.health()["answered"] < requests * turn / (reloads + 1):
                    assert not load.done(), load.result()
                service.send("/reload", {"seed": turn}).raise_for_status()
                later += service.load(traffic(after))
            replies = load.result() + later
        now = service.health()
    finally:
        ended = service.stop()
    assert len(replies) == requests and wrong(replies) == 0
    assert {reply.status for reply in replies} == {200}
    assert len({reply.body["model"] for reply in replies}) == reloads + 1
    assert (now["eager"], now["in_traffic"], ended) == (0, 0, 0)
    assert now["in_warm_up"] == before  # a reload compiles nothing


def test_an_answer_that_is_lost_or_off_is_wrong():
    from examples.service.app import example, make
    from examples.service.load import Reply

    from course.ch27.services import wrong

    def reply(rows, off=0.0, status=200):
        scores = make(3)(torch.tensor(example(rows))) + off
        body = {"scores": scores.tolist(), "model": 3}
        return Reply(example(rows), 0.0, 0.1, status, body)

    assert wrong([reply(rows) for rows in (1, 5, 17)]) == 0
    assert wrong([reply(1), reply(5, off=1e-5), reply(17, status=503)]) == 2


def test_a_deployment_that_forgot_a_length_ends_with_1(monkeypatch, capsys):
    from examples.service import app

    command = ["app.py", "--check", "--warm-up", "dynamic"]
    monkeypatch.setattr(sys, "argv", command)
    assert app.main() == 1
    assert "1 rows" in capsys.readouterr().out
