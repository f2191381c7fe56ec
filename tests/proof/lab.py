"""JupyterLab, served for a folder, and a Chromium to look at it."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    *("--no-sandbox", "--no-first-run", "--disable-gpu", "--disable-quic"),
    *("--disable-background-networking", "--disable-component-update"),
    "--disable-sync",
)
SETTINGS = {
    # All cells in the page, so that the picture shows the whole notebook.
    "notebook-extension/tracker": {"windowingMode": "none"},
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}


def find_browser() -> str | None:
    """Return the path of a Chromium, or None where there is none."""
    named = [os.environ.get("CHROMIUM", ""), *BROWSERS]
    return next((shutil.which(name) for name in named if shutil.which(name)), None)


@contextmanager
def chromium(profile: Path) -> Iterator[BrowserContext]:
    """Open a browser without a window; SystemExit says what is missing."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sys.exit("browser: playwright is not installed: pip install playwright")
    found = find_browser()
    if found is None:
        sys.exit("browser: no Chromium here: install it (Debian: apt install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch_persistent_context(
            profile, executable_path=found, headless=True, args=list(FLAGS)
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def lab(folder: Path, extra: Path) -> Iterator[str]:
    """Serve *folder* with JupyterLab; yield its address with a place for a path.

    What the server keeps and says goes to *extra*.
    """
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
    for _ in range(240):
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
