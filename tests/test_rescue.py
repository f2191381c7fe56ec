"""What is said below an error, and that nothing is said below the others."""

from __future__ import annotations

import json
import pickle
import zipfile

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from helpers import health
from helpers.errors import Unavailable, inductor_cache_dir
from tests.refresh import ROOT, client, course_environment


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise error from cause
    except type(error) as caught:
        return caught


OUT_OF_MEMORY = "[enforce fail] DefaultCPUAllocator: can't allocate memory: 9 bytes"
KNOWN = [
    (NameError("name 'predict' is not defined"), "'predict'"),
    (ModuleNotFoundError("No module named 'triton'"), "Triton is missing"),
    (Unavailable("Triton is not installed"), "names what is missing"),
    (RuntimeError(OUT_OF_MEMORY), "memory ran out"),
    (MemoryError(), "memory ran out"),
    (OSError(28, "No space left on device"), "the disk is full"),
    (OSError(30, "Read-only file system"), "TORCHINDUCTOR_CACHE_DIR"),
    (PermissionError(13, "Permission denied"), "TORCHINDUCTOR_CACHE_DIR"),
    (EOFError("Ran out of input"), "compile cache may be damaged"),
    (pickle.UnpicklingError("pickle data was truncated"), "may be damaged"),
    (zipfile.BadZipFile("File is not a zip file"), "may be damaged"),
    (json.JSONDecodeError("Expecting value", "", 0), "may be damaged"),
    (ImportError("k.so: file too short"), "may be damaged"),
    (RuntimeError("Failed to import cache/ng/cng4.py\nSyntaxError: "), "be damaged"),
    (EOFError("Ran out of input"), f"delete the folder {inductor_cache_dir()}"),
]


@pytest.mark.parametrize(("error", "said"), KNOWN)
def test_what_the_machine_causes_has_an_answer(error: Exception, said: str) -> None:
    assert said in health.what_to_do(raised(error))
    assert said in health.what_to_do(raised(RuntimeError("a kernel"), error))


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError("division by zero"),
        AssertionError("the claim"),
        ValueError("mine=9 is none of the options"),
        NameError("name of another kind"),
    ],
)
def test_a_mistake_in_a_program_speaks_for_itself(error: Exception) -> None:
    assert health.what_to_do(raised(error)) is None


def test_torchs_own_errors_never_stand_alone() -> None:
    import torch

    def asks_for_a_break(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x

    with pytest.raises(Exception, match="graph_break") as caught:
        torch.compile(asks_for_a_break, fullgraph=True, backend="eager")(torch.ones(2))
    assert "your own line" in health.what_to_do(caught.value)

    def refuses(graph: torch.fx.GraphModule, inputs: list) -> None:
        raise RuntimeError("not today")

    with pytest.raises(Exception, match="not today") as caught:
        torch.compile(lambda x: x + 1, backend=refuses)(torch.ones(2))
    assert "restart the kernel" in health.what_to_do(caught.value)


def test_a_compiler_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    import torch

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    missing = torch._inductor.config.patch({"cpp.cxx": ("no-such-compiler",)})
    # Its type differs by version.
    with missing, pytest.raises(Exception) as caught:  # noqa: PT011
        torch.compile(lambda x: x.sin() * 3.25)(torch.ones(3))
    assert "C++ compiler" in health.what_to_do(caught.value)


def test_a_chain_that_bites_its_tail_ends() -> None:
    one, other = ZeroDivisionError("one"), ZeroDivisionError("other")
    one.__cause__, other.__cause__ = other, one
    assert health.what_to_do(one) is None


def test_nothing_happens_outside_a_notebook() -> None:
    health.attach()


def test_a_kernel_says_it_below_the_traceback() -> None:
    cells = ['from helpers import start\nstart("01")', "foo + 1", "foo + 1", "1 / 0"]
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells])
    with course_environment():
        runner = client(notebook, ROOT / "notebooks")
        runner.allow_errors = True
        runner.execute()
    said = ["\n".join(cell.outputs[-1].get("traceback", ())) for cell in notebook.cells]
    assert said[1].count("What to do: where a cell above defines 'foo'") == 1
    assert "NameError" in said[1] and said[2].count("What to do") == 1
    assert "ZeroDivisionError" in said[3] and "What to do" not in said[3]
