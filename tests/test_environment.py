"""The three files that say what the course needs are in step, and so is data/."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
FILES = {
    name: (ROOT / name).read_text(encoding="utf-8")
    for name in ("pyproject.toml", "requirements.txt", "environment.yml")
}
CONDA_NAMES = {
    "pytorch": "torch",
    "matplotlib-base": "matplotlib",
    "msgspec-python": "msgspec",
}
# conda has its own way to choose a build, and triton comes with it or from pip.
NOT_FROM_CONDA = {"uv", "triton"}
ONLY_CONDA = {"python", "pip", "cxx-compiler"}


def requirements(lines: list[str]) -> dict[str, Requirement]:
    found = [Requirement(line) for line in lines]
    return {canonicalize_name(one.name): one for one in found}


def declared(text: str) -> dict[str, Requirement]:
    """Return what pyproject.toml asks for, with the extras that `make setup` brings."""
    project = tomllib.loads(text)["project"]
    optional = project["optional-dependencies"]
    extras = [needs for name, needs in optional.items() if name != "models"]
    return requirements([*project["dependencies"], *(r for e in extras for r in e)])


def pinned(text: str) -> dict[str, Requirement]:
    lines = [line.split("#")[0].strip() for line in text.splitlines()]
    return requirements([line for line in lines if line])


def conda(text: str) -> tuple[dict[str, str], list[str]]:
    """Return conda's packages by pip's names with their ranges, and pip's lines."""
    listed = yaml.safe_load(text)["dependencies"]
    [from_pip] = (entry["pip"] for entry in listed if isinstance(entry, dict))
    packages = {}
    for entry in listed:
        if isinstance(entry, str):
            name, rest = re.fullmatch(r"([\w-]+)(.*)", entry).groups()
            packages[CONDA_NAMES.get(name, name)] = rest
    return packages, from_pip


def differences(files: dict[str, str]) -> Iterator[str]:
    """Yield how the three files disagree."""
    wants, pins = declared(files["pyproject.toml"]), pinned(files["requirements.txt"])
    packages, from_pip = conda(files["environment.yml"])
    for name, pin in pins.items():
        if [s.operator for s in pin.specifier] != ["=="] or "*" in str(pin):
            yield f"requirements.txt does not pin {name} exactly"
    for name, want in wants.items():
        if name not in pins:
            yield f"requirements.txt has no {name}"
        elif not want.specifier.contains(str(pins[name].specifier)[2:]):
            yield f"the pin of {name} is not in pyproject.toml's range"
        elif str(want.marker) != str(pins[name].marker):
            yield f"{name} has another marker in requirements.txt"
    conda_wants = {name: want.specifier for name, want in wants.items()}
    conda_wants = {n: w for n, w in conda_wants.items() if n not in NOT_FROM_CONDA}
    for name in {*conda_wants, *packages} - ONLY_CONDA:
        if name not in packages:
            yield f"environment.yml has no {name}"
        elif name not in conda_wants:
            yield f"environment.yml lists {name}, pyproject.toml does not"
        elif name == "torch":
            if packages[name] != str(pins[name].specifier)[1:]:
                yield "environment.yml has another torch than requirements.txt"
        elif {*packages[name].split(",")} != {*map(str, conda_wants[name])}:
            yield f"environment.yml has another range for {name}"
    if from_pip != [str(pins["triton"]).replace('"', "'"), "-e ."]:
        yield "environment.yml takes from pip what is not triton as pinned and -e ."


def test_the_files_are_in_step() -> None:
    assert list(differences(FILES)) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("requirements.txt", "torch==2.13.0", "torch==2.10.0", "pin of torch is not"),
        ("requirements.txt", "torch==2.13.0", "torch==2.14.0", "another torch"),
        ("requirements.txt", "nbval==0.11.0", "nbval==0.11.*", "not pin nbval"),
        ("requirements.txt", "triton==3.7.1", "triton==3.8.0", "not triton as pinned"),
        ("requirements.txt", "numpy==", "numbpy==", "has no numpy"),
        ("requirements.txt", "; sys_platform == 'linux'", "", "another marker"),
        ("pyproject.toml", "jupyterlab>=4.4,<5", "jupyterlab>=4.4,<6", "range for j"),
        ("pyproject.toml", '"numpy>=2",', "", "yml lists numpy"),
        ("pyproject.toml", '"numpy>=2",', '"numpy>=2", "x>=1",', "yml has no x"),
        ("environment.yml", "pytorch=2.13.0", "pytorch=2.12.0", "another torch"),
        ("environment.yml", "numpy>=2", "numpy>=2.1", "another range for numpy"),
        ("environment.yml", "      - -e .\n", "", "-e ."),
    ],
)
def test_a_drift_is_seen(file: str, old: str, new: str, message: str) -> None:
    assert old in FILES[file]
    files = FILES | {file: FILES[file].replace(old, new)}
    assert any(message in difference for difference in differences(files))


def unpinned(pins: dict[str, Requirement]) -> set[str]:
    """Return what the pinned packages need here, as installed, without a pin."""
    needed = set()
    for name in pins:
        try:
            requires = map(Requirement, metadata.requires(name) or [])
        except metadata.PackageNotFoundError:  # of another platform, or for conda
            continue
        needed |= {
            canonicalize_name(need.name)
            for need in requires
            if need.marker is None or need.marker.evaluate({"extra": ""})
        }
    # torch pins its CUDA packages itself.
    return {n for n in needed - set(pins) if not n.startswith(("nvidia-", "cuda-"))}


def test_whatever_a_package_needs_is_pinned_too() -> None:
    pins = pinned(FILES["requirements.txt"])
    assert unpinned(pins) == set()
    del pins["traitlets"], pins["sympy"]
    assert unpinned(pins) == {"traitlets", "sympy"}


def test_torch_and_triton_are_a_pair() -> None:
    from helpers import _torch

    wanted, _, _ = _torch.triton_pair()
    pins = pinned(FILES["requirements.txt"])
    if metadata.version("torch").split("+")[0] != str(pins["torch"].specifier)[2:]:
        pytest.skip("another torch than the pinned one is installed")
    assert f"{pins['triton'].specifier}.".startswith(f"=={wanted}.")


def test_the_hooks_use_the_pinned_ruff_and_fetch_no_other_repository() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repository["repo"] for repository in hooks] == ["local"]
    ruff = str(pinned(FILES["requirements.txt"])["ruff"])
    assert all(hook["additional_dependencies"] == [ruff] for hook in hooks[0]["hooks"])


def test_every_package_is_installed_with_the_helpers() -> None:
    listed = tomllib.loads(FILES["pyproject.toml"])["tool"]["setuptools"]["packages"]
    folders = {path.parent for path in (ROOT / "helpers").rglob("*.py")}
    names = {".".join(folder.relative_to(ROOT).parts) for folder in folders}
    assert {*listed} == names


# --- data/ ------------------------------------------------------------------------


def test_every_file_of_data_is_the_one_described() -> None:
    text = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"\| `([\w.]+)`[^|]*\| \d+ \| `([0-9a-f]{64})` \|", text)
    for path in (ROOT / "data").iterdir():
        if path.is_dir():
            assert f"## {path.name}/" in text
        elif path.name != "README.md":
            assert (path.name, hashlib.sha256(path.read_bytes()).hexdigest()) in rows


def test_alice_is_the_book_and_has_sentences_of_varied_length() -> None:
    text = (ROOT / "data" / "alice.txt").read_text(encoding="ascii")
    assert text.startswith(" " * 16 + "ALICE'S ADVENTURES IN WONDERLAND\n")
    assert text.endswith("THE END\n")
    assert not re.search("gutenberg|fulcrum", text, re.IGNORECASE)
    sentences = re.split(r"(?<=[.!?])['\s]+", " ".join(text.split()))
    lengths = {len(sentence.split()) for sentence in sentences}
    assert min(lengths) <= 3 and max(lengths) >= 50 and len(lengths) >= 30
