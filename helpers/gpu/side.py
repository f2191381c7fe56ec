"""The same program side by side: your code, the FX graph, C++, Triton and PTX."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

from helpers import _torch
from helpers.codegen import Code, output_code, program_line
from helpers.errors import InputError
from helpers.gpu import gpus, kernel_lines, machine_code
from helpers.gpu.align import Flow
from helpers.gpu.dump import dump_triton
from helpers.gpu.dumped import Dump, DumpedKernel
from helpers.gpu.kernel_lines import Line, Node
from helpers.gpu.staged import Stages, Step


def stages(
    fn: Callable[..., Any],
    *inputs: Any,
    gpu: str = "h100",
    kernel: str | int = 0,
) -> Stages:
    """Return ``fn(*inputs)`` at every stage, with the same operation lined up.

    The FX graph is what Inductor made the kernel from; the C++ is for this machine's
    CPU, the Triton kernel and its PTX for *gpu*.  *kernel* is its number among the
    generated kernels, or a part of its name.  Source: stack traces of the FX nodes,
    the flow of values through each kernel (``helpers.gpu.align``), and the line numbers
    in the PTX.  An operation without a line has none: it was fused away, or moves
    nothing.

    Raises InputError and ``pretend.Missing`` as `dump_triton` does, and InputError
    where there is no such kernel.
    """
    dump = dump_triton(fn, *inputs, gpu=gpu)
    chosen = _choose(dump, kernel)
    graph = next(g for g in dump._captured if g.index == chosen.graph)
    parts = kernel_lines.fragments(graph.source)
    nodes = tuple(
        {node.name: node for part in parts.values() for node in part}.values()
    )
    names = [node.name for node in graph.aten.graph.nodes if node.op == "placeholder"]

    flow = Flow(nodes, {name: {name} for name in names})
    for each in dump.kernels:  # those before it fill the buffers that it reads
        if each.graph == chosen.graph:
            lines = kernel_lines.triton_lines(each.source)
            found = flow.follow(lines, _arguments(each))
            if each is chosen:
                break
    with torch.no_grad():
        code = output_code(fn, *inputs, backward=False)
    shown = parts.get(chosen.name, ())
    cpp, cpp_found = _cpp(code, chosen.graph, nodes, names, [n.name for n in shown])
    ptx, places = _ptx(chosen)

    traces = {n.name: program_line(n) for n in graph.aten.graph.nodes}
    program, first, numbers = _program(fn, [traces.get(n.name, "") for n in shown])
    steps = []
    for key, op, at in _rows(shown, found):
        triton = _numbers(found.get(key, ()))
        ptx_at = sorted({p for n in triton for p in places.get(n, ())})
        where = () if at is None else (at + 1,)
        line = numbers[at] if at is not None else ()
        c = _numbers(cpp_found.get(key, ()))
        steps.append(Step(op, line, where, c, triton, tuple(ptx_at)))
    fx = "".join(f"{node.text}\n" for node in shown)
    others = tuple(k.name for k in dump.kernels if k is not chosen)
    texts = (first, program, fx, cpp, chosen.source, ptx)
    return Stages(chosen.gpu, chosen.name, others, *texts, tuple(steps))


def _choose(dump: Dump, kernel: str | int) -> DumpedKernel:
    if isinstance(kernel, int):
        found = dump.kernels[kernel : kernel + 1] if kernel >= 0 else ()
    else:
        found = [each for each in dump.kernels if kernel in each.name]
    if not found:
        names = ", ".join(f"{i}: {k.name}" for i, k in enumerate(dump.kernels))
        raise InputError(f"no kernel {kernel!r}: there are {names or 'none'}")
    return found[0]


def _rows(
    nodes: Sequence[Node], found: dict[str, list[Line]]
) -> list[tuple[str, str, int | None]]:
    """Return key, name and place in the graph of each row: loads, nodes, stores."""
    at = {node.name: i for i, node in enumerate(nodes)}
    rows = [(key, key, None) for key in found if key.startswith("load ")]
    rows += [(node.name, node.op, i) for i, node in enumerate(nodes)]
    return rows + [
        (key, key, None)
        for key in found
        if key.startswith("store ") and key.removeprefix("store ") in at
    ]


def _numbers(lines: Sequence[Line]) -> tuple[int, ...]:
    return tuple(sorted({n for x in lines for n in range(x.first, x.last + 1)}))


def _arguments(kernel: DumpedKernel) -> dict[str, str]:
    parameters = re.findall(r"^def \w+\((.*?)\):$", kernel.source, re.M | re.S)[-1]
    names = [each.split(":")[0].strip() for each in parameters.split(",")]
    return dict(zip(names, kernel.arguments, strict=False))


def _cpp(
    code: Code,
    graph: int,
    nodes: tuple[Node, ...],
    names: Sequence[str],
    wanted: Sequence[str],
) -> tuple[str, dict[str, list[Line]]]:
    """Return the C++ kernels that compute *wanted*, and the lines of each node."""
    flow, shown, found = Flow(nodes, {n: {n} for n in names}), "", {}
    if graph >= len(code.sections):
        return "", {}
    section = Code((code.sections[graph],))
    for name in section.names:
        source = section.kernel(name)
        call = re.search(rf"^ +{name}\((.*)\)$", section.text, re.M)
        parameters = re.findall(r"\b\w*ptr\d+\b|\bks\d+\b", source.split("{")[0])
        given = dict(zip(parameters, call[1].split(", ") if call else (), strict=False))
        lines = flow.follow(kernel_lines.cpp_lines(source), given)
        if set(lines) & set(wanted):
            start = len(shown.splitlines())
            shown += f"// {name}\n{source}\n"
            for key, each in lines.items():
                moved = [_moved(line, start + 1) for line in each]
                found[key] = [*found.get(key, ()), *moved]
    return shown, found


def _moved(line: Line, by: int) -> Line:
    return Line(line.first + by, line.last + by, line.target, line.text)


def _ptx(kernel: DumpedKernel) -> tuple[str, dict[int, list[int]]]:
    """Return the PTX of the text that is shown, and its lines by line of Triton."""
    start = kernel.generated.rindex("@triton.jit\n")
    last = kernel.source.rindex("@triton.jit\n")  # what it calls is in the head
    module = kernel.generated[:start] + kernel.source[last:]
    found = gpus.find(kernel.gpu)
    made = machine_code.compile_kernel(module, found, kernel.chosen, lines=True)
    before = kernel.generated[:start].count("\n") - kernel.source[:last].count("\n")
    return kernel_lines.located(made.ptx, before + 1)


def _program(
    fn: Callable[..., Any], traces: Sequence[str]
) -> tuple[str, int, list[tuple[int, ...]]]:
    """Return the text of *fn*, its first line's number, and the line of each trace.

    Lines of other functions, which *fn* calls, come after it.
    """
    fn = _torch.unwrap(fn)
    fn = fn.forward if isinstance(fn, torch.nn.Module) else fn
    try:
        lines, first = inspect.getsourcelines(fn)
        lines = [line.rstrip() for line in lines]
    except (OSError, TypeError):
        lines, first = [], 1
    numbers: list[tuple[int, ...]] = []
    for trace in traces:
        at, _, text = trace.partition(": ")
        inside = at.isdigit() and 0 <= int(at) - first < len(lines)
        if inside and text in lines[int(at) - first]:
            numbers.append((int(at) - first + 1,))
        elif trace:
            more = f"line {at}: {text}"
            lines += [] if more in lines else [more]
            numbers.append((lines.index(more) + 1,))
        else:
            numbers.append(())
    return "\n".join(lines) + "\n", first, numbers
