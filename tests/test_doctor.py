"""doctor() finds what is missing, says what it costs, and never raises."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from helpers import _torch, health, results
from helpers.text import unmark

ROOT = Path(__file__).resolve().parents[1]
PARTS = [
    *("Python", "torch", "triton", "C++ compiler", "GPU"),
    *("threads", "cache folder", "memory", "first compile"),
]


def row(name: str, *, compile: bool = False) -> health.Row:
    found = health.doctor(compile=compile)
    assert [part.name for part in found.rows] == PARTS
    return next(part for part in found.rows if part.name == name)


def run_doctor(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "helpers", "doctor", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        timeout=300,
    )


def test_this_machine_is_ready() -> None:
    found = health.doctor()
    assert found.ok, str(found)
    assert [part.name for part in found.rows] == PARTS


def test_the_first_compile_is_a_real_one(tmp_path: Path) -> None:
    done = run_doctor(TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(tmp_path.rglob("*.so")), "nothing was compiled"


def test_no_compiler_is_told_in_words(tmp_path: Path) -> None:
    done = run_doctor(CXX="/no/compiler", TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
    assert done.returncode == 1
    assert "no, for want of: C++ compiler, first compile" in done.stdout
    assert "Unset CXX" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_compile_that_is_switched_off_is_seen() -> None:
    done = run_doctor(TORCH_COMPILE_DISABLE="1")
    assert done.returncode == 1
    assert "Unset TORCH_COMPILE_DISABLE" in done.stdout


def test_no_compile_leaves_it_out() -> None:
    done = run_doctor("--no-compile")
    assert done.returncode == 0
    assert "not tried" in done.stdout


def test_only_marks_differ_between_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    here = health.doctor(compile=False)
    monkeypatch.setattr(_torch, "cpp_compiler", lambda: (None, "none"))
    monkeypatch.setattr(_torch, "triton_pair", lambda: ("3.7.1", None, False))
    there = health.doctor(compile=False)
    assert not there.ok
    assert str(there) != str(here)
    assert unmark(str(there)) == unmark(str(here))


def test_html_says_the_same() -> None:
    found = health.Diagnosis((health.Row("torch", "1 < 2", "missing", "Lost", "Fix"),))
    page = found._repr_html_()
    assert "1 &lt; 2" in page
    assert "Lost. Fix" in page
    assert "ready for the course: ⟨no, for want of: torch⟩" in page


def test_a_diagnosis_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        health.Row("torch", "2").found = "3"  # type: ignore[misc]


@pytest.mark.parametrize("name", PARTS)
def test_a_check_that_breaks_is_a_row(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> tuple[str, ...]:
        raise RuntimeError("first line\nsecond line")

    checks = tuple((n, broken if n == name else c) for n, c in health._CHECKS)
    monkeypatch.setattr(health, "_CHECKS", checks)
    monkeypatch.setattr(health, "_first_compile", broken)
    found = row(name, compile=True)
    assert found.found == "fails with RuntimeError: first line second line"
    assert found.status != "ok"
    assert found.advice


def test_a_torch_that_does_not_import_is_a_row(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so: no such file')")
    done = run_doctor(PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "fails with OSError: libcudart.so: no such file" in done.stdout
    assert "torch: Nothing runs. make clean setup." in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("version", "status"),
    [
        *(("2.10.2", "missing"), ("2.11.0", "ok"), ("2.13.0+cpu", "ok")),
        *(("2.15.1+cu130", "ok"), ("2.16.0", "note"), ("3.0.0a0+git", "note")),
    ],
)
def test_the_range_of_torch(
    version: str, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.__version__", version)
    found = row("torch")
    assert found.status == status
    assert found.found == version


def test_a_torch_that_lacks_a_name_says_what_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_torch, "missing", lambda: {"_x": "graph breaks"})
    assert row("torch").advice == "This version lacks: graph breaks"


@pytest.mark.parametrize(
    ("pair", "gpu", "status"),
    [
        (("3.7.1", "3.7.1", True), False, "ok"),
        (("3.7.1", "3.9.0", False), False, "note"),
        (("3.7.1", None, False), False, "note"),
        (("3.7.1", None, False), True, "missing"),
    ],
)
def test_the_pair_of_torch_and_triton(
    pair: tuple, gpu: bool, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_torch, "triton_pair", lambda: pair)
    monkeypatch.setattr("torch.cuda.is_available", lambda: gpu)
    monkeypatch.setattr(health.sys, "platform", "linux")
    found = health._look("triton", health._triton)
    assert found.status == status
    assert ("3.7.1" in found.fix) == (status != "ok")


def test_missing_headers_are_as_bad_as_no_compiler(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        health.sysconfig, "get_paths", lambda: {"include": str(tmp_path)}
    )
    found = row("C++ compiler")
    assert found.status == "missing"
    assert "Python.h" in found.found


@pytest.mark.parametrize(
    ("platform", "program", "fix"),
    [
        *(("linux", "apt", "apt install g++"), ("linux", "dnf", "dnf install gcc")),
        *(("darwin", "none", "xcode-select"), ("win32", "winget", "BuildTools")),
        ("linux", "none", "set CXX"),
    ],
)
def test_each_platform_has_its_fix(
    platform: str, program: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(health.sys, "platform", platform)
    monkeypatch.setattr(health.shutil, "which", lambda name: name == program)
    assert fix in health._install()


@pytest.mark.parametrize(
    ("driver", "cuda", "found", "fix"),
    [
        (None, None, "no NVIDIA GPU", ""),
        ("550.1", None, "a torch built without CUDA", "TORCH=default"),
        ("550.1", "13.0", "do not work: too old", "Update the driver"),
    ],
)
def test_a_gpu_that_cannot_be_used(
    driver: str | None,
    cuda: str | None,
    found: str,
    fix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def init() -> None:
        raise RuntimeError("too old")

    monkeypatch.setattr(results, "nvidia_driver", lambda: driver)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.cuda.init", init)
    monkeypatch.setattr("torch.version.cuda", cuda)
    seen = health._look("GPU", health._gpu)
    assert seen.status == "note"
    assert found in seen.found
    assert fix in seen.fix


@pytest.mark.parametrize(("major", "status"), [(9, "ok"), (6, "note")])
def test_a_gpu_that_can(
    major: int, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = types.SimpleNamespace(
        name="H200", total_memory=139 << 30, major=major, minor=0
    )
    monkeypatch.setattr(results, "nvidia_driver", lambda: "570.1")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda _: card)
    seen = health._look("GPU", health._gpu)
    assert seen.found.startswith("H200, 139 GiB, driver 570.1")
    assert seen.status == status


def test_more_threads_than_a_container_allows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    monkeypatch.setattr(health, "_CGROUP", tmp_path)
    monkeypatch.setattr("torch.get_num_threads", lambda: 4)
    found = row("threads")
    assert found.status == "note"
    assert "OMP_NUM_THREADS=1" in found.fix


def test_the_memory_of_a_container(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "memory.max").write_text(f"{3 << 30}\n")
    (tmp_path / "memory.current").write_text(f"{2 << 30}\n")
    monkeypatch.setattr(health, "_CGROUP", tmp_path)
    found = row("memory")
    assert found.status == "note"
    assert found.found == "1 GiB of 3 GiB free"


@pytest.mark.skipif(os.name != "posix", reason="doctor says it of POSIX only")
def test_a_cache_folder_with_a_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "my cache"))
    found = row("cache folder")
    assert (found.status, found.found) == ("missing", "a space in its name")
    assert "Set TORCHINDUCTOR_CACHE_DIR" in found.fix
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "Ærø東京"))
    assert row("cache folder").status != "missing"


def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError("cannot write doctor: No space left on device.")

    monkeypatch.setattr(results, "write_atomically", full)
    found = row("cache folder")
    assert found.status == "missing"
    assert "No space left" in found.found
    assert "TORCHINDUCTOR_CACHE_DIR" in found.fix


def test_little_disk_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    free = types.SimpleNamespace(free=1 << 20)
    monkeypatch.setattr(health.shutil, "disk_usage", lambda _: free)
    assert row("cache folder").status == "note"


def test_an_unknown_command_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "helpers", "nurse"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 2
    assert "invalid choice: 'nurse'" in done.stderr
