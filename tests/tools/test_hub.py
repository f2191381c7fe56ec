"""The hub of a room: its limits, its link, and what it misses."""

import signal
import sys
from collections import defaultdict
from types import SimpleNamespace
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from tests.refresh import ROOT
from tools.hub import __main__ as hub

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
def test_people_of_the_group_get_what_is_promised(config):
    assert (config.Spawner.mem_limit, config.Spawner.cpu_limit) == ("2G", 2)
    assert config.PAMAuthenticator.allowed_groups == {hub.GROUP}
    config.Spawner.pre_spawn_hook(config.Spawner)
    line = " ".join(config.Spawner.cmd)
    assert "prlimit --data=2G taskset -c " in line and "-m tools.lab" in line


@linux
def test_the_link_pulls_where_the_first_start_does(config):
    link = unquote(hub.link("https://HUB", "REPOSITORY", "main"))
    assert f"\n{link}\n" in (ROOT / "notebooks/workshop/routes.md").read_text()
    parts = urlsplit(hub.link("https://hub", "https://git/a b", "main"))
    asked = {name: value for name, [value] in parse_qs(parts.query).items()}
    folder = asked["targetPath"]
    assert (asked["repo"], asked["branch"]) == ("https://git/a b", "main")
    assert f'"$COURSE_BRANCH" {folder}\ncd {folder} ' in config.Spawner.cmd[2]
    assert config.Spawner.environment["NBGITPULLER_PARENTPATH"] == ".."


@linux
def test_what_is_missing_is_said_with_its_remedy(monkeypatch, tmp_path):
    monkeypatch.setattr(hub.os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    said = [*hub.missing()]
    wanted = ["uv pip install --group hub"] * 2 + ["npm install", "apt install git"]
    wanted += ["util-linux"]
    assert len(said) == len(wanted)
    assert all(want in line for want, line in zip(wanted, said, strict=True))
