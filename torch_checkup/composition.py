"""composes(): does compiled training agree with what people put around it?

Each situation runs in a process of its own (`composition_child`): one that
hangs, or kills its process, does not take the others with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .guest import ADVICE, FRUGAL, folders_of, target_of
from .helpers import children, text
from .helpers.results import Measured, TableResult
from .helpers.text import Table, mark

SITUATIONS = {  # each by its name, and what is done in it
    "autocast": "forward under torch.autocast, in bfloat16",
    "checkpoint": "forward under torch.utils.checkpoint",
    "accumulation": "two backward passes into the same gradients",
    "retain_graph": "backward(retain_graph=True), and backward once more",
    "scheduler": "three steps of a compiled SGD, its learning rate halved each time",
    "late hook": "a forward hook on an inner layer, added after the first call",
    "gradient hook": "a hook on a parameter's gradient, added after the first call",
    "state_dict": "state_dicts of the compiled model and a plain one, exchanged",
    "worker process": "the compiled model, sent to a process that calls it",
    "two ranks": "DistributedDataParallel over two processes, with gloo",
}
WAYS = {  # situations that are tried in two ways; both must agree
    "state_dict": ("compiled into plain", "plain into compiled"),
    "two ranks": ("compile around DDP", "DDP around compiled"),
}
VERDICTS = {  # from good to bad: of two ways, the worse one counts
    "agrees": "as near to float64 as eager is",
    "eager raises": "eager raises, and compiled may too",
    "not decided": "it could not be judged",
    "not done": "it had to be ended",
    "raises": "compiled raises, where eager does not",
    "differs": "no error, and not eager's numbers",
}

OF_EVERY_MODEL = {  # what torch does by design, and what to do about it
    "late hook": "late hook: add hooks before the first call, or set "
    "torch._dynamo.config.skip_nnmodule_hook_guards = False",
    "retain_graph": "retain_graph: one backward of the sum of the losses, or "
    "torch._functorch.config.donated_buffer = False with a new TORCHINDUCTOR_CACHE_DIR",
    "state_dict": "state_dict: save that of the model itself, or compile it in place "
    "by model.compile()",
}


@dataclass(frozen=True)
class Situation:
    """One thing around a training step, and how compiled code bore it.

    *verdict* is one of `VERDICTS`.  *says* is torch's message, or how far both are from
    float64.  *known* names the entry of ``explain_error`` that knows the message.
    """

    name: str
    verdict: str
    says: str
    known: str = ""


@dataclass(frozen=True, repr=False)
class Composition(Measured, TableResult):
    """What ``composes`` found: a situation for each that was asked."""

    target: str
    situations: tuple[Situation, ...]
    interrupted: bool = False

    def __getitem__(self, name: str) -> Situation:
        for situation in self.situations:
            if situation.name == name:
                return situation
        raise KeyError(f"no {name!r}: there are {[s.name for s in self.situations]}")

    def named(self, verdict: str, own: bool = False) -> list[str]:
        """Return the names of the situations with this *verdict*.

        With *own*, without those in which every compiled model has it
        (`OF_EVERY_MODEL`).
        """
        names = [s.name for s in self.situations if s.verdict == verdict]
        return [name for name in names if not own or name not in OF_EVERY_MODEL]

    @property
    def ok(self) -> bool:
        """Whether nothing differs in silence or raises that is this model's own."""
        return not self.named("differs", own=True) + self.named("raises", own=True)

    def table(self) -> Table:
        """Return a row for each situation, measured values marked."""
        rows = []
        for one in self.situations:
            says = one.says
            if one.known:
                says += f" (explained as: {one.known})"
            rows.append((one.name, SITUATIONS[one.name], one.verdict, says))
        return Table.of(["around the step", "what is done", "compiled", "found"], rows)

    def _last(self) -> str:
        return "interrupted: these were done" if self.interrupted else ""


def composes(
    make: str | Callable[[], tuple],
    *,
    only: Sequence[str] = (),
    timeout: float = 300.0,
    memory: int | None = None,
) -> Composition:
    """Return how a compiled training step gets on with what people put around it.

    *make* is what ``checkup`` takes: ``"module:function"``, ``"file.py:function"`` or a
    function of a module, which returns a model and its inputs, and may return a loss as
    a third value; else a weighted sum of what the model returns is trained.  *only*
    names some of `SITUATIONS`.  Each runs eagerly, compiled, and eagerly in float64,
    which decides whether compiled values and gradients are right.  What takes more than
    *timeout* seconds, or *memory* bytes (by default three quarters of what is free), is
    ended, and says so.  Ctrl-C keeps what is done.

    Raises InputError when *make* cannot be found, or gives nothing that can be trained.
    """
    target = target_of(make)
    names = children.chosen(only, SITUATIONS)
    order = {"target": target, "train": True}
    done: dict[str, Situation] = {}
    interrupted = False
    with text.progress("composes", len(names), "situations") as bar:
        try:
            child = f"{__package__}.composition_child"
            for name, found in children.parts(
                *(child, order, names, timeout, memory),
                *(folders_of(target), ADVICE, FRUGAL),
            ):
                if problem := found.get("problem"):
                    done[name] = Situation(name, "not done", problem)
                elif name:
                    done[name] = Situation(**found)
                bar.update(len(done) - bar.n)
        except KeyboardInterrupt:
            interrupted = True
    shown = Path(target).name  # without its folder
    return Composition(shown, tuple(done[n] for n in names if n in done), interrupted)


def off(errors: tuple[float, float] | None) -> str:
    """Return in words how far eager and compiled are from float64, marked."""
    if errors is None:
        return "no float64 to hold it against"
    eager, compiled = errors
    return f"off from float64: eager {mark(f'{eager:.2g}')}, " + (
        f"compiled {mark(f'{compiled:.2g}')}"
    )
