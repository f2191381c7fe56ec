"""JupyterHub for a room on one Linux machine; `python -m tools.hub` starts it.

Each person is an account of the machine, so the system itself keeps their files
apart. JupyterHub's own mem_limit and cpu_limit bind nothing when servers are plain
processes, so `limit` binds them.
"""

import itertools
import os
import signal

c = get_config()  # noqa: F821

GROUP = "torch-compile-course"  # the accounts that may come in
START = """\
cd
gitpuller "$COURSE_REPOSITORY" "$COURSE_BRANCH" torch-compile-course
cd torch-compile-course || exit
export TORCHINDUCTOR_CACHE_DIR=$HOME/.cache/inductor
exec python -m tools.lab "$@"
"""

c.JupyterHub.ip = "127.0.0.1"  # --ip=0.0.0.0 opens it to the room
c.JupyterHub.port = port = int(os.environ["COURSE_PORT"])
c.JupyterHub.hub_port = port + 1
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{port + 2}"
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
    "COURSE_REPOSITORY": os.environ["COURSE_REPOSITORY"],
    "COURSE_BRANCH": os.environ["COURSE_BRANCH"],
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
