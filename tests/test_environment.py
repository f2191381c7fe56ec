"""The three files that say what the course needs are in step, and so is data/."""

from __future__ import annotations

import hashlib
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
FILES = ("pyproject.toml", "requirements.txt", "environment.yml")
CONDA_NAMES = {"pytorch": "torch", "matplotlib-base": "matplotlib"}
# conda has its own way to choose a build, and triton comes with it or from pip.
NOT_FROM_CONDA = {"uv", "triton"}
ONLY_CONDA = {"python", "pip", "cxx-compiler"}


def read() -> dict[str, str]:
    return {name: (ROOT / name).read_text(encoding="utf-8") for name in FILES}


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


def conda(text: str) -> tuple[dict[str, str], dict[str, Requirement]]:
    """Return conda's packages by pip's names, and what pip adds to them."""
    listed = yaml.safe_load(text)["dependencies"]
    from_pip = next(entry["pip"] for entry in listed if isinstance(entry, dict))
    packages = {}
    for entry in listed:
        if isinstance(entry, str):
            name, rest = re.fullmatch(r"([\w-]+)(.*)", entry).groups()
            packages[CONDA_NAMES.get(name, name)] = rest
    return packages, requirements([line for line in from_pip if line != "-e ."])


def differences(files: dict[str, str]) -> list[str]:
    """Return how the three files disagree; [] when they are in step."""
    wants, pins = declared(files["pyproject.toml"]), pinned(files["requirements.txt"])
    packages, from_pip = conda(files["environment.yml"])
    found = []
    for name, pin in pins.items():
        if [s.operator for s in pin.specifier] != ["=="] or "*" in str(pin):
            found.append(f"requirements.txt does not pin {name} exactly")
    for name, want in wants.items():
        if name not in pins:
            found.append(f"requirements.txt has no {name}")
        elif not want.specifier.contains(str(pins[name].specifier)[2:]):
            found.append(f"the pin of {name} is not in pyproject.toml's range")
        elif str(want.marker) != str(pins[name].marker):
            found.append(f"{name} has another marker in requirements.txt")
        if name not in NOT_FROM_CONDA and name not in packages:
            found.append(f"environment.yml has no {name}")
    for name, rest in packages.items():
        if name == "torch":
            if rest != str(pins["torch"].specifier)[1:]:
                found.append("environment.yml has another torch than requirements.txt")
        elif name not in ONLY_CONDA and name not in wants:
            found.append(f"environment.yml lists {name}, pyproject.toml does not")
        elif name in wants and sorted(rest.split(",")) != sorted(
            str(want) for want in wants[name].specifier
        ):
            found.append(f"environment.yml has another range for {name}")
    if str(from_pip.get("triton")) != str(pins["triton"]):
        found.append("environment.yml has another triton than requirements.txt")
    if set(from_pip) != {"triton"}:
        found.append("environment.yml takes more than triton from pip")
    if "-e ." not in files["environment.yml"]:
        found.append("environment.yml does not install the helpers")
    if not {"cxx-compiler", "python"} <= set(packages):
        found.append("environment.yml lacks the compiler or Python")
    return found


def test_the_files_are_in_step() -> None:
    assert differences(read()) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("requirements.txt", "torch==2.13.0", "torch==2.10.0", "pin of torch is not"),
        ("requirements.txt", "torch==2.13.0", "torch==2.14.0", "another torch"),
        ("requirements.txt", "torch==2.13.0", "torch>=2.13.0", "not pin torch"),
        ("requirements.txt", "nbval==0.11.0", "nbval==0.11.*", "not pin nbval"),
        ("requirements.txt", "triton==3.7.1", "triton==3.8.0", "another triton"),
        ("requirements.txt", "numpy==", "numbpy==", "has no numpy"),
        ("requirements.txt", "; sys_platform == 'linux'", "", "another marker"),
        ("pyproject.toml", "jupyterlab>=4.4,<5", "jupyterlab>=4.4,<6", "range for j"),
        ("pyproject.toml", '"numpy>=2"', '"numpy>=3"', "pin of numpy is not"),
        ("pyproject.toml", '"numpy>=2",', "", "yml lists numpy"),
        ("pyproject.toml", '"numpy>=2",', '"numpy>=2", "x>=1",', "yml has no x"),
        ("environment.yml", "pytorch=2.13.0", "pytorch=2.12.0", "another torch"),
        ("environment.yml", "triton==3.7.1", "triton==3.6.0", "another triton"),
        ("environment.yml", "  - numpy>=2\n", "", "has no numpy"),
        ("environment.yml", "numpy>=2", "numpy>=2.1", "another range for numpy"),
        ("environment.yml", "  - cxx-compiler\n", "", "lacks the compiler"),
        ("environment.yml", "      - -e .\n", "", "not install the helpers"),
        ("environment.yml", "- -e .", "- -e .\n      - pandas==3", "more than triton"),
    ],
)
def test_a_drift_is_seen(file: str, old: str, new: str, said: str) -> None:
    files = read()
    assert old in files[file]
    files[file] = files[file].replace(old, new)
    assert any(said in difference for difference in differences(files))


def unpinned(pins: dict[str, Requirement]) -> set[str]:
    """Return what the pinned packages need here, as installed, without a pin."""
    found = set()
    for name in pins:
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:  # of another platform, or for conda
            continue
        for need in map(Requirement, needs):
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                found.add(canonicalize_name(need.name))
    # torch pins its CUDA packages itself.
    return {n for n in found - set(pins) if not n.startswith(("nvidia-", "cuda-"))}


def test_whatever_a_package_needs_is_pinned_too() -> None:
    pins = pinned(read()["requirements.txt"])
    assert unpinned(pins) == set()
    del pins["traitlets"], pins["sympy"]
    assert unpinned(pins) == {"traitlets", "sympy"}


def test_torch_and_triton_are_a_pair() -> None:
    from helpers import _torch

    wanted, _, _ = _torch.triton_pair()
    pins = pinned(read()["requirements.txt"])
    if metadata.version("torch").split("+")[0] != str(pins["torch"].specifier)[2:]:
        pytest.skip("another torch than the pinned one is installed")
    assert f"{pins['triton'].specifier}.".startswith(f"=={wanted}.")


def test_this_is_a_supported_python() -> None:
    want = tomllib.loads(read()["pyproject.toml"])["project"]["requires-python"]
    assert want == ">=3.11"
    assert sys.version_info >= (3, 11)


def test_the_hooks_use_the_pinned_ruff_and_fetch_no_other_repository() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repository["repo"] for repository in hooks] == ["local"]
    ruff = str(pinned(read()["requirements.txt"])["ruff"])
    assert all(hook["additional_dependencies"] == [ruff] for hook in hooks[0]["hooks"])


# --- data/ ----------------------------------------------------------------------


def listed() -> dict[str, str]:
    """Return the hash that data/README.md states for each file it lists."""
    text = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    return dict(re.findall(r"\| `([\w.]+)`[^|]*\| \d+ \| `([0-9a-f]{64})` \|", text))


def test_every_file_of_data_is_the_one_described() -> None:
    described = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    for path in (ROOT / "data").iterdir():
        if path.is_dir():
            assert f"## {path.name}/" in described
        elif path.name != "README.md":
            assert hashlib.sha256(path.read_bytes()).hexdigest() == listed()[path.name]


def test_alice_is_the_book_and_nothing_else() -> None:
    text = (ROOT / "data" / "alice.txt").read_text(encoding="ascii")
    assert text.startswith(" " * 16 + "ALICE'S ADVENTURES IN WONDERLAND\n")
    assert text.endswith("THE END\n")
    assert len(re.findall(r"CHAPTER [IVX]+\n", text)) == 12
    assert "\r" not in text
    assert not re.search("gutenberg|fulcrum", text, re.IGNORECASE)


def test_alice_has_sentences_of_varied_length() -> None:
    text = (ROOT / "data" / "alice.txt").read_text(encoding="utf-8")
    sentences = re.split(r"(?<=[.!?])['\s]+", " ".join(text.split()))
    lengths = [len(sentence.split()) for sentence in sentences]
    assert len(lengths) > 1000
    assert min(lengths) <= 3
    assert max(lengths) >= 50
    assert len(set(lengths)) >= 30
