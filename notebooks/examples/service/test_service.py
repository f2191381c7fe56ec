"""Does the service do what it says?  pytest test_service.py"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import app
import pytest
import torch
from fastapi.testclient import TestClient


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.set_stance("default")


@pytest.mark.parametrize("warm_up", ["shapes", "unbacked"])
def test_what_is_warm_compiles_nothing_and_is_right(warm_up: str) -> None:
    service = app.Service(app.Options(warm_up))
    assert app.problems(service) == []
    assert service.late == service.eager == 0
    service.close()


def test_a_gate_names_what_the_warm_up_forgot() -> None:
    service = app.Service(app.Options("dynamic"))
    assert app.problems(service) == ["1 rows: RuntimeError"]
    service.close()


def test_a_gate_stops_what_would_run_eagerly() -> None:
    service = app.Service(app.Options("none", after="force_eager"))
    assert app.problems(service, [3]) == [
        "3 rows: 0 compiled graphs ran, not 1"
    ]
    service.close()


@pytest.mark.parametrize(
    ("after", "status"), [("force_eager", 503), ("eager_on_recompile", 200)]
)
def test_health_is_of_the_model_and_not_of_one_client(
    after: str, status: int
) -> None:
    options = app.Options("one", after=after)
    with TestClient(app.create_app(options)) as client:
        assert client.post(
            "/score", json={"series": app.example(3)}
        ).is_success
        health = client.get("/health")
        assert client.get("/live").is_success
    assert (health.status_code, health.json()["eager"]) == (status, 1)


@pytest.mark.parametrize(
    "series",
    [[], [[1.0] * 7], [["1"] * 8], [[1.0] * 8] * 65, [[-1e39] * 8]],
)
def test_what_is_no_series_is_refused(series: list[list[float]]) -> None:
    with TestClient(app.create_app(app.Options("one"))) as client:
        assert (
            client.post("/score", json={"series": series}).status_code == 422
        )
        assert client.get("/health").json()["answered"] == 0


def test_a_seed_that_torch_does_not_take_is_refused() -> None:
    with TestClient(app.create_app(app.Options("none"))) as client:
        for seed in (-1, 2**70):
            assert (
                client.post("/reload", json={"seed": seed}).status_code == 422
            )


def test_nan_is_the_clients_fault() -> None:
    nan = '{"series": [[NaN, 1, 1, 1, 1, 1, 1, 1]]}'
    as_json = {"content-type": "application/json"}
    with TestClient(app.create_app(app.Options("none"))) as client:
        for text, status in (nan, 422), (nan.replace("NaN", "1"), 200):
            reply = client.post("/score", content=text, headers=as_json)
            assert reply.status_code == status


def test_a_new_model_answers_and_compiles_nothing() -> None:
    with TestClient(app.create_app(app.Options("shapes"))) as client:
        assert client.post("/reload", json={"seed": 1}).is_success
        reply = client.post("/score", json={"series": app.example(9)}).json()
        assert (reply["model"], reply["compiles"], reply["graphs"]) == (
            1,
            0,
            1,
        )
        right = app.make(1)(torch.tensor(app.example(9))).tolist()
        assert reply["scores"] == pytest.approx(right, abs=1e-4)
        assert client.get("/health").json()["in_warm_up"] == 2


def test_the_model_is_called_in_one_thread_through_a_reload(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads, usual = set(), app.Service.call

    def call(*given: Any) -> app.Answer:
        threads.add(threading.get_ident())
        return usual(*given)

    monkeypatch.setattr(app.Service, "call", call)
    with TestClient(app.create_app(app.Options("one"))) as client:
        assert client.post("/reload", json={"seed": 1}).is_success
        client.post("/score", json={"series": app.example(17)})
        assert len(threads) == 1
        client.get("/health")  # the canary waits for nobody
    assert len(threads) == 2


def test_a_full_queue_refuses_and_a_late_request_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go, asked, usual = (
        threading.Event(),
        {"series": app.example(17)},
        app.Service.answer,
    )

    def answer(*given: Any) -> app.Answer:
        go.wait(60)
        return usual(*given)

    monkeypatch.setattr(app.Service, "answer", answer)
    options = app.Options("one", queue=2, deadline=1.0)
    with (
        TestClient(app.create_app(options)) as client,
        ThreadPoolExecutor(2) as others,
    ):
        late = [others.submit(client.post, "/score", json=asked) for _ in "ab"]
        while "service_waiting 2" not in client.get("/metrics").text:
            time.sleep(0.01)
        assert client.post("/score", json=asked).status_code == 503
        assert client.get("/health").is_success  # though nobody is served
        assert [one.result().status_code for one in late] == [504, 504]
        go.set()
        monkeypatch.undo()
        assert client.post("/score", json=asked).is_success
        said = client.get("/metrics").text
    assert "service_refused_total 1" in said
    assert "service_answers_total 2" in said  # the dropped one is none
