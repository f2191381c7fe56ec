"""Let three people share one room: a hub on this machine, and a kernel for each.

    python -m tests.proof hub

Somebody looks for another's files and fills the memory, and the hub is stopped.
Accounts that it makes are removed again. Needs root, Linux,
`python -m uv pip install --group hub`, and the course where every account can read it.
"""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import requests
from jupyter_client import BlockingKernelClient
from nbformat.v4 import output_from_msg

from tests.proof import common
from tests.refresh import ROOT, notebooks

NAMES = ("room-ann", "room-ben", "room-cem")
LESSON = f"lessons/{notebooks()[0].name}"
PATIENCE = 600  # seconds
OUTPUTS = ("stream", "display_data", "execute_result", "error")
FULL = "import torch\nfull = [torch.ones(1 << 26) for _ in range(32)]  # 8 GiB"
# Without a socket of its own, a kernel's output could be heard on a port.
LISTEN = """\
import zmq
ear = zmq.Context().socket(zmq.SUB)
ear.subscribe(b"")
for port in {}:
    ear.connect(f"tcp://127.0.0.1:{{port}}")
"""
HEAR = "print('something' if ear.poll(3000) else 'nothing')"
FETCH = "import urllib.request\nprint(urllib.request.urlopen({!r}).read())"


class Person:
    """Somebody who signed in with a name and a password, and acts through the hub."""

    def __init__(self, port: int, name: str, password: str) -> None:
        self.name, self.hub = name, f"http://127.0.0.1:{port}"
        web = requests.Session()
        web.get(f"{self.hub}/hub/login")
        form = {"username": name, "password": password, "_xsrf": _cookie(web)}
        web.post(f"{self.hub}/hub/login", form)
        made = web.post(
            f"{self.hub}/hub/api/users/{name}/tokens",
            params={"_xsrf": _cookie(web)},
            headers={"Referer": f"{self.hub}/hub/"},
        )
        made.raise_for_status()
        self.pass_on = {"Authorization": f"token {made.json()['token']}"}

    def ask(
        self, how: str, path: str, whose: str = "", /, **json: Any
    ) -> requests.Response:
        """Send a request to *path* of the hub, or of the server of *whose*."""
        start = f"/user/{whose}/api" if whose else "/hub/api"
        address = f"{self.hub}{start}/{path}"
        return requests.request(
            how, address, headers=self.pass_on, json=json or None, timeout=PATIENCE
        )

    def start(self) -> None:
        self.ask("POST", f"users/{self.name}/server")  # signing in may have done it
        _until(lambda: self._server().get("ready"))

    def _server(self) -> dict[str, Any]:
        return self.ask("GET", f"users/{self.name}").json()["servers"].get("", {})

    @contextmanager
    def kernel(self) -> Iterator[Callable[[str], list]]:
        """Start a kernel; yield what runs a cell and returns its outputs.

        Cells are sent to its socket, which root may open.
        """
        wanted = {"path": LESSON, "name": "", "type": "notebook"}
        wanted["kernel"] = {"name": "python3"}
        session = self.ask("POST", "sessions", self.name, **wanted).json()
        number = session["kernel"]["id"]
        runtime = f"/home/{self.name}/.local/share/jupyter/runtime"
        client = BlockingKernelClient(connection_file=f"{runtime}/kernel-{number}.json")
        client.load_connection_file()
        client.start_channels()

        def run(code: str) -> list:
            shown: list[dict] = []
            hook = shown.append
            client.execute_interactive(code, timeout=PATIENCE, output_hook=hook)
            return [output_from_msg(m) for m in shown if m["msg_type"] in OUTPUTS]

        try:
            client.wait_for_ready(PATIENCE)
            yield run
        finally:
            client.stop_channels()
            self.ask("DELETE", f"kernels/{number}", self.name)

    def says(self, cell: str) -> str:
        """Run a cell in a fresh kernel; return the text of its outputs."""
        with self.kernel() as run:
            return _text(run(cell))

    def ports(self) -> list[int]:
        """Return the ports on which this person's processes listen."""
        found = [c for p in processes(self.name) for c in p.net_connections("tcp")]
        return [c.laddr.port for c in found if c.status == psutil.CONN_LISTEN]


def _text(outputs: list) -> str:
    """Return what a reader sees of the outputs of a cell, without the traceback."""
    texts = [output.get("text") or output.get("evalue", "") for output in outputs]
    return "\n".join(texts).strip()


def _until(so: Callable[[], Any]) -> None:
    """Wait until it is so; TimeoutError when that takes too long."""
    end = time.monotonic() + PATIENCE
    while not so():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.2)


def processes(name: str) -> list[psutil.Process]:
    """Return what runs below an account."""
    every = psutil.process_iter(["username"])
    return [process for process in every if process.info["username"] == name]


def _cookie(web: requests.Session) -> str:
    return next(c.value for c in web.cookies if c.name == "_xsrf" and c.path == "/hub/")


# --- what is tried -------------------------------------------------------------------


def privacy(ann: Person, ben: Person, _: Person) -> Iterator[tuple[str, str, bool]]:
    """Let *ann* look for what is *ben*'s."""
    answer = ann.ask("GET", f"contents/{LESSON}", ben.name)
    said = f"{answer.status_code} {answer.reason}"
    yield "ask the hub for another's lesson", said, answer.status_code == 403
    said = ann.says(f"open('/home/{ben.name}/torch-compile-course/{LESSON}')")
    yield "open another's lesson in a cell", said, "Permission denied" in said
    own = f"http://127.0.0.1:{ben.ports()[0]}/user/{ben.name}/api/contents/{LESSON}"
    said = ann.says(FETCH.format(own))
    yield "ask another's server at its own port", said, "403" in said
    with ann.kernel() as run, ben.kernel() as other:
        run(LISTEN.format(ben.ports()))
        other("import time\nfor _ in range(9): print('private'); time.sleep(0.1)")
        heard = _text(run(HEAR))
    yield "listen at all ports of another", f"heard: {heard}", heard == "nothing"


def limits(ann: Person, ben: Person, _: Person) -> Iterator[tuple[str, str, bool]]:
    """Let *ann* fill the memory, while *ben* goes on."""
    with ann.kernel() as run, ben.kernel() as other:
        run("from course import start\nstart('00')")
        said = run(FULL)[-1].traceback[-1]  # below the error itself
        yield "fill the memory", said, "What to do: memory ran out" in said
        kept = _text(run("print(len(torch.ones(9)))"))
        theirs = _text(other("print(6 * 7)"))
        said = f"the same kernel: {kept}; another's: {theirs}"
        yield "go on after that", said, (kept, theirs) == ("9", "42")


# --- the hub -------------------------------------------------------------------------


@contextmanager
def hub(port: int, passwords: dict[str, str]) -> Iterator[subprocess.Popen]:
    """Start the hub, and fill in the *passwords* of new accounts."""
    pipes = {"stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    command = [sys.executable, "-m", "tools.hub", *NAMES, f"--port={port}"]
    process = subprocess.Popen(command, start_new_session=True, **pipes)
    try:
        for line in process.stdout:
            if new := re.fullmatch(r"(room-\w+): (\w+)\n", line):
                passwords[new[1]] = new[2]
            if line.startswith("Ctrl-C"):
                break
        else:
            sys.exit("hub: it did not start")
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(120)


def stopped(port: int, process: subprocess.Popen) -> tuple[str, bool]:
    """Press Ctrl-C; return what is left of the hub in the end."""
    process.send_signal(signal.SIGINT)
    process.wait(120)
    for _ in range(60):  # after a kill, the servers end by themselves
        left = [p for name in NAMES for p in processes(name)]
        busy = [each for each in range(port, port + 3) if _open(each)]
        if not left and not busy:
            break
        time.sleep(0.5)
    return f"{len(left)} processes and {len(busy)} ports are left", not left + busy


def _open(port: int) -> bool:
    with socket.socket() as trial:
        return trial.connect_ex(("127.0.0.1", port)) == 0


def everything(port: int) -> Iterator[tuple[str, str, bool]]:
    """Yield what was tried, what happened, and whether that is as it should be."""
    passwords: dict[str, str] = {}
    with hub(port, passwords) as process:
        people = everybody(port, passwords)
        for one in people:
            one.start()
        yield from privacy(*people)
        yield from limits(*people)
        yield "Ctrl-C", *stopped(port, process)
    with hub(port, passwords) as process:
        for one in everybody(port, passwords):
            one.ask("POST", f"users/{one.name}/server")
        yield "Ctrl-C while servers start", *stopped(port, process)
    with hub(port, passwords) as process:
        for one in everybody(port, passwords):
            one.start()
        process.kill()
        yield "kill the hub", *stopped(port, process)


def everybody(port: int, passwords: dict[str, str]) -> list[Person]:
    """Wait for the hub, and sign all people in."""
    _until(
        lambda: _open(port) and requests.get(f"http://127.0.0.1:{port}/hub/login").ok
    )
    return [Person(port, name, passwords[name]) for name in NAMES]


def main(arguments: list[str]) -> int:
    """Try everything and record; return 1 when something is not as it should be."""
    port = 8700
    while any(map(_open, range(port, port + 3))):
        port += 3
    rows = []
    try:
        for tried, said, good in everything(port):
            row = {"what was tried": tried, "what happened": said[:300]}
            rows.append(row | {"as it should be": "yes" if good else "no"})
            print(*rows[-1].values(), sep=" | ", flush=True)
            common.record("hub", rows)
    finally:
        for name in NAMES:  # JupyterHub has ended what they ran
            subprocess.run(["userdel", "--remove", name], capture_output=True)
    return int(any(row["as it should be"] == "no" for row in rows))
