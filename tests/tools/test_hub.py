"""The two hubs agree and limit what they say; `python -m tests.proof hub` runs one."""

import os
import signal
import socket
import subprocess
import sys
from collections import defaultdict
from types import SimpleNamespace
from unittest.mock import MagicMock
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
import yaml
from jupyterlab.labapp import LabApp

from tests.refresh import ROOT
from tools import lab
from tools.hub import __main__ as hub

VALUES = yaml.safe_load((ROOT / "tools" / "hub" / "values.yaml").read_text())
PERSON = VALUES["singleuser"]
linux = pytest.mark.skipif(sys.platform != "linux", reason="accounts of Linux")


@pytest.fixture
def config(monkeypatch):
    """The settings of jupyterhub_config.py, as JupyterHub reads them."""
    settings = defaultdict(SimpleNamespace)
    for name, value in {"PORT": "8000", "REPOSITORY": "a", "BRANCH": "main"}.items():
        monkeypatch.setenv(f"COURSE_{name}", value)
    named = type("Config", (), {"__getattr__": lambda _, name: settings[name]})()
    code = compile(hub.CONFIG.read_text(), str(hub.CONFIG), "exec")
    usual = signal.getsignal(signal.SIGINT)
    exec(code, {"get_config": lambda: named})
    signal.signal(signal.SIGINT, usual)
    return named


@linux
def test_both_hubs_start_a_person_alike(config):
    assert config.Spawner.cmd == PERSON["cmd"]
    variables = set(config.Spawner.environment)
    assert variables == {name for name in PERSON["extraEnv"] if name in variables}
    memory, cores = PERSON["memory"], PERSON["cpu"]
    assert set(memory.values()) == {config.Spawner.mem_limit} == {"2G"}
    assert set(cores.values()) == {config.Spawner.cpu_limit} == {2}
    assert PERSON["extraEnv"]["OMP_NUM_THREADS"] == "2"
    assert config.PAMAuthenticator.allowed_groups == {hub.GROUP}


@linux
def test_what_a_person_runs_is_below_the_limits(config):
    config.Spawner.cmd = [sys.executable, "-c", "import os, resource as r"]
    config.Spawner.cmd[-1] += "; print(r.getrlimit(r.RLIMIT_DATA))"
    config.Spawner.cmd[-1] += "; print(len(os.sched_getaffinity(0)))"
    person = SimpleNamespace(mem_limit=1 << 31)
    config.Spawner.pre_spawn_hook(person)
    done = subprocess.run(person.cmd, capture_output=True, text=True, check=True)
    cores = min(2, len(os.sched_getaffinity(0)))
    assert done.stdout.split("\n")[:2] == [f"({1 << 31}, {1 << 31})", str(cores)]


def test_jupyterhub_starts_the_lessons_as_make_lab_does(monkeypatch, tmp_path):
    started = []

    def become(program, words):
        started.append(words)
        raise SystemExit  # as os.execv, it does not return

    def serve(words):
        started.append(words)
        return MagicMock()

    monkeypatch.setattr(LabApp, "initialize_server", serve)
    monkeypatch.setattr(lab.os, "execv", become)
    monkeypatch.setattr(lab, "ROOT", tmp_path)
    told = lab.options("00_a_lesson.ipynb")
    lab.serve(told)
    monkeypatch.setenv("JUPYTERHUB_SERVICE_URL", "http://127.0.0.1:1")
    with pytest.raises(SystemExit):
        lab.serve(told)
    assert started == [told, [sys.executable, "-m", "jupyterhub.singleuser", *told]]
    # JupyterLab is one of several pages of JupyterHub's server.
    assert "--ServerApp.default_url=/lab/workspaces/course" in told


def test_the_link_pulls_where_the_first_start_does():
    parts = urlsplit(hub.link("https://hub", "https://git/a b", "main"))
    assert parts.path == "/hub/user-redirect/git-pull"
    asked = {name: value for name, [value] in parse_qs(parts.query).items()}
    assert asked.pop("urlpath") == "lab/workspaces/course"
    folder = asked.pop("targetPath")
    assert asked == {"repo": "https://git/a b", "branch": "main"}
    assert f'"$COURSE_BRANCH" {folder}\ncd {folder} ' in PERSON["cmd"][2]
    assert PERSON["extraEnv"]["NBGITPULLER_PARENTPATH"] == ".."
    link = unquote(hub.link("https://HUB", "REPOSITORY", "main"))
    assert f"\n{link}\n" in (ROOT / "notebooks/workshop/routes.md").read_text()


def test_people_get_the_branch_that_is_here(monkeypatch, tmp_path):
    (tmp_path / "tools").mkdir()  # git must not take the branch for it
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for act in (["init", "-qb", "tools"], ["commit", "-qm", "one", "--allow-empty"]):
        subprocess.run([*git, *act], cwd=tmp_path, check=True)
    monkeypatch.delenv("COURSE_REPOSITORY", raising=False)
    monkeypatch.setattr(hub, "ROOT", tmp_path)
    bundle, branch = hub.source(tmp_path / "hub")
    pull = [*git, "clone", "-qb", branch, bundle, "copy"]
    subprocess.run(pull, cwd=tmp_path, check=True)
    assert branch == "tools"


@linux
def test_what_is_missing_is_said_with_its_remedy(monkeypatch, tmp_path):
    monkeypatch.setattr(hub.os, "geteuid", lambda: 0)
    monkeypatch.setattr(hub.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        said = [*hub.missing(port - 1)]
    wanted = ["uv pip install --group hub"] * 2 + ["npm install", "apt install git"]
    wanted += ["util-linux", f"port {port} is in use", "where everybody can read"]
    assert len(said) == len(wanted)
    assert all(want in line for want, line in zip(wanted, said, strict=True))
