"""checkup() names what is wrong with a model, and nothing that is not.

One model of each kind here; `python -m tests.test_checkup` looks at all fifty.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from helpers import checkup, load
from helpers.__main__ import main
from helpers.checkups import QUESTIONS, Checkup, Part
from helpers.errors import InputError
from helpers.results import Machine
from helpers.text import Table
from tests import sick_models
from tests.refresh import ROOT

# The part that names each ill, and the verdict that it then has.
NAMED = {
    "break": ("capture", "look"),
    "counter": ("recompiles", "bad"),
    "hook": ("silent", "bad"),
    "promotes": ("traffic", "bad"),
    "cache": ("start", "bad"),
    "differs": ("matches", "bad"),
}
QUICK = ("matches", "capture", "recompiles", "silent", "traffic")


def target(name: str) -> str:
    return f"{ROOT / 'tests' / 'sick_models.py'}:{name}"


def looked_at(name: str, whole: bool = False) -> Checkup:
    """Return a checkup of the parts that judge the model *name*, or of all."""
    kind = name.partition("_")[0]
    parts = [NAMED[kind][0]] if kind in NAMED and not whole else QUICK
    return checkup(target(name), only=[*parts, "start"] if whole else parts, budget=0.2)


def misjudged(name: str, found: Checkup) -> list[str]:
    """Return where *found* says what is not so, or not what is."""
    kind = name.partition("_")[0]
    if kind == "healthy":
        return [f"{p.name}: {p.says}" for p in found.parts if p.verdict == "bad"]
    part, verdict = NAMED[kind]
    missed = f"{part} is {found[part].verdict}: {found[part].says}"
    return [] if found[part].verdict in (verdict, "bad") else [missed]


@pytest.mark.parametrize("name", ["healthy_4", *(f"{kind}_2" for kind in NAMED)])
def test_an_ill_is_named_and_health_is_not_doubted(name: str) -> None:
    found = looked_at(name)
    assert not misjudged(name, found), str(found)
    assert not [p for p in found.parts if p.verdict == "failed"], str(found)


def written(folder: Path, body: str, name: str = "mine.py") -> str:
    path = folder / name
    path.write_text("import torch\n" + textwrap.dedent(body))
    return f"{path}:make"


# --- health that looks ill ---------------------------------------------------------

NOISE = """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)
        self.conv, self.norm = torch.nn.Conv2d(1, 8, 3), torch.nn.BatchNorm2d(8)
        self.drop = torch.nn.Dropout({drop})
    def forward(self, x):
        scores = self.drop(torch.softmax(self.query(x) @ self.key(x).mT, -1))
        images = self.norm(self.conv((scores @ x)[:, None]))
        return images.relu().mean((2, 3)) @ torch.ones(8, 4)
def make():
    torch.manual_seed(0)
    return Model(), (torch.randn(16, 32, 16),), lambda out: out.square().sum()
"""
CACHE = """
class Cache:
    def __init__(self): self.keys, self.length = None, torch.tensor(0)
    def update(self, new):
        if self.keys is None: self.keys = torch.zeros(16, new.shape[1])
        at = torch.arange(len(new)) + self.length
        self.length.add_(len(new))
        return self.keys.index_copy_(0, at, new)
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.key = torch.nn.Linear(4, 4)
    def forward(self, x, cache):
        return cache.update(self.key(x))
def make():
    sizes = (5, 11)
    return Model(), [dict(x=torch.randn(n, 4), cache=Cache()) for n in sizes]
"""


@pytest.mark.parametrize("drop", [0.0, 0.1])
def test_a_gradient_that_is_only_rounding_is_no_other_answer(
    drop: float, tmp_path: Path
) -> None:
    mine = written(tmp_path, NOISE.format(drop=drop))
    found = checkup(mine, only=["matches", "silent"])
    assert found["matches"].verdict == "good", str(found) + str(found["matches"])
    assert found["silent"].verdict == "good", str(found)


def test_a_cache_among_the_inputs_is_put_back(tmp_path: Path) -> None:
    parts = ["matches", "silent", "traffic", "speed"]
    found = checkup(written(tmp_path, CACHE), only=parts, budget=0.1)
    assert found["matches"].verdict == "good", str(found)
    assert not [p for p in found.parts if p.verdict == "failed"], str(found)


def test_what_raises_for_later_inputs_alone_is_another_answer(tmp_path: Path) -> None:
    body = """
        def f(x):
            if torch.compiler.is_compiling() and x.dim() > 1:
                return x.view(7)
            return x * 2
        def make():
            return f, [(torch.rand(3),), (torch.rand(3, 3),)]
        """
    matches = checkup(written(tmp_path, body), only=["matches"])["matches"]
    assert matches.verdict == "bad" and "fail for inputs 2" in matches.says
    assert "RAISES" in matches.evidence[0]
    assert matches.evidence[1].startswith("inputs 2: the compiled function raised")
    assert "bisector" in matches.advice[0]


def test_code_for_varying_sizes_that_fails_has_a_cure(tmp_path: Path) -> None:
    body = """
        @torch.library.custom_op("checkup_test::double", mutates_args=())
        def double(x: torch.Tensor) -> torch.Tensor:
            return x * 2
        @double.register_fake
        def _(x):
            if isinstance(x.shape[0], torch.SymInt):
                raise RuntimeError("a size must be a number")
            return torch.empty_like(x)
        def make():
            return lambda x: double(x), [(torch.rand(3),), (torch.rand(4),)]
        """
    matches = checkup(written(tmp_path, body), only=["matches"])["matches"]
    assert matches.verdict == "bad" and "fail for inputs 2" in matches.says
    assert matches.advice[0].startswith("torch.compile(model, dynamic=False)")


# --- bad input: said, and nothing stays -------------------------------------------

LOCKED = """
import threading
class Batch:
    def __init__(self):
        self.x, self.lock = torch.rand(3), threading.Lock()
def f(batch): return batch.x * 2
def make(): return f, (Batch(),)
"""
DIES = """
import os
def f(x): os.kill(os.getpid(), 11)
def make(): return f, (torch.rand(3),)
"""
EXITS = """
import sys
def make():
    print("which weights?", file=sys.stderr)
    sys.exit(3)
"""
ON = "def make(): return torch.nn.Linear(2, 2, device={0!r}), (torch.rand(3, {1}),)"
BROKEN = {
    "no such function": ("def made(): ...", "has no attribute 'make'"),
    "no inputs": ("def make(): return torch.nn.Linear(2, 2)", "must return"),
    "raises": ("def make(): raise OSError('no weights here')", "no weights here"),
    "no such module": ("import nothing_like_it\ndef make(): ...", "nothing_like_it"),
    "dies": ("import os\ndef make(): os.kill(os.getpid(), 9)", "SIGKILL"),
    "exits": (EXITS, "with status 3; it said: which weights"),
    "wrong inputs": (ON.format("cpu", 5), "call it eagerly: RuntimeError: mat1"),
    "without numbers": (ON.format("meta", 2), "call it eagerly: .* meta"),
    "on a GPU": ("def f(x): return x.to('cuda')\n"
                 "def make(): return f, (torch.rand(3),)", "call it eagerly: .*CUDA"),
    "cannot be copied": (LOCKED, "inputs cannot be copied: cannot pickle"),
    "dies when called": (DIES, "call it eagerly: its process died of SIGSEGV"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "said"), BROKEN.values(), ids=BROKEN)
def test_what_cannot_be_made_is_an_error(
    body: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    command = ["checkup", written(tmp_path, body), "--only", "capture"]
    assert main(command) == 2
    printed = capsys.readouterr()
    assert re.search(said, printed.err) and printed.out == ""
    assert children() == []


def children() -> list[str]:
    """Return the processes of a checkup that are left."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return [line for line in found if "checkup" in line or "sleep" in line]


def test_a_function_that_no_process_can_import_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be imported"):
        checkup(lambda: None)
    with pytest.raises(InputError, match="there is no part luck"):
        checkup(target("healthy_0"), only=["luck"])


WITHIN = 5.0  # seconds after its limit until a process has ended; below 1 is usual
ALIVE = """
import subprocess, sys, time
def make():
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(99)"])
    held, begin = [], time.monotonic()
    while time.monotonic() - begin < 60:
        {work}
        with open({file!r}, "a") as file:
            print(time.monotonic() - begin, len(held), file=file)
"""


@pytest.mark.parametrize(
    ("work", "limits", "said"),
    [
        ("time.sleep(0.1)", {"timeout": 8}, "not done after 8 seconds"),
        ("held.append(torch.ones(2**25))", {"memory": 2**31}, "more than 2 GiB"),
    ],
)
def test_a_process_ends_soon_after_its_limit(
    work: str, limits: dict[str, int], said: str, tmp_path: Path
) -> None:
    file = tmp_path / "alive"
    body = ALIVE.format(work=work, file=str(file))
    with pytest.raises(InputError, match=said):
        checkup(written(tmp_path, body), only=["capture"], **limits)
    lived = [[*map(float, line.split())] for line in file.read_text().splitlines()]
    *_, (end, _) = lived
    too_much = min((s for s, held in lived if held * 2**27 > 2**31), default=end)
    assert end - limits.get("timeout", too_much) < WITHIN
    assert children() == []


def test_a_part_that_sleeps_is_ended_and_the_others_go_on(tmp_path: Path) -> None:
    body = """
        import time
        def slow(x):
            if x.dtype == torch.float64 and not torch.compiler.is_compiling():
                time.sleep(600)
            return x * 2
        def make():
            return slow, (torch.rand(3),)
        """
    found = checkup(written(tmp_path, body), only=["matches", "capture"], timeout=20)
    matches = found["matches"]
    assert matches.verdict == "failed" and "20 seconds" in matches.says
    assert found["capture"].counts == {"graphs": 1, "breaks": 0}
    assert children() == []


def test_what_prints_and_changes_the_process_stays_in_its_process(
    tmp_path: Path, capfd: pytest.CaptureFixture
) -> None:
    body = """
        import os
        def make():
            print("hello")
            os.environ["SECRET"] = "s3cret"
            torch.set_default_dtype(torch.float64)
            return torch.nn.Linear(2, 2), [{"input": torch.rand(3, 2)}]
        """
    found = checkup(written(tmp_path, body), only=["matches", "capture"])
    assert found.ok and "hello" not in capfd.readouterr().out
    assert "s3cret" not in found.to_json() and "s3cret" not in found.to_html()
    assert str(tmp_path) not in found.to_json()


# --- what is trained ----------------------------------------------------------------


def test_a_gradient_that_a_normalization_hides_is_compared(tmp_path: Path) -> None:
    """The plain sum of what LayerNorm returns has no gradient before it."""
    body = """
        class Doubled(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()
            @staticmethod
            def backward(ctx, gradient):
                return gradient * (2 if torch.compiler.is_compiling() else 1)
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer, self.norm = torch.nn.Linear(8, 8), torch.nn.LayerNorm(8)
            def forward(self, x):
                return self.norm(Doubled.apply(self.layer(x)))
        def make():
            return Model(), (torch.randn(4, 8),)
        """
    found = checkup(written(tmp_path, body), only=["matches"], train=True)
    assert found["matches"].verdict == "bad", str(found)
    assert "what is returned agrees" in found["matches"].evidence[1]


# --- the result, the gate, the page ------------------------------------------------


def result(**counts: object) -> Checkup:
    by_part = {}
    from helpers.checkups import NAMES

    for name, value in counts.items():
        by_part.setdefault(NAMES.get(name, "recompiles"), {})[name] = value
    parts = [Part(name, "good", "as it should be", c) for name, c in by_part.items()]
    return Checkup("mine:make", tuple(parts), False, 1, machine=Machine.here())


def test_requirements_are_held_against_the_counts() -> None:
    found = result(graphs=2, breaks=1, recompiles=3, matches=False)
    assert found.unmet("graphs=2, breaks<2, recompiles<=3, recompiles>=3") == []
    unmet = found.unmet("graphs=1,breaks=0,recompiles<3,matches,kernels<5")
    assert [line.split(":")[0] for line in unmet] == [
        *("graphs=1", "breaks=0", "recompiles<3", "matches", "kernels<5")
    ]
    assert unmet[-1].endswith("its part was not run")
    with pytest.raises(AssertionError, match="breaks=0: it is 1"):
        found.require("breaks=0")
    with pytest.raises(InputError, match="'speed=fast' is no requirement"):
        found.require("speed=fast")


def test_what_became_worse_is_named() -> None:
    before = result(breaks=0, kernels=2, matches=True, speedup_low=1.8, guards="a")
    same = result(breaks=0, kernels=2, matches=True, speedup_high=1.9, guards="a")
    assert same.worse_than(before) == []
    now = result(breaks=1, kernels=3, matches=False, speedup_high=1.2, guards="b")
    assert [line.split(":")[0] for line in now.worse_than(before)] == [
        *("breaks", "kernels", "matches", "guards that fail", "speedup")
    ]
    assert before.worse_than(now) == ["guards that fail: 'b' before, 'a' now"]


def test_the_page_stands_alone_and_hides_nothing() -> None:
    part = Part("speed", "bad", "⟨slower⟩ <b>", {}, ("x < y",), ("write & run",))
    page = Checkup("mine:make", (part,), False, 1, True).to_html()
    assert "&lt;b&gt;" in page and "x &lt; y" in page and "write &amp; run" in page
    assert "<script" not in page and "http" not in page and "Interrupted" in page


def test_a_page_lines_up_measured_columns() -> None:
    table = Table.of(["built", "ships"], [["⟨11⟩", "⟨1 B⟩"], ["⟨0⟩", "⟨856 B⟩"]])
    part = Part("start", "good", "", {}, (f"{table}\nwarm: a second",))
    page = re.sub("<[^>]+>", "", Checkup("mine:make", (part,), False, 1).to_html())
    assert "11     1 B\n0      856 B\nwarm: a second" in page


def test_the_page_names_each_lesson_as_it_is_called() -> None:
    parts = [Part(name, "good", "") for name in QUESTIONS]
    page = Checkup("mine:make", tuple(parts), False, 1).to_html()
    named = re.findall(r"<p>Lesson (\d\d · [^(]+) \((notebooks/[^)]+)\)</p>", page)
    assert len(named) == len(parts)
    for title, file in named:
        heading = json.loads((ROOT / file).read_text("utf-8"))["cells"][0]["source"][0]
        assert heading.strip() == f"# {title}"


def test_it_comes_back_from_json(tmp_path: Path) -> None:
    found = result(breaks=1, matches=True)
    path = found.save(tmp_path / "found.json")
    assert load(path) == found


def test_the_command_has_a_report_a_gate_and_a_status(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "helpers", "checkup", target("break_0")]
    command += ["--only", "capture", "--to", str(tmp_path / "report.html")]
    command += ["--to", str(tmp_path / "now.json"), "--require", "breaks=0"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1, done.stderr
    assert "required: breaks=0: it is" in done.stdout
    assert "Is everything captured?" in (tmp_path / "report.html").read_text()
    assert json.loads((tmp_path / "now.json").read_text())["kind"] == "Checkup"
    wrong = [*command[:4], "no/such.py:make"]
    done = subprocess.run(wrong, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2 and "there is no file" in done.stderr


if __name__ == "__main__":
    names = [
        *sick_models.HEALTHY,
        *(n for some in sick_models.SICK.values() for n in some),
    ]
    wrong = 0
    for name in names:
        for line in (lines := misjudged(name, looked_at(name, True))):
            print(name, line, flush=True)
        wrong += bool(lines)
    print(f"{len(names) - wrong} of {len(names)} judged as they are")
    sys.exit(bool(wrong))
