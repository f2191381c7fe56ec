"""Where and how a difference is told: of calls alone, of what raises, and is left."""

import time

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

from tests.torch_checkup.test_differences import Fresh, Given, found

pytestmark = pytest.mark.usefixtures("one_thread")
X = torch.linspace(0.5, 2, 3)


class Counts(nn.Module):
    """Counts its calls; compiled, it is wrong where the second is the first."""

    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros(()))

    def forward(self, x, second):
        self.n += 1
        first = (self.n == 1) & torch.compiler.is_compiling()
        return x + first * second


def told(model, *calls, **how):
    torch.compiler.reset()
    judgement = found(Given(model, *calls, **how), "eager")
    return [
        (one.call, one.place, one.field, one.eager, one.compiled, one.note)
        for one in judgement.differences
    ]


def test_what_is_wrong_in_a_call_by_itself_alone_says_so():
    [one] = told(Counts(), (X, torch.zeros(())), (X, torch.ones(())))
    assert one == (2, "output", "values", "0.5 at [0]", "1.5", "called by itself")


def raises_of_two(x, compiled):
    if x[0] < 0:
        raise TypeError("of torch") if compiled else ValueError("of eager")
    return x * 2


def test_another_exception_has_its_call_and_both_messages():
    [one] = told(Fresh(raises_of_two), (X,), (-X,))
    said = "ValueError: of eager", "TypeError: of torch"
    assert one == (2, "the call", "exception", *said, "")


class Keeps(nn.Module):
    """Keeps what *way* makes of its input."""

    def __init__(self, way):
        super().__init__()
        self.way = way

    def forward(self, x):
        self.kept = self.way(x, torch.compiler.is_compiling())
        return x + 1


@pytest.mark.parametrize(
    ("way", "differs"),
    [
        (lambda x, c: None if c else x * 2, ("missing", "float32 (3,)", "nothing")),
        (lambda x, c: x.int() if c else None, ("extra", "nothing", "int32 (3,)")),
        (lambda x, c: x.int() if c else x * 2, ("dtype", "float32", "int32")),
        (lambda x, c: x[:1] * 1 if c else x * 1, ("shape", "(3,)", "(1,)")),
    ],
)
def test_what_a_call_leaves_behind_is_told_with_its_form(way, differs):
    [one] = told(Keeps(way), (X,))
    assert one == (1, "kept after the call", *differs, "")


def test_what_is_kept_may_be_rounded_less_often_than_eager_does():
    def chain(x, exact):
        y = x.float() if exact else x.bfloat16()
        for _ in range(20):
            y = y * 1.01 + 0.1
        return y.bfloat16()

    x = torch.linspace(0, 1, 99)
    assert not torch.equal(chain(x, True), chain(x, False))
    assert told(Keeps(chain), (x,)) == []
    wrong = Keeps(lambda x, c: chain(x, c) + c)
    assert [one[1:3] for one in told(wrong, (x,))] == [
        ("kept after the call", "values")
    ]


class Writes(nn.Module):
    """Writes into what it holds, and is given."""

    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros(2))
        self.scale = nn.Parameter(torch.ones(2))
        self.plain = torch.ones(2)

    def forward(self, x):
        one = 2 if torch.compiler.is_compiling() else 1
        with torch.no_grad():
            for held in (x, self.n, self.scale, self.plain):
                held[0].add_(one)
        return x.sum() * 0 + 1


def test_what_is_written_to_has_the_name_of_what_it_is():
    assert {one[1:4] for one in told(Writes(), (torch.ones(2),))} == {
        (place, "values", "1 at [0]")
        for place in (
            *("buffer n", "parameter scale after the call"),
            *("plain after the call", "input x after the call"),
        )
    }


class Loads(nn.Module):
    """Rewrites old checkpoints by a method of its own, as Mamba does."""

    def __init__(self):
        super().__init__()
        self.register_load_state_dict_pre_hook(self.renames)
        self.body = nn.Linear(3, 3)

    def renames(self, *_):
        pass

    def forward(self, x):
        return self.body(x)


def test_a_method_that_is_a_hook_of_its_module_renames_no_parameter():
    assert told(Loads(), (X,)) == []


def test_a_stride_says_something_of_dimensions_longer_than_1_alone():
    def strided(one, other):
        base = torch.arange(12.0)

        def way(x, compiled):
            strides = other if compiled else one
            return torch.as_strided(base + x[0], (3, 1, 2), strides)

        return told(Fresh(way), (X,))

    assert strided((1, 9, 3), (1, 5, 3)) == []
    assert {one[2] for one in strided((1, 9, 3), (2, 9, 1))} == {"values", "stride"}


@pytest.mark.parametrize(
    ("eager", "compiled", "kinds"),
    [("a", None, ("str", "NoneType")), (1, 1.0, ("int", "float"))],
)
def test_a_result_of_another_kind_is_told_by_its_kind(eager, compiled, kinds):
    [one] = told(Fresh(lambda x, c: (x + 1, compiled if c else eager)), (X,))
    assert one == (1, "output[1]", "type", *kinds, "")


class Opened:
    """What a library returns, of which torch knows the parts, but not their places."""

    def __init__(self, *parts):
        self.parts = parts


pytree.register_pytree_node(Opened, lambda o: (o.parts, None), lambda p, _: Opened(*p))


def test_what_torch_opens_without_names_is_judged_part_by_part():
    [one] = told(Fresh(lambda x, compiled: (x, Opened(x * 2, x * 3 + compiled))), (X,))
    assert one[:3] == (1, "output[1][1]", "values")


class Notes(nn.Module):
    """Notes each call in a list, as *way* has it."""

    def __init__(self, way):
        super().__init__()
        self.way, self.notes = way, []

    def forward(self, x):
        self.way(self.notes)
        return x + 1


def when_eager(notes):
    if not torch.compiler.is_compiling():
        notes.append("seen")


def test_what_is_lost_of_a_list_is_told_unless_it_is_new_each_time():
    for healthy in (lambda n: n.append(len(n)), lambda n: n.append(time.time_ns())):
        assert told(Notes(healthy), (X,)) == []
    [one] = told(Notes(when_eager), (X,))
    assert one == (1, "notes after the call", "values", "['seen']", "as before", "")
