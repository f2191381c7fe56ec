"""Run notebooks as a reader does: JupyterLab, in a headless browser, Run All.

    python tests/browser.py screenshots                       # the whole course
    python tests/browser.py screenshots notebooks/01_*.ipynb

Needs `pip install playwright` and a Chromium (CHROMIUM names it when it is not found).
It works on a copy, so the stored notebooks stay as they are.  Fails on an error in an
output, an error in the browser's console, a request that failed, or a cell that did
not run.  Saves a picture of each whole notebook into the folder named first.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import BrowserContext, Error, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.refresh import course_environment, notebooks  # noqa: E402

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    *("--no-sandbox", "--no-first-run", "--disable-gpu", "--disable-quic"),
    *("--disable-background-networking", "--disable-component-update"),
    "--disable-sync",
)
SECONDS_PER_NOTEBOOK = 300
TALLEST = 16_000  # pixels; Chromium cannot draw a taller picture
SETTINGS = {
    # All cells in the page, so that the picture shows the whole notebook.
    "notebook-extension/tracker": {"windowingMode": "none"},
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}
# The toolbar shows an idle kernel before there is one; a run begun then may hang.
READY = """() => {
  const kernel = window.jupyterapp?.shell?.currentWidget
      ?.sessionContext?.session?.kernel;
  return kernel?.connectionStatus === 'connected' && kernel?.status === 'idle';
}"""
RUN = "async () => { await jupyterapp.commands.execute('notebook:run-all-cells'); }"
CELLS = "() => jupyterapp.shell.currentWidget.content.model.toJSON().cells"
TIDY = """() => {
  const notebook = jupyterapp.shell.currentWidget.content;
  jupyterapp.shell.collapseLeft();
  notebook.activeCellIndex = 0;
  notebook.node.querySelector('.jp-WindowedPanel-outer').scrollTop = 0;
}"""
HEIGHT = """() => Math.ceil(150 +
  document.querySelector('.jp-Notebook .jp-WindowedPanel-viewport').scrollHeight)"""


def find_browser() -> str:
    """Return the path of a Chromium; SystemExit says how to get one."""
    named = [os.environ.get("CHROMIUM", ""), *BROWSERS]
    found = next((shutil.which(name) for name in named if shutil.which(name)), None)
    if found is None:
        sys.exit("browser: no Chromium here: install it (Debian: apt install chromium)")
    return found


@contextmanager
def lab(folder: Path, extra: Path) -> Iterator[str]:
    """Serve *folder* with JupyterLab; yield its address with a place for a path."""
    for name, values in SETTINGS.items():
        plugin, _, file = name.partition("/")
        path = extra / "settings" / "@jupyterlab" / plugin
        path.mkdir(parents=True, exist_ok=True)
        settings = path / f"{file}.jupyterlab-settings"
        settings.write_text(json.dumps(values), encoding="utf-8")
    token, port = secrets.token_hex(16), _free_port()
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--ip=127.0.0.1"]
    command += [f"--port={port}", f"--IdentityProvider.token={token}", "--allow-root"]
    command += ["--LabApp.expose_app_in_browser=True", "--LabApp.news_url=''"]
    command += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    command += ["--ServerApp.port_retries=0", f"--ServerApp.root_dir={folder}"]
    home = {
        "JUPYTERLAB_SETTINGS_DIR": str(extra / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(extra / "workspaces"),
        "JUPYTER_CONFIG_DIR": str(extra / "config"),
    }
    with (extra / "server.log").open("w") as log:
        server = subprocess.Popen(
            command, env=os.environ | home, cwd=folder, stdout=log, stderr=log
        )
    try:
        _wait_for(server, f"http://127.0.0.1:{port}/api?token={token}", extra)
        yield f"http://127.0.0.1:{port}/lab/tree/{{}}?reset&token={token}"
    finally:
        server.terminate()  # shuts the kernels down too
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _wait_for(server: subprocess.Popen, address: str, extra: Path) -> None:
    for _ in range(120):
        if server.poll() is not None:
            break
        try:
            urllib.request.urlopen(address, timeout=5).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
        else:
            return
    sys.exit(
        "browser: JupyterLab did not start:\n" + (extra / "server.log").read_text()
    )


def visit(page: Page, address: str, picture: Path) -> list[str]:
    """Open one notebook, run all of it, keep its picture; return what went wrong."""
    wrong: list[str] = []
    page.on(
        "console", lambda m: m.type == "error" and wrong.append(f"console: {m.text}")
    )
    page.on("pageerror", lambda error: wrong.append(f"page: {error}"))
    page.on("requestfailed", lambda r: wrong.append(f"request: {r.url.split('?')[0]}"))
    page.goto(address)
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
    page.wait_for_function(READY, timeout=60_000)
    page.evaluate(RUN)
    wrong += [problem for cell in page.evaluate(CELLS) for problem in _problems(cell)]
    page.set_viewport_size(
        {"width": 1280, "height": min(page.evaluate(HEIGHT), TALLEST)}
    )
    page.evaluate(TIDY)
    page.wait_for_timeout(1000)  # pictures settle
    page.screenshot(path=picture)
    return wrong


def _problems(cell: dict) -> list[str]:
    if cell["cell_type"] != "code":
        return []
    start = "".join(cell["source"])[:50]
    if cell["execution_count"] is None:
        return [f"did not run: {start!r}"]
    if "raises-exception" in cell["metadata"].get("tags", []):
        return []
    errors = [o for o in cell["outputs"] if o["output_type"] == "error"]
    return [f"{e['ename']}: {e['evalue'][:200]} in {start!r}" for e in errors]


def run(chosen: list[Path], pictures: Path) -> int:
    """Visit each notebook in a copy of its folder; return how many went wrong."""
    pictures.mkdir(parents=True, exist_ok=True)
    failed = 0
    with tempfile.TemporaryDirectory() as home, course_environment():
        copy, extra = Path(home) / "course", Path(home) / "jupyter"
        extra.mkdir()
        for name in {ROOT / "notebooks", ROOT / "data", *(n.parent for n in chosen)}:
            if name.exists():
                shutil.copytree(name, copy / name.name, dirs_exist_ok=True)
        with lab(copy, extra) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch_persistent_context(
                Path(home) / "profile",
                executable_path=find_browser(),
                headless=True,
                args=list(FLAGS),
            )
            for notebook in chosen:
                failed += _one(browser, address, notebook, pictures)
            browser.close()
    return failed


def _one(browser: BrowserContext, address: str, notebook: Path, pictures: Path) -> bool:
    began = time.perf_counter()
    page = browser.new_page()
    page.set_default_timeout(SECONDS_PER_NOTEBOOK * 1000)
    where = address.format(f"{notebook.parent.name}/{notebook.name}")
    try:
        wrong = visit(page, where, pictures / f"{notebook.stem}.png")
    except Error as error:
        wrong = [f"browser: {error.message}"]
    page.close()
    took = time.perf_counter() - began
    print(f"{notebook.name}: {'FAILED' if wrong else 'ok'}, {took:.0f} s")
    print(*(f"  {line}" for line in wrong), sep="\n", end="\n" if wrong else "")
    return bool(wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pictures", type=Path, help="folder for the pictures")
    parser.add_argument("notebook", nargs="*", type=Path, default=notebooks())
    chosen = parser.parse_args()
    paths = [path.resolve() for path in chosen.notebook]
    if not paths:
        sys.exit("browser: there are no notebooks")
    return 1 if run(paths, chosen.pictures.resolve()) else 0


if __name__ == "__main__":
    sys.exit(main())
