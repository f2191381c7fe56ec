"""Start a JupyterHub for a room on this Linux machine.

    python -m tools.hub ann ben cem             # with an account for each
    python -m tools.hub                         # again, for the same people
    python -m tools.hub --port=8000 --ip=0.0.0.0 --ssl-key=FILE --ssl-cert=FILE

Options that are not listed below go to JupyterHub. Everybody gets a copy of the course
as it is committed here, or from COURSE_REPOSITORY. Ctrl-C stops all servers; what
people wrote stays in their homes, and `userdel --remove NAME` removes it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from grp import getgrnam
from pathlib import Path
from urllib.parse import urlencode

from tools.commands import command

ROOT = Path(__file__).resolve().parents[2]
CONFIG = Path(__file__).with_name("jupyterhub_config.py")
GROUP = "torch-compile-course"  # of all accounts that are made here


def missing() -> Iterator[str]:
    """Yield what stands in the way, and what to do about it."""
    if sys.platform != "linux" or os.geteuid() != 0:
        # Only root makes accounts, and starts programs as somebody else.
        yield "people are accounts of the machine: run it on Linux, as root"
        return
    by_uv = f"{sys.executable} -m uv pip install --group hub"
    for program, package in {
        "jupyterhub": by_uv,
        "gitpuller": by_uv,
        "configurable-http-proxy": "npm install --global configurable-http-proxy",
        "git": "apt install git",
        "setpriv": "apt install util-linux",
    }.items():
        if shutil.which(program) is None:
            yield f"no {program} here: {package}"


def add(name: str) -> str:
    """Make an account and return its password, or '' where we made it before."""
    if name in getgrnam(GROUP).gr_mem:
        return ""
    # Nobody else may look into the home.
    line = ["useradd", "--create-home", "--key", "HOME_MODE=0700"]
    line += ["--shell", "/bin/bash", "--groups", GROUP, name]
    if subprocess.call(line):  # it says why
        sys.exit(f"hub: no account was made for {name}")
    password = secrets.token_hex(5)
    subprocess.run(["chpasswd"], input=f"{name}:{password}", text=True, check=True)
    return password


def source(state: Path) -> tuple[str, str]:
    """Return the repository and the branch that people get the course from."""
    if repository := os.environ.get("COURSE_REPOSITORY"):
        return repository, os.environ.get("COURSE_BRANCH", "main")
    # A bundle, for git does not read the repository of another account.
    git = ["git", "-C", str(ROOT)]
    asked = [*git, "symbolic-ref", "--short", "HEAD"]
    branch = subprocess.check_output(asked, text=True).strip()
    bundle = str(state.with_name("course.bundle"))
    create = [*git, "bundle", "create", "--quiet", bundle, "HEAD", branch, "--"]
    subprocess.run(create, check=True)
    return bundle, branch


def link(hub: str, repository: str, branch: str) -> str:
    """Return the address that pulls the course and opens what a person had open."""
    wanted = {"repo": repository, "branch": branch}
    wanted |= {"targetPath": "torch-compile-course", "urlpath": "lab/workspaces/course"}
    return f"{hub}/hub/user-redirect/git-pull?{urlencode(wanted)}"


def main(arguments: list[str] | None = None) -> None:
    """Make the accounts, and become JupyterHub, so that Ctrl-C ends that."""
    parser = command("tools.hub", __doc__, "something is missing")
    parser.add_argument("people", nargs="*", help="names of new accounts")
    parser.add_argument("--port", type=int, default=8000, help="and the next two")
    asked, rest = parser.parse_known_args(arguments)
    # People's servers find this Python under its plain name.
    folder = str(Path(sys.executable).parent)
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
    if found := [*missing()]:
        sys.exit("\n".join(f"hub: {line}" for line in found))
    os.umask(0o022)  # everybody reads what people get the course from
    subprocess.run(["groupadd", "--force", GROUP], check=True)
    for name in asked.people:
        print(f"{name}: {add(name) or 'as before'}")
    state = ROOT / ".cache" / "hub"
    state.mkdir(parents=True, exist_ok=True)
    state.chmod(0o700)  # JupyterHub's keys
    repository, branch = source(state)
    hub = f"http://localhost:{asked.port}"
    print("Everybody opens", link(hub, repository, branch))
    print("Ctrl-C stops it.", flush=True)
    os.environ |= {
        "COURSE_PORT": str(asked.port),
        "COURSE_REPOSITORY": repository,
        "COURSE_BRANCH": branch,
    }
    os.chdir(state)
    line = [sys.executable, "-m", "jupyterhub", f"--config={CONFIG}", *rest]
    os.execv(line[0], line)


if __name__ == "__main__":
    main()
