"""The three files that say what the course needs are in step, and so is data/."""

import hashlib
import re
import tomllib
from importlib import metadata

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from helpers import _torch
from tests.refresh import ROOT

FILES = {
    name: (ROOT / name).read_text(encoding="utf-8")
    for name in ("pyproject.toml", "requirements.txt", "environment.yml")
}


def requirements(lines):
    found = [Requirement(line) for line in lines]
    return {canonicalize_name(one.name): one for one in found}


def declared(text):
    """Return what pyproject.toml asks for, with all of its extras."""
    project = tomllib.loads(text)["project"]
    extras = project["optional-dependencies"].values()
    return requirements([*project["dependencies"], *(r for e in extras for r in e)])


def pinned(text):
    lines = [line.split("#")[0].strip() for line in text.splitlines()]
    return requirements([line for line in lines if line])


def test_the_files_are_in_step():
    wants, pins = declared(FILES["pyproject.toml"]), pinned(FILES["requirements.txt"])
    found = []
    for name, want in (pins | wants).items():
        pin = pins.get(name)
        exact = re.fullmatch(r"==([\w.]+)", str(pin.specifier)) if pin else None
        if not exact or not want.specifier.contains(exact[1]):
            found.append(f"the pin of {name} is none, or out of its range")
        # The newest pin may be for one Python only.
        elif str(pin.marker) not in (str(want.marker), 'python_full_version >= "3.12"'):
            found.append(f"{name} has another marker in requirements.txt")
    assert found == []


def test_conda_brings_the_same_torch():
    pins = pinned(FILES["requirements.txt"])
    *conda, pip = yaml.safe_load(FILES["environment.yml"])["dependencies"]
    assert f"pytorch{pins['torch'].specifier}".replace("==", "=") in conda
    assert str(pins["triton"]).replace('"', "'") in pip["pip"]


def test_whatever_a_package_needs_is_pinned_too():
    pins = pinned(FILES["requirements.txt"])
    installed = {canonicalize_name(d.name): d for d in metadata.distributions()}
    needed = set()
    for name in pins.keys() & installed.keys():  # not those of another platform
        for need in map(Requirement, installed[name].requires or []):
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                needed.add(canonicalize_name(need.name))
    # torch pins its CUDA packages itself.
    assert {
        n for n in needed - {*pins} if not n.startswith(("nvidia-", "cuda-"))
    } == set()


def test_torch_and_triton_are_a_pair():
    pins = pinned(FILES["requirements.txt"])
    torch = ".".join(str(pins["torch"].specifier)[2:].split(".")[:2])
    assert f"{pins['triton'].specifier}.".startswith(f"=={_torch._TRITON[torch]}.")


def test_every_package_is_installed_with_the_helpers():
    listed = tomllib.loads(FILES["pyproject.toml"])["tool"]["setuptools"]["packages"]
    folders = {path.parent for path in (ROOT / "helpers").rglob("*.py")}
    names = {".".join(folder.relative_to(ROOT).parts) for folder in folders}
    assert {*listed} == {"torch_checkup", *(f"torch_checkup.{name}" for name in names)}


def test_every_file_of_data_is_the_one_described():
    text = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"\| `([\w.]+)`[^|]*\| \d+ \| `([0-9a-f]{64})` \|", text)
    ours = re.findall(r"^## ([\w.]+)", text, re.MULTILINE)
    for path in (ROOT / "data").iterdir():
        if path.name not in (*ours, "README.md"):  # taken over: it stays as it was
            assert (path.name, hashlib.sha256(path.read_bytes()).hexdigest()) in rows
