"""The part ``traffic``: what do kernels and library calls move?"""

from __future__ import annotations

from .helpers import text
from .helpers.session import undisturbed
from .helpers.tensors import tensors
from .helpers.traffic import eager_bytes
from .model import Model
from .report import Part, shown

_FEWER_BYTES = 0.95  # of eager's: with less, kernels move less than eager does


def part(m: Model) -> Part:
    """What do kernels and library calls move?"""
    inputs, kwargs = m.calls[0]
    ours = m.kernels
    usual = eager_bytes(m.eager, *inputs, kwargs=kwargs, backward=m.train)
    wider = _promoted(m)
    counts = {
        "kernels": len(ours.generated),
        "library": len(ours.library),
        "bytes": ours.bytes,
        "eager_bytes": usual.bytes,
        "promotes": bool(wider),
    }
    moved = f"{text.size(ours.bytes)}, eager {text.size(usual.bytes)}"
    says = f"{text.count(len(ours.generated), 'kernel')} and "
    says += f"{text.count(len(ours.library), 'library call')} move {moved}"
    says += ", eager parts not counted" * bool(ours.breaks and ours.kernels)
    fewer = ours.kernels and ours.bytes < _FEWER_BYTES * usual.bytes
    verdict, advice = "good" if fewer and not ours.breaks else "look", ()
    if wider:
        verdict = "bad" if wider == "float64" else "look"  # a loss may be float32
        says = f"the result is {wider}, wider than all inputs and weights; {says}"
        advice = (f"find the constant or the input of {wider}, and give it x.dtype",)
    return Part("traffic", verdict, says, counts, shown(ours), advice)


def _promoted(m: Model) -> str:
    """Return the dtype of a result that is wider than all that went in, or ''."""
    inputs, kwargs = m.calls[0]
    with undisturbed(m.fn):
        results = list(tensors(m.eager(*inputs, **kwargs)))
    given = [t for t in tensors((inputs, kwargs, m.module)) if t.is_floating_point()]
    most = max((t.element_size() for t in given), default=8)
    wider = [t for t in results if t.is_floating_point() and t.element_size() > most]
    return str(wider[0].dtype).removeprefix("torch.") if wider else ""
