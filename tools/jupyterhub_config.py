"""JupyterHub for a room on one Linux machine: see notebooks/workshop/routes.md.

Each person is an account of the machine, so the system itself keeps their files
apart. JupyterHub's own mem_limit and cpu_limit bind nothing when servers are plain
processes, so `limit` binds them. Everybody gets a copy of the course as it is committed
here, or from COURSE_REPOSITORY.
"""

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlencode

c = get_config()  # noqa: F821

ROOT = Path(__file__).resolve().parents[1]
GROUP = "torch-compile-course"  # the accounts that may come in
# Not run from its file, for the checkout may be closed to these accounts.
START = (ROOT / "tools" / "hub_start.sh").read_text()


def bundle():
    """Write the checkout to one file, for git reads no repository of another account.

    Return its name, and the branch.
    """
    git = ["git", "-C", str(ROOT)]
    asked = [*git, "symbolic-ref", "--short", "HEAD"]
    branch = subprocess.check_output(asked, text=True).strip()
    file = str(ROOT / ".cache" / "course.bundle")
    os.umask(0o022)  # everybody reads it
    create = [*git, "bundle", "create", "--quiet", file, "HEAD", branch, "--"]
    subprocess.run(create, check=True)
    return file, branch


given = os.environ.get("COURSE_REPOSITORY")
source = (given, os.environ.get("COURSE_BRANCH", "main")) if given else bundle()
# The address that pulls the course and opens what a person had open.
asked = {"repo": source[0], "branch": source[1], "targetPath": "torch-compile-course"}
asked["urlpath"] = "lab/workspaces/course"
print(f"https://HUB/hub/user-redirect/git-pull?{urlencode(asked, safe='/')}")

c.JupyterHub.ip = "127.0.0.1"  # --ip=0.0.0.0 opens it to the room
# JupyterHub stops what it started. Where it cannot, because it is killed or has not
# come so far, the system does, and in its first seconds Ctrl-C must end it at once.
signal.signal(signal.SIGINT, signal.SIG_DFL)  # until JupyterHub listens
WITH_HUB = ["setpriv", "--pdeathsig", "TERM"]
c.ConfigurableHTTPProxy.command = [*WITH_HUB, "configurable-http-proxy"]
c.ConfigurableHTTPProxy.log_level = "warn"
c.JupyterHub.log_level = "WARN"
c.JupyterHub.authenticator_class = "pam"
c.PAMAuthenticator.allowed_groups = {GROUP}

c.JupyterHub.spawner_class = "jupyterhub.spawner.LocalProcessSpawner"
c.Spawner.cmd = ["bash", "-c", START, "start"]
# A kernel's output could be heard by everybody on a port; a socket file is private.
c.Spawner.args = ["--KernelManager.transport=ipc"]
c.Spawner.start_timeout = c.Spawner.http_timeout = 180  # when all come at once
c.Spawner.mem_limit = "2G"
c.Spawner.cpu_limit = 2
c.Spawner.environment = {
    "COURSE_REPOSITORY": source[0],
    "COURSE_BRANCH": source[1],
    # Where servers find this Python under its plain name.
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    "NBGITPULLER_PARENTPATH": "..",  # a link pulls into the same folder as START
}

_cores = sorted(map(str, os.sched_getaffinity(0)))
_pairs = itertools.cycle([*zip(_cores[::2], _cores[1::2], strict=False)] or [_cores])


def limit(spawner):
    """Start this person's server below limits that all its processes inherit.

    The memory is of each process, and cannot be raised again. The next two cores in
    turn are the only ones used, and where people outnumber pairs they share them.
    """
    memory = f"--data={spawner.mem_limit}"
    cores = ",".join(next(_pairs))
    limits = ["prlimit", memory, "taskset", "-c", cores]
    spawner.cmd = [*WITH_HUB, *limits, *c.Spawner.cmd]


c.Spawner.pre_spawn_hook = limit
