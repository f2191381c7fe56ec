"""torch's recorder of CUDA graphs on the CPU: right values, and nothing left behind."""

import pytest
import torch

from course.ch13.driver import Recorder

PATCHED = ("CUDAGraph", "graph", "device", "synchronize", "Stream")


def aliases(x):
    y = x + 1
    return y, y[1:], x.t()


def expanded(x):
    return x.expand(3, *x.shape).sum(0)


def numbers(x):
    return x.sum(), x.argmax(), x > 0


@pytest.mark.parametrize("f", [aliases, expanded, numbers, lambda x: (x, x * 2)])
@pytest.mark.parametrize("lay", [lambda x: x, lambda x: x.t(), lambda x: x[::2]])
def test_each_phase_gives_what_eager_gives(f, lay):
    recorder = Recorder()
    fast = torch.compile(f, backend=recorder)
    for n in range(4):
        x = lay(torch.randn(4, 4) + n)
        torch.testing.assert_close(fast(x), f(x))
    phases = [line.split(",")[0] for line in recorder.did]
    assert phases == ["warm-up", "record", "replay", "replay"]


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_of_the_driver_is_left(fails):
    def driver():
        own = getattr(torch._C, "_cuda_getCheckpointState", None)  # of a CUDA build
        return [own, *(getattr(torch.cuda, name) for name in PATCHED)]

    before = driver()

    def f(x):
        return x[torch.full((1,), 9 if fails else 0)] * 2

    fast = torch.compile(f, backend=Recorder())
    for _ in range(3):
        if fails:
            with pytest.raises(IndexError):
                fast(torch.ones(4))
        else:
            fast(torch.ones(4))
    assert driver() == before
    assert "is_cuda" not in vars(torch.Tensor) and not torch.ones(1).is_cuda
