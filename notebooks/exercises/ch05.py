"""Chapter 05: what each exercise asks of an answer, and its hints."""

import itertools
import random
import re

import torch

from helpers import graphs, kernels, output_code
from helpers.exercises import exercise
from helpers.exercises import number, same

aten = torch.ops.aten


@exercise(
    "05.1",
    hints=(
        "One of the four spellings above was recognised. Two things differ here.",
        "Write the products with @, and scale the scores, not the query: a scale of "
        "1 / sqrt(width).",
        "scores = (q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5, then softmax over "
        "the last dimension, then @ v.",
    ),
    passed="Four launches became one, and the matrix of scores is gone from memory.",
)
def recognised(answer):
    torch.manual_seed(0)
    shapes = [((2, 4, 32, 16), 32), ((1, 2, 24, 8), 40), ((3, 1, 8, 64), 8)]
    for (batch, heads, time, width), other in shapes:
        q = torch.randn(batch, heads, time, width)
        k, v = (torch.randn(batch, heads, other, width) for _ in range(2))
        found = answer(q, k, v)
        wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        if type(found) is not torch.Tensor or found.shape != wanted.shape:
            return f"for q of shape {tuple(q.shape)}, the result has another shape"
        if not torch.allclose(found, wanted, atol=1e-4):
            return (
                f"for q of shape {tuple(q.shape)} it computes something else: is the "
                "scale 1 / sqrt(width), for every width?"
            )
    if any("attention" in op for op in graphs(answer, q, k, v).ops):
        return "this calls the library by hand: spell it, so that it is recognised"
    made = kernels(answer, q, k, v)
    if made.generated or len(made.library) != 1:
        return (
            f"right, and not recognised: {len(made.generated)} kernels and "
            f"{len(made.library)} library calls. Come closer to the paper's spelling"
        )
    if "attention" not in made.library[0].name:
        return f"one launch, and it is {made.library[0].name}: no attention"
    return None


def _chain():
    """Return a case that was drawn by lot."""
    ops = random.choices(("relu", "abs", "neg", "sin"), k=8)
    runs = [(op, len(list(run))) for op, run in itertools.groupby(ops)]
    left = [[op] if op in ("relu", "abs") else [op] * many for op, many in runs]
    return ops, (), [*itertools.chain(*left)], ", ".join(ops)


def _graph(ops, returned=()):
    """Return a module of aten calls in a chain; names in *returned* go out too."""
    graph = torch.fx.Graph()
    nodes = [graph.placeholder("x")]
    for op in ops:
        nodes.append(graph.call_function(getattr(aten, op).default, (nodes[-1],)))
    graph.output((nodes[-1], *(nodes[1 + i] for i in returned)))
    return torch.fx.GraphModule(torch.nn.Module(), graph)


_CASES = (
    (("relu", "relu"), (), ["relu"], "relu of relu"),
    (("abs", "abs"), (), ["abs"], "abs of abs"),
    (("relu",) * 4, (), ["relu"], "a chain of four"),
    (("neg", "neg"), (), ["neg", "neg"], "neg of neg, which is not yours to touch"),
    (("sin",) * 3, (), ["sin"] * 3, "sin of sin of sin, which is not yours, either"),
    (("abs", "relu", "abs"), (), ["abs", "relu", "abs"], "abs, relu, abs"),
    (("relu", "sin", "relu"), (), ["relu", "sin", "relu"], "a sine between two relus"),
    (("relu", "relu", "exp"), (), ["relu", "exp"], "a chain that goes on"),
    (("abs", "abs"), (0,), ["abs"], "an inner abs that is also returned"),
)


@exercise(
    "05.2",
    hints=(
        "Walk through graph.nodes. A node can go where its only input is a call of "
        "the same operation.",
        "The outer node goes, not the inner one: node.replace_all_uses_with(inner), "
        "then graph.erase_node(node).",
        "for node in graph.nodes: if node.target and node.args[0].target are relu, "
        "or both abs, replace the uses of node by node.args[0], and erase it.",
    ),
    passed="Inductor ran your pass before lowering, and the kernel became shorter.",
)
def once_is_enough(answer):
    x = torch.linspace(-2, 2, 41)
    for ops, returned, wanted, what in (*_CASES, *(_chain() for _ in range(9))):
        module = _graph(ops, returned)
        before = module(x)
        answer(module.graph)
        module.graph.lint()
        module.recompile()
        calls = [n.target for n in module.graph.nodes if n.op == "call_function"]
        left = [target.__name__.split(".")[0] for target in calls]
        if not all(map(torch.equal, module(x), before)):
            return f"{what}: the graph now computes something else"
        if left != wanted:
            return f"{what}: left are {', '.join(left)}; wanted {', '.join(wanted)}"

    def program(x):
        return torch.relu(torch.relu(x - 1)) * torch.abs(torch.abs(x))

    options = {"post_grad_custom_pre_pass": answer}
    ops = kernels(program, x, options=options).kernels[0].ops
    if sorted(ops) != ["abs", "mul", "relu", "sub"]:
        return f"compiled with your pass, the kernel still does {', '.join(ops)}"
    return None


_ALLOCATED = re.compile(
    r"(\w+) = empty_strided_\w+\(\((.*?)\), \((.*?)\), torch\.(\w+)\)"
)


def _peak(lines):
    held, peak = {}, 0
    for line in lines:
        if found := _ALLOCATED.match(line):
            name, sizes, strides, dtype = found.groups()
            numbers = [
                [int(n) for n in part.split(",") if n.strip()]
                for part in (sizes, strides)
            ]
            last = sum((n - 1) * step for n, step in zip(*numbers, strict=True))
            held[name] = (last + 1) * getattr(torch, dtype).itemsize
        elif found := re.match(r"(\w+) = (\w+); del \2  # reuse", line):
            held[found[1]] = held.pop(found[2])
        elif line.startswith("del "):
            held.pop(line[4:], None)
        peak = max(peak, sum(held.values()))
    return peak


_BY_HAND = {
    "one buffer": ["buf0 = empty_strided_cpu((8, ), (1, ), torch.float32)"],
    "one that is freed before the next": [
        "buf0 = empty_strided_cpu((100, ), (1, ), torch.float32)",
        "cpp_fused_sum_0(arg0_1, buf0)",
        "del buf0",
        "del arg0_1",
        "buf1 = empty_strided_cpu((30, ), (1, ), torch.float32)",
    ],
    "one that is reused": [
        "buf0 = empty_strided_cpu((4, 4), (4, 1), torch.float32)",
        "buf1 = buf0; del buf0  # reuse",
        "cpp_fused_relu_0(buf1)",
        "del buf1",
        "buf2 = empty_strided_cpu((4, 4), (4, 1), torch.float32)",
    ],
    "another dtype": [
        "buf0 = empty_strided_cpu((10, ), (1, ), torch.bfloat16)",
        "buf1 = empty_strided_cpu((10, ), (1, ), torch.int64)",
    ],
    "rows that are padded": [
        "buf0 = empty_strided_cpu((4, 3), (8, 1), torch.float32)",
    ],
}


def _made_up_plans():
    """Yield plans that were drawn by lot, and show themselves."""
    for _ in range(5):
        alive, lines = [], []
        for n in range(9):
            what = random.choice(("new", "new", "reuse", "del")) if alive else "new"
            name = alive.pop(random.randrange(len(alive))) if what != "new" else ""
            if what == "new":
                rows, columns = random.randint(1, 9), random.randint(1, 9)
                step, dtype = columns + random.randint(0, 3), random.choice(_DTYPES)
                sizes = f"({rows}, {columns}), ({step}, 1), torch.{dtype}"
                lines.append(f"buf{n} = empty_strided_cpu({sizes})")
            else:
                reuse = f"buf{n} = {name}; del {name}  # reuse"
                lines.append(reuse if what == "reuse" else f"del {name}")
            alive += [f"buf{n}"] * (what != "del")
        yield "\n".join(("a plan that was made up", *lines, "")), lines


_DTYPES = ("float32", "float64", "bfloat16", "int8")


def _lines(fn, *inputs):
    text = output_code(fn, *inputs).text
    call = re.search(r"def call\(.*?\n(.*?return .*?)\n", text, re.S)[1]
    return [line.strip() for line in call.split("\n")]


def _deep(x, w):
    for _ in range(3):
        x = torch.relu(x @ w)
    return x.sum(-1)


@exercise(
    "05.3",
    hints=(
        "Keep a dict of what is alive: name to bytes. After each line, compare its sum "
        "with the largest so far.",
        "Three kinds of line, three regular expressions. A reuse moves an entry to a "
        "new name, and adds nothing.",
        "Elements are 1 + the sum of (size - 1) * stride; the bytes of one are "
        "getattr(torch, 'float32').itemsize.",
    ),
    passed="You have read a memory plan as the program that it is.",
)
def peak_bytes(answer):
    weight = torch.randn(32, 32)
    for what, lines in [
        *_BY_HAND.items(),
        ("compiled code", _lines(_deep, torch.randn(16, 32), weight)),
        *_made_up_plans(),
    ]:
        wanted, found = _peak(lines), answer(list(lines))
        if same(found, wanted):
            continue
        if what == "one that is reused" and number(found) == 2 * wanted:
            return "a reused buffer is counted twice: its memory only changes its name"
        return f"{what}: the most at one time is {wanted} bytes, and you said {found}"
    return None
