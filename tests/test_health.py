"""doctor finds what is missing; below an error stands what helps, if anything does."""

import os
import platform
import re
import sys
import types

import pytest
import torch
from nbformat.v4 import new_code_cell, new_notebook

from helpers import _torch, health
from helpers.__main__ import main
from helpers.errors import Unavailable
from helpers.text import unmark
from tests.refresh import ROOT, client, course_environment, ran

PARTS = [
    *("Python", "torch", "triton", "C++ compiler", "GPU"),
    *("threads", "cache folder", "memory", "first compile"),
]


def row(name, *, compile=False):
    found = health.doctor(compile=compile)
    assert [part.name for part in found.rows] == PARTS
    return next(part for part in found.rows if part.name == name)


def test_no_compile_leaves_it_out(capsys):
    assert main(["doctor", "--no-compile"]) == 0
    printed = capsys.readouterr().out
    assert "not tried" in printed and "ready for the course: yes" in printed


def test_no_compiler_is_told_in_words(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CXX", "/no/compiler")
    with torch._inductor.config.patch({"cpp.cxx": ("/no/compiler",)}):
        assert main(["doctor"]) == 1
    printed = capsys.readouterr().out
    assert "ready for the course: no, for want of: C++ compiler, first c" in printed
    assert "Unset CXX" in printed


def test_a_torch_that_does_not_import_is_a_row(tmp_path):
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so: no such file')")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = ran(sys.executable, "-m", "helpers", "doctor", status=1, env=env)
    assert "fails with OSError: libcudart.so: no such file" in done.stdout
    assert "torch: Nothing runs. make clean setup." in done.stdout
    assert "Traceback" not in done.stderr


def test_only_marks_differ_between_machines(monkeypatch):
    here = health.doctor(compile=False)
    monkeypatch.setattr(_torch, "cpp_compiler", lambda: (None, "none"))
    monkeypatch.setattr(_torch, "triton_pair", lambda: ("3.7.1", None, False))
    there = health.doctor(compile=False)
    assert not there.ok
    assert str(there) != str(here)
    assert unmark(str(there)) == unmark(str(here))


def raises(error):
    def act(*arguments):
        raise error

    return act


def python(*release):
    return {"sys.version_info": (*release, 0)}


def triton(wanted, found, gpu=False):
    pair = wanted, found, wanted == found
    return {
        "helpers._torch.triton_pair": lambda: pair,
        "torch.cuda.is_available": lambda: gpu,
        "sys.platform": "linux",
    }


def gpu(driver, cuda):
    return {
        "helpers.results.nvidia_driver": lambda: driver,
        "torch.cuda.is_available": lambda: False,
        "torch.cuda.init": raises(RuntimeError("too old")),
        "torch.version.cuda": cuda,
    }


def working_gpu(major):
    chip = {"name": "Tesla", "total_memory": 16 << 30, "major": major, "minor": 1}
    properties = types.SimpleNamespace(**chip)
    return {
        "helpers.results.nvidia_driver": lambda: "550.1",
        "torch.cuda.is_available": lambda: True,
        "torch.cuda.get_device_properties": lambda device: properties,
    }


def no_headers(tool, system):
    return {
        "helpers._torch.cpp_compiler": lambda: ("g++", ""),
        "sysconfig.get_path": {"include": "/none"}.get,
        "shutil.which": {tool: tool}.get,
        "sys.platform": system,
    }


CACHE, COMPILER = "cache folder", "C++ compiler"
BROKEN = raises(RuntimeError("one\ntwo"))
FULL = raises(OSError("cannot write doctor: No space left on device."))
LITTLE = types.SimpleNamespace(free=1 << 20)
CHECKED = "The course is checked on"
OLD = "Python 3.11 to 3.14. make setup PYTHON=python3.11"
OTHER = f"{CHECKED} 2.11 to 2.15. make setup"
INSTALL = f"torch {torch.__version__} wants 3.7.1 {{}}. pip install 'triton==3.7.1.*'"
HIDDEN = INSTALL.format("Triton kernels are not shown")
CPU = "Every lesson runs on the CPU"
# What is so on a machine, the row that tells it, its status, and what it says last.
MACHINES = [
    (python(3, 10), "Python", "note", f"{CHECKED} {OLD}"),
    (python(3, 11), "Python", "ok", f"{platform.python_version()} "),
    (python(3, 14), "Python", "ok", f"{platform.python_version()} "),
    (python(3, 15), "Python", "note", f"{CHECKED} {OLD}"),
    ({"torch.__version__": "2.10.2"}, "torch", "missing", f"2.10.2 {OTHER}"),
    ({"torch.__version__": "2.11.0"}, "torch", "ok", "2.11.0 "),
    ({"torch.__version__": "2.15.1+cu130"}, "torch", "ok", "2.15.1+cu130 "),
    ({"torch.__version__": "2.16.0"}, "torch", "note", f"2.16.0 {OTHER}"),
    ({"torch.__version__": "3.0.0a0+git"}, "torch", "note", f"3.0.0a0+git {OTHER}"),
    (triton("3.7.1", "3.7.1"), "triton", "ok", f"of torch {torch.__version__} "),
    (triton("3.7.1", "3.9.0"), "triton", "note", f"3.9.0; {HIDDEN}"),
    (triton("3.7.1", None), "triton", "note", f"none; {HIDDEN}"),
    (
        *(triton("3.7.1", None, gpu=True), "triton", "missing"),
        f"none; {INSTALL.format('Nothing compiles for the GPU')}",
    ),
    (gpu(None, None), "GPU", "note", f"no NVIDIA GPU {CPU}"),
    (
        *(gpu("550.1", None), "GPU", "note"),
        f"550.1, but a torch built without CUDA {CPU}. make setup TORCH=default",
    ),
    (
        *(gpu("550.1", "13.0"), "GPU", "note"),
        f"driver 550.1 and CUDA 13.0 do not work: too old {CPU}. Update the driver, "
        "or take an older CUDA: make setup TORCH=cu126",
    ),
    (working_gpu(7), "GPU", "ok", "Tesla, 16 GiB, driver 550.1 "),
    (
        *(working_gpu(6), "GPU", "note"),
        f"550.1, 6.1 Triton needs compute capability 7.0. {CPU}",
    ),
    *(
        (
            *(no_headers(tool, system), COMPILER, "missing"),
            f", but no Python.h torch.compile cannot build kernels for the CPU. {fix}",
        )
        for tool, system, fix in (
            ("apt", "linux", "apt install g++ python3-dev"),
            ("dnf", "linux", "dnf install gcc-c++ python3-devel"),
            ("none", "linux", "Install g++ or clang++, and set CXX to it"),
            ("apt", "darwin", "xcode-select --install"),
        )
    ),
    (
        *({"helpers._torch.cpp_compiler": BROKEN}, COMPILER, "note"),
        "fails with RuntimeError: one two This could not be looked at",
    ),
    (
        *({"shutil.disk_usage": lambda _: LITTLE}, CACHE, "note"),
        " used, 1 MiB free A compile fails once the disk is full. Free some, or set "
        "TORCHINDUCTOR_CACHE_DIR to a folder with more",
    ),
    (
        *({"helpers.results.write_atomically": FULL}, CACHE, "missing"),
        "No space left on device. Nothing compiles. Set TORCHINDUCTOR_CACHE_DIR to a "
        "folder that you may write to",
    ),
]


@pytest.mark.parametrize(("machine", "name", "status", "last"), MACHINES)
def test_what_is_so_on_a_machine_is_said_in_its_row(
    machine, name, status, last, monkeypatch
):
    for target, value in machine.items():
        monkeypatch.setattr(target, value)
    for choice in ("CXX", "CONDA_PREFIX"):
        monkeypatch.delenv(choice, raising=False)
    found = row(name)
    assert found.status == status
    assert f"{found.found} {found.advice}".endswith(last)


def test_a_container_allows_less_than_the_machine_has(monkeypatch, tmp_path):
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    (tmp_path / "memory.max").write_text(f"{3 << 30}\n")
    (tmp_path / "memory.current").write_text(f"{2 << 30}\n")
    monkeypatch.setattr(health, "_CGROUP", tmp_path)
    monkeypatch.setattr("torch.get_num_threads", lambda: 4)
    threads, memory = row("threads"), row("memory")
    assert threads.status == memory.status == "note"
    assert threads.found == "4 threads on 1 core"
    assert threads.advice == (
        "Threads wait for one another, and timings are noise. Set OMP_NUM_THREADS=1 "
        "before Jupyter starts"
    )
    assert memory.found == "1 GiB of 3 GiB free"
    assert memory.advice == (
        "A notebook may take 2 GiB, and a kernel that runs out is killed. Shut down "
        "other kernels and programs"
    )
    (tmp_path / "memory.current").write_text(f"{1 << 30}\n")
    monkeypatch.setattr("torch.get_num_threads", lambda: 1)
    assert row("threads") == health.Row("threads", "1 thread on 1 core")
    assert row("memory") == health.Row("memory", "2 GiB of 3 GiB free")


@pytest.mark.skipif(os.name != "posix", reason="doctor says it of POSIX only")
def test_a_cache_folder_with_a_space(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "my cache"))
    found = row(CACHE)
    assert (found.status, found.found) == ("missing", "a space in its name")
    assert found.advice == (
        "torch hands the C++ compiler a name that ends there. Set "
        "TORCHINDUCTOR_CACHE_DIR to a folder without one"
    )
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "Ærø東京"))
    assert row(CACHE).status != "missing"


def sine_for_cosine(graph, inputs):
    for node in graph.graph.find_nodes(op="call_method", target="cos"):
        node.target = "sin"
    graph.recompile()
    return graph


def test_the_first_compile_is_tried_and_its_numbers_are_checked():
    with torch.compiler.set_stance("default", force_backend="eager"):
        healthy = row("first compile", compile=True)
    assert healthy.status == "ok" and re.fullmatch(r"cpu [\d.]+ \w+", healthy.found)

    torch.compiler.reset()
    with torch.compiler.set_stance("default", force_backend=sine_for_cosine):
        wrong = row("first compile", compile=True)
    assert wrong.status == "missing"
    assert re.fullmatch(
        r"cpu: the compiled function is off by \S+ from eager", wrong.found
    )
    assert wrong.advice == (
        "The compiler computes wrong numbers here, so no result can be trusted. Delete "
        f"the folder {_torch.inductor_cache_dir()}, whose files may be damaged, and "
        "run doctor again. If it stays, take another C++ compiler (set CXX) or another "
        "torch (make clean setup)"
    )

    torch.compiler.reset()
    with torch._dynamo.config.patch(disable=True):
        eager = row("first compile", compile=True)
    assert (eager.status, eager.found) == ("missing", "it is switched off")
    assert eager.advice == (
        "Nothing compiles. Unset TORCH_COMPILE_DISABLE and TORCHDYNAMO_DISABLE, "
        "restart the kernel"
    )


# What stands below an error.


def raised(error, cause=None):
    try:
        raise error from cause
    except type(error) as caught:
        return caught


NOT_COMPILED = "Detected recompile when torch.compile stance is 'fail_on_recompile'"
OUT_OF_MEMORY = "[enforce fail] DefaultCPUAllocator: can't allocate memory: 9 bytes"
CAUSED_BY_THE_MACHINE = [
    (NameError("name 'predict' is not defined", name="predict"), "'predict'"),
    (ModuleNotFoundError("No module named 'triton'"), "Triton is missing"),
    (Unavailable("Triton is not installed"), "names what is missing"),
    (RuntimeError(OUT_OF_MEMORY), "memory ran out"),
    (MemoryError(), "memory ran out"),
    (RuntimeError(NOT_COMPILED), "a cell above that failed"),
    (OSError(28, "No space left on device"), "the disk is full"),
    (OSError(30, "Read-only file system"), "TORCHINDUCTOR_CACHE_DIR"),
    (PermissionError(13, "Permission denied"), "TORCHINDUCTOR_CACHE_DIR"),
    (EOFError("Ran out of input"), "compile cache may be damaged"),
    (ImportError("k.so: file too short"), "may be damaged"),
    (RuntimeError("Failed to import cache/ng/cng4.py\nSyntaxError: "), "be damaged"),
    (EOFError("no input"), f"delete the folder {_torch.inductor_cache_dir()}"),
]


@pytest.mark.parametrize(("error", "advice"), CAUSED_BY_THE_MACHINE)
def test_what_the_machine_causes_has_an_answer(error, advice):
    assert advice in health.what_to_do(raised(error))
    outer = raised(RuntimeError("a kernel"), error)
    assert advice in health.what_to_do(outer)
    outer.__context__, outer.__cause__ = error, None  # raise ... from None
    assert outer.__suppress_context__ and health.what_to_do(outer) is None


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError("division by zero"),
        AssertionError("the claim"),
        ValueError("mine=9 is none of the options"),
        NameError("name of another kind"),
    ],
)
def test_a_mistake_in_a_program_speaks_for_itself(error):
    assert health.what_to_do(raised(error)) is None
    error.__cause__ = ValueError("other")
    error.__cause__.__cause__ = error  # a chain that bites its tail
    assert health.what_to_do(error) is None


def test_torchs_own_errors_never_stand_alone(tmp_path, monkeypatch):
    def asks_for_a_break(x):
        torch._dynamo.graph_break()
        return x

    with pytest.raises(Exception, match="graph_break") as caught:
        torch.compile(asks_for_a_break, fullgraph=True, backend="eager")(torch.ones(2))
    assert "your own line" in health.what_to_do(caught.value)

    def refuses(graph, inputs):
        raise RuntimeError("not today")

    with pytest.raises(Exception, match="not today") as caught:
        torch.compile(lambda x: x + 1, backend=refuses)(torch.ones(2))
    assert "restart the kernel" in health.what_to_do(caught.value)

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    missing = torch._inductor.config.patch({"cpp.cxx": ("no-such-compiler",)})
    # Its type differs by version.
    with missing, pytest.raises(Exception) as caught:  # noqa: PT011
        torch.compile(lambda x: x.sin() * 3.25)(torch.ones(3))
    assert "C++ compiler" in health.what_to_do(caught.value)


BROKEN_CELL = "found = int('one')\nwidth = 3"
CELLS = ["", "1 / 0", BROKEN_CELL, "rows = width * 2", "lost = ("]
NOT_RUN = (
    "where a cell above defines 'gone', it has not run: choose Run > Run All Above "
    "Selected Cell, then this cell again"
)
LINES = {2: "found = int('one')", 3: "rows = width * 2", 4: "lost = ("}


@pytest.mark.parametrize(
    ("name", "known", "number"),
    [
        ("width", [], 2),
        ("rows", [], 2),  # not cell 3, which only lacked a name itself
        ("rows", ["width"], 3),  # mended, and cell 3 has not run again
        ("lost", [], 4),  # of what is no Python, any word may be one
        ("gone", [], None),
    ],
)
def test_the_cell_that_owes_a_name_is_told(name, known, number, monkeypatch):
    for each in known:
        monkeypatch.setattr(sys.modules["__main__"], each, 3, raising=False)
    shell = types.SimpleNamespace(user_ns={"In": [*CELLS, f"{name} = {name} + 1"]})
    monkeypatch.setattr("helpers.text.kernel_shell", lambda: shell)
    told = health.what_to_do(NameError(f"name '{name}' is not defined", name=name))
    mend = (
        f"cell [{number}], `{LINES.get(number)}`, failed before it could define "
        f"'{name}': mend that cell first, then run it and the cells below it"
    )
    assert told == (mend if number else NOT_RUN)


def test_a_kernel_says_below_the_traceback_what_helps():
    health.explain_errors()  # outside a notebook: nothing
    first = 'from helpers import start\nstart("01")'
    sources = [first, "1 / 0", BROKEN_CELL, "width + 1", "gone + 1", "gone + 1"]
    notebook = new_notebook(cells=[new_code_cell(source) for source in sources])
    with course_environment():
        runner = client(notebook, ROOT / "notebooks")
        runner.allow_errors = True
        runner.execute()
    shown = [""]  # below each cell, by its number
    for cell in notebook.cells:
        traces = (output.get("traceback", ()) for output in cell.outputs)
        shown.append("\n".join(line for trace in traces for line in trace))
    assert "ZeroDivisionError" in shown[2] and "What to do" not in shown[2]
    assert "NameError" in shown[4] and "What to do: cell [3], `found = int(" in shown[4]
    for number in (5, 6):
        assert shown[number].count("What to do: where a cell above defines 'gone'") == 1
