"""Build the course's own environment in .venv, or say in one line what is missing.

    python3 bootstrap.py              # what `make setup` runs
    python3 bootstrap.py --torch cpu  # `make setup TORCH=cpu`: no CUDA packages

Nothing is installed outside .venv, and a second run takes no time.  This file
runs before anything is installed, also under a Python that is too old for the
course (3.6 can read it), so it uses the standard library only.

pip brings uv, and uv the rest: it takes half the time, and knows where each build of
torch is published.  There is no uv.lock, for that names the registry of whoever wrote
it: requirements.txt has the pins, and they come from where pip looks on this machine.
"""

import argparse
import ast
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time

ROOT = os.path.dirname(os.path.abspath(__file__))
VENV = os.path.join(ROOT, ".venv")
PYTHON = os.path.join(VENV, "Scripts" if os.name == "nt" else "bin", "python")
STATE = os.path.join(VENV, "course.json")  # what .venv was made from
PINS = os.path.join(ROOT, "requirements.txt")
UV = (PYTHON, "-m", "uv", "pip", "install", "--python", PYTHON)
LOG = os.path.join(ROOT, ".cache", "setup.log")
FIRST_IN_A_KERNEL = """\
# What the course does before a kernel's first cell: below an error it says what helps.
try:
    from course import cell_errors
except ImportError:  # the course was moved away
    pass
else:
    cell_errors.explain_errors()
"""
UNFINISHED = "not all installed"
OLDEST, NEWEST = (3, 11), (3, 14)  # torch and all pins have wheels for these
HERE = "{}.{}".format(*sys.version_info)
# What the log of a failed installation says, and where uv reads the settings of pip.
WORDS = os.path.join(ROOT, "tools", "setup.toml")


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Build the course's environment in .venv.",
        epilog="exit status: 0 ready, 1 something is missing, 2 it cannot be done",
    )
    parser.add_argument(
        "--torch",
        default="",
        help="cpu, a CUDA build such as cu126, or default (what pip chooses); "
        "without it, what .venv has, or what suits this machine",
    )
    try:
        set_up(parser.parse_args().torch)
    except KeyboardInterrupt:
        stop("stopped; run it again to go on from here")
    except OSError as problem:
        stop(f"cannot write in {ROOT}: {problem}")


def set_up(torch: str) -> None:
    """Make .venv what requirements.txt says; quick when it is."""
    check_python()
    check_compiler()
    if " " in ROOT and os.name != "nt":  # torch names its libraries without quotes
        stop(f"torch.compile cannot link in a folder with a space: move {ROOT}")
    if not re.match(r"(auto|cpu|default|cu\d{3})?$", torch):
        stop(f"TORCH={torch} is not known: say cpu, default or a CUDA build like cu126")
    made = read_state()
    state = wanted_state(torch or made.get("torch", "auto"))
    if made == state and runs(PYTHON):
        say(".venv is up to date")
        return
    check_modules()
    check_folder()
    # An uv that was stopped takes packages of which it laid down a half for whole.
    reusable = made.get("sources") != UNFINISHED and runs(PYTHON)
    same = all(made.get(key) == state[key] for key in ("torch", "python", "root"))
    build(state, reusable and same)


def say(text: str) -> None:
    print("setup:", text, file=sys.stderr, flush=True)


def stop(text: str) -> None:
    say(text)
    sys.exit(1)


def succeeds(*command: str, **how: object) -> bool:
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        return not subprocess.call(command, **silent, **how)
    except (OSError, subprocess.TimeoutExpired):
        return False


def runs(program: str) -> bool:
    return succeeds(program, "--version")


# --- what the machine must have ---------------------------------------------


def check_python() -> None:
    if OLDEST <= sys.version_info[:2] <= NEWEST:
        return
    age = "old" if sys.version_info[:2] < OLDEST else "new"
    needs = f"the course needs 3.{OLDEST[1]} to 3.{NEWEST[1]}"
    stop(f"Python {HERE} is too {age}: {needs}; make setup PYTHON=python3.12 takes one")


def check_compiler() -> None:
    usual = "clang++" if sys.platform == "darwin" else "g++"
    name = os.environ.get("CXX") or usual
    if os.name == "nt" or runs(name):  # Windows: doctor looks for MSVC
        return
    fix = "Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++"
    if sys.platform == "darwin":
        fix = "xcode-select --install"
    kernels = "torch.compile builds CPU kernels with a C++ compiler"
    stop(f"{name} does not run, and {kernels}; {fix}; or set CXX to one that runs")


def check_modules() -> None:
    debian = f"Debian, Ubuntu: apt install python{HERE}-venv python{HERE}-dev"
    if not all(map(importlib.util.find_spec, ("venv", "ensurepip"))):
        stop(f"this Python cannot make environments (no venv module); {debian}")
    header = os.path.join(sysconfig.get_paths()["include"], "Python.h")
    if os.name != "nt" and not os.path.exists(header):
        stop(
            "Python.h is missing, and compiled kernels include it; "
            f"{debian}; Fedora: dnf install python3-devel"
        )


def check_folder() -> None:
    # Of one that was stopped while it was cleared, nothing may be left, or a part.
    names = os.listdir(VENV) if os.path.isdir(VENV) else [VENV] * os.path.lexists(VENV)
    if names and not {"pyvenv.cfg", "lib", "Lib"}.intersection(names):
        stop(f"{VENV} is not a Python environment: move it away")
    os.makedirs(os.path.dirname(LOG), exist_ok=True)
    open(LOG, "w").close()


# --- the environment ---------------------------------------------------------


def wanted_state(torch: str) -> dict:
    digest = hashlib.sha256()
    for name in ("requirements.txt", "pyproject.toml"):
        with open(os.path.join(ROOT, name), "rb") as file:
            digest.update(file.read())
    python = f"{HERE} in {sys.base_prefix}"
    sources = digest.hexdigest()
    return {"torch": torch, "python": python, "root": ROOT, "sources": sources}


def read_state() -> dict:
    try:
        with open(STATE) as file:
            return dict(json.load(file))
    except (OSError, ValueError):
        return {}


def write_state(state: dict) -> None:
    with open(STATE + ".part", "w") as file:
        json.dump(state, file, indent=1)
    os.replace(STATE + ".part", STATE)


def build(state: dict, reusable: bool) -> None:
    began = time.time()
    if not reusable:
        say(f"building .venv with Python {state['python']} (minutes, once)")
        # When .venv itself runs this, sys.executable is about to be replaced.
        base = getattr(sys, "_base_executable", sys.executable)
        if base.startswith(VENV):  # half an environment does not know its own base
            base = os.path.realpath(base)
        step(base, "-m", "venv", "--clear", VENV)
    write_state(dict(state, sources=UNFINISHED))
    quiet = ("--no-input", "--disable-pip-version-check")
    # setuptools as well: uv may build the check-up before it installs the pins, and
    # the one that venv brings does not read pyproject.toml as it is now.
    step(PYTHON, "-m", "pip", *quiet, "install", "-c", PINS, "uv", "setuptools")
    set_up_uv()
    backend = torch_backend(state["torch"])
    if backend:
        hint = " (TORCH=default takes what pip chooses)"
        step(*UV, "--no-deps", *backend, "-c", PINS, "torch", hint=hint)
    step(*UV, "-r", PINS, "--no-build-isolation", "-e", ROOT)
    let_lessons_import(PYTHON)
    write_state(state)
    say(f"ready in {time.time() - began:.0f} s")


def words() -> dict:
    import tomllib  # which a Python that is too old does not have

    with open(WORDS, "rb") as file:
        return tomllib.load(file)


def set_up_uv() -> None:
    """Let uv look where pip does, and compile as pip does."""
    # Else a first lesson would wait for it, and whoever may not write here, always.
    os.environ.setdefault("UV_COMPILE_BYTECODE", "1")
    os.environ.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")  # all are one list
    list_them = (PYTHON, "-m", "pip", "config", "list")
    said = subprocess.check_output(list_them, universal_newlines=True)
    for name, variable in words()["settings"].items():
        comma = "," if name == "find-links" else " "
        for section in (":env:", "install", "global"):  # the first one counts
            found = re.search(rf"^{section}\.{name}=(.+)", said, re.MULTILINE)
            if found:
                values = ast.literal_eval(found.group(1)).split()
                os.environ.setdefault(variable, comma.join(values))


def torch_backend(choice: str) -> tuple:
    """Return uv's options for the build of torch; none for what pip would choose.

    Only for Linux does the usual index have torch with CUDA, 4 GiB to fetch.
    """
    if choice == "default" or (
        choice == "auto" and not sys.platform.startswith("linux")
    ):
        return ()
    if choice != "auto":
        return ("--torch-backend", choice)
    # uv's own auto finds GPUs of other makers, too, for which the course has no Triton.
    nvidia = os.path.exists("/proc/driver/nvidia") or shutil.which("nvidia-smi")
    backend = ("--torch-backend", "auto" if nvidia else "cpu")
    if has_torch(backend):
        return backend
    say("torch's own index cannot be reached; taking the usual CUDA build (5 GB)")
    return ()


def has_torch(backend: tuple) -> bool:
    """Try whether uv finds torch, without its many retries."""
    command = (*UV, "--dry-run", "--no-deps", *backend, "-c", PINS, "torch")
    env = dict(os.environ, UV_HTTP_RETRIES="1")
    return succeeds(*command, env=env, timeout=20)


def let_lessons_import(python: str) -> None:
    """Put the helpers and the lessons' own modules where *python* finds them.

    pip installs the check-up alone, for other projects; the course runs where it lies.
    Its kernels explain errors from their first cell on.
    """
    find = "from sysconfig import get_path as p; print(p('purelib')); print(p('data'))"
    told = subprocess.check_output([python, "-c", find], universal_newlines=True)
    packages, prefix = (line.strip() for line in told.splitlines())
    with open(os.path.join(packages, "torch_compile_course.pth"), "w") as file:
        file.write(ROOT + "\n" + os.path.join(ROOT, "notebooks") + "\n")
    startup = os.path.join(prefix, "etc", "ipython", "startup")
    os.makedirs(startup, exist_ok=True)
    with open(os.path.join(startup, "torch_compile_course.py"), "w") as file:
        file.write(FIRST_IN_A_KERNEL)


def step(*command: str, hint: str = "") -> None:
    """Run *command*, tell of its large downloads, and explain its failure."""
    download = re.compile(r"Downloading (\S+) \((\d{3,}[.\d]*MiB|[.\d]+GiB)\)")
    lines = []
    child = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
        errors="replace",
    )
    with open(LOG, "a") as log:
        log.write(f"$ {' '.join(command)}\n")
        for line in child.stdout:
            lines.append(line)
            log.write(line)
            if download.match(line):
                say("downloading {} ({})".format(*download.match(line).groups()))
    if child.wait():
        problem = explain("".join(lines)) + hint
        stop(f"{problem}; then run it again (details: .cache/setup.log)")


def explain(log: str) -> str:
    """Return why an installation failed and what to do, in one line."""
    for failure in words()["failure"]:
        if re.search(failure["says"], log):
            return failure["mend"]
    said = [line.strip() for line in log.splitlines() if line.strip()]
    return f"the installation failed: {said[-1] if said else 'no message'}"


if __name__ == "__main__":
    main()
