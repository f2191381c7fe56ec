"""Forecasts count what runs, keep their bounds, and say what decides."""

import gc
from dataclasses import replace

import pytest
import torch
from torch import nn

from helpers import forecast
from helpers.errors import InputError
from helpers.gpu import forecasts, gpus, roofline
from tests.kinds import broken
from tests.proof import published
from tests.records import read


def chain(x):
    return torch.relu(x.sin() * 2 + 1)


ATTENTION = nn.functional.scaled_dot_product_attention
LINEAR = nn.Linear(1024, 1024)
PROGRAMS = {
    "chain": (chain, torch.randn(8192, 4096)),
    "product": (LINEAR, torch.randn(4096, 1024)),
    "attention": (lambda x: ATTENTION(x, x, x), torch.randn(2, 4, 256, 64)),
    "convolution": (nn.Conv2d(8, 8, 3), torch.randn(1, 8, 64, 64)),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("gpu", ["t4", "h100"])
def test_no_estimate_undercuts_its_bound(name, gpu):
    fn, x = PROGRAMS[name]
    found = forecast(fn, x, gpu=gpu)
    for side in (found.eager, found.compiled):
        assert 0 < side.bound <= side.gpu <= side.estimate


def test_operations_are_those_of_the_product_on_both_sides():
    found = forecast(*PROGRAMS["product"], gpu="a100")
    wanted = 2 * 4096 * 1024 * 1024 / 19.5e12
    filled = 256 / (3 * 108)  # tiles of 128 by 128, in three rounds
    for side in (found.eager, found.compiled):
        computing = wanted / roofline.SHARE / filled
        assert side.products == pytest.approx(computing + roofline.GAP_S)
        assert side.bound == pytest.approx(wanted)
        assert side.decides == "arithmetic"
    assert found.verdict != "faster"


def test_a_geforce_reaches_half_its_peak_in_sixteen_bits():
    layer = nn.Linear(2048, 2048, dtype=torch.bfloat16)
    x = torch.randn(2048, 2048, dtype=torch.bfloat16)
    found = forecast(layer, x, gpu="rtx4090")
    least = 2 * 2048**3 / 330e12
    filled = 256 / (2 * 128)  # tiles of 128 by 128, in two rounds
    wanted = least / roofline.GEFORCE_SHARE / roofline.SHARE / filled
    assert found.eager.products == pytest.approx(wanted + roofline.GAP_S)
    assert found.eager.bound == pytest.approx(least)


def test_a_convolution_counts_once_whatever_comes_before():
    layers = nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU()
    net = nn.Sequential(*layers, nn.Conv2d(8, 8, 3))
    found = forecast(net, torch.randn(1, 3, 32, 32))
    wanted = [30**2 * 8 * 27, 28**2 * 8 * 72, 26**2 * 8 * 72]
    library = found.dump.library
    assert [launch.flops / 2 for launch in library] == wanted
    assert [len(launch.ops) for launch in library] == [1, 1, 1]
    assert all(launch.flops == 9 * launch.needed for launch in library)


def test_a_grouped_convolutions_step_is_three_of_its_forward():
    net = nn.Conv2d(16, 16, 3, groups=16, bias=False)
    x = torch.randn(1, 16, 9, 9, requires_grad=True)
    found = forecast(net, x, training=True).dump.library
    assert [launch.flops for launch in found] == [2 * 49 * 144, 4 * 49 * 144]


def test_fusion_saves_bytes_and_memory_decides():
    found = forecast(*PROGRAMS["chain"], gpu="a100")
    assert found.eager.launches == 4 and found.compiled.launches == 1
    assert found.eager.bytes == 4 * found.compiled.bytes
    assert found.compiled.decides == "memory" and found.verdict == "faster"


def test_weights_must_be_read_even_for_one_row():
    layer = nn.Linear(8192, 8192, bias=False)
    found = forecast(layer, torch.randn(1, 8192), gpu="a100")
    beyond = layer.weight.nbytes + 4 * 8192 - gpus.find("a100").l2
    assert found.compiled.bound == pytest.approx(beyond / 2039e9)


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_a_look_up_moves_the_rows_that_it_names(kind):
    table, rows = kind(100_000, 256), torch.arange(64).view(8, 8)
    found = forecast(lambda ids: table(ids) * 2 + 1, rows)
    for side in (found.eager, found.compiled):
        assert side.bytes < 10 * rows.numel() * 256 * 4
        assert side.bound == 0


def test_nothing_of_the_program_stays():
    x = torch.randn(777, 333)
    forecast(chain, x)
    gc.collect()
    alive = [t for t in gc.get_objects() if type(t) is torch.Tensor]
    assert [t is x for t in alive if t.shape == x.shape] == [True]


def test_what_eager_alone_reads_bounds_eager_alone():
    found = forecast(lambda x: (x * 2)[:10] + 1, torch.randn(1 << 25))
    assert found.eager.bound > 0 and found.compiled.bound == 0
    assert found.compiled.bytes == 2 * 10 * 4


def test_a_branch_that_only_compiling_takes_is_not_outside():
    def branches(x):
        return x.sin() if torch.compiler.is_compiling() else x.cos().exp()

    found = forecast(branches, torch.randn(64, 64))
    assert (found.eager.launches, found.compiled.launches) == (2, 1)
    assert not found.notes
    assert "cuDNN" in str(forecast(nn.LSTM(4, 4), torch.randn(2, 1, 4)))


def test_a_small_program_waits_for_the_host_until_it_is_sent_at_once():
    deep, x = nn.Sequential(*[nn.Linear(8, 8), nn.ReLU()] * 8), torch.randn(8, 8)
    plain, recorded = (forecast(deep, x, mode=m) for m in (None, "reduce-overhead"))
    assert plain.eager.decides == "host" and "reduce-overhead" in str(plain)
    assert recorded.compiled.host < plain.compiled.host
    assert "reduce-overhead" not in str(recorded)
    assert "reduce-overhead" not in str(forecast(chain, x))  # one launch is sent sooner
    assert recorded.eager == plain.eager


def test_what_stays_eager_at_a_break_counts_on_the_compiled_side():
    whole, cut = (forecast(f, torch.randn(64, 64)) for f in (chain, broken))
    assert cut.compiled.launches == 2 and whole.compiled.launches == 1
    assert cut.compiled.host > whole.compiled.host
    assert "2 graphs" in str(cut) and "graphs" not in str(whole)
    outside = forecast(torch.compiler.disable(chain), torch.randn(64, 64))
    assert outside.compiled.launches == 4 and "nothing was captured" in str(outside)


@pytest.mark.parametrize(
    ("gpu", "dtype", "says"),
    [
        ("b200", torch.float32, "no peak of b200"),
        ("a100", torch.float64, "no peak of a100 in float64"),
        ("abacus", torch.float32, "no GPU called"),
    ],
)
def test_without_a_published_peak_it_says_so(gpu, dtype, says, monkeypatch):
    monkeypatch.delitem(gpus.PEAKS, "b200")  # as for a GPU that is really here
    x = torch.randn(64, 64, dtype=dtype)
    with pytest.raises(InputError, match=says):
        forecast(torch.mm, x, x, gpu=gpu)


def test_a_model_that_does_not_fit_says_so(monkeypatch):
    monkeypatch.setitem(gpus.GPUS, "a100", replace(gpus.find("a100"), memory=1 << 20))
    with pytest.raises(InputError, match=r"4.008 MiB.* has 1 MiB"):
        forecast(LINEAR, torch.randn(1, 1024))


# --- the published times --------------------------------------------------------------


def test_a_later_torch_is_forecast_as_todays():
    timed = {"model": "MLP", "batch": "1", "mode": "default", "torch": "2.9.0"}
    made = published.row({**timed, "gpu": "h100", "eager_ms": 1, "compiled_ms": 2})
    assert made["measured"] == 0.5 and made["decides"] == "host"


def test_the_errors_that_are_told_are_those_that_were_found():
    rows = read("published/table")["rows"]
    assert published.found_errors(rows) == forecasts.FOUND_ERRORS
    assert not published.broken(rows)
