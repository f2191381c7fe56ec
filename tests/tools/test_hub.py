"""The two hubs agree and limit what they say."""

import signal
import socket
import sys
from collections import defaultdict
from types import SimpleNamespace
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
import yaml

from tests.refresh import ROOT
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
