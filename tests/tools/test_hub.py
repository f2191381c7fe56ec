"""The hub of a room: its limits, and its link."""

import signal
import sys
from collections import defaultdict
from types import SimpleNamespace

import pytest

from tests.refresh import ROOT

CONFIG = ROOT / "tools" / "jupyterhub_config.py"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="accounts of Linux")


@pytest.fixture
def config(monkeypatch):
    """The settings of jupyterhub_config.py, as JupyterHub reads them."""
    settings = defaultdict(SimpleNamespace)
    monkeypatch.setenv("COURSE_REPOSITORY", "REPOSITORY")
    named = type("Config", (), {"__getattr__": lambda _, name: settings[name]})()
    code = compile(CONFIG.read_text(), str(CONFIG), "exec")
    usual = signal.getsignal(signal.SIGINT)
    exec(code, {"get_config": lambda: named, "__file__": str(CONFIG)})
    signal.signal(signal.SIGINT, usual)
    return named


def test_people_of_the_group_get_what_is_promised(config):
    routes = (ROOT / "notebooks/workshop/routes.md").read_text()
    [group] = config.PAMAuthenticator.allowed_groups
    assert f"groupadd {group}\n" in routes and CONFIG.name in routes
    assert (config.Spawner.mem_limit, config.Spawner.cpu_limit) == ("2G", 2)
    config.Spawner.pre_spawn_hook(config.Spawner)
    line = " ".join(config.Spawner.cmd)
    assert "prlimit --data=2G taskset -c " in line and "-m tools.lab" in line


def test_the_link_pulls_where_the_first_start_does(capsys, config):
    link = capsys.readouterr().out
    assert f"\n{link}" in (ROOT / "notebooks/workshop/routes.md").read_text()
    folder = link.partition("targetPath=")[2].partition("&")[0]
    assert f'"$COURSE_BRANCH" {folder}\ncd {folder} ' in config.Spawner.cmd[2]
    assert config.Spawner.environment["NBGITPULLER_PARENTPATH"] == ".."
