"""Which lines of a generated kernel compute which node of the FX graph.

    Flow(nodes).follow(lines, arguments)    the lines of each node, kernel after kernel

Inductor prints a kernel as assignments, so graph and kernel are flows of values.  A
line computes a node when it prints that operation, and every value it reads is known
to be an argument of the node, back to the tensors that the kernel loads.  What cannot
be followed so has no line: nothing is guessed from order or from names.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from helpers.gpu.kernel_lines import TENSOR, Line, Node

# --- how Inductor prints an operation -----------------------------------------------

_UNARY = "sin cos tan exp exp2 expm1 log log2 log1p abs floor ceil erf tanh sqrt rsqrt"
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "gt": ">", "lt": "<"}
_INFIX |= {"ge": ">=", "le": "<=", "eq": "==", "ne": "!="}
_ANY_ORDER = {"add", "mul", "relu", "maximum", "minimum", "clamp_min", "clamp_max"}
# @ is a value or a number.
_PRINTED = {
    **{op: rf"[\w.:]+\b{op}(?:_rn)?\(@\)|@\.{op}\(\)" for op in _UNARY.split()},
    **{op: rf"@ {re.escape(sign)} @" for op, sign in _INFIX.items()},
    "rsqrt": r"libdevice\.rsqrt\(@\)|@\.rsqrt\(\)|@ / std::sqrt\(@\)",
    "neg": r"-@|@\.neg\(\)",
    "reciprocal": r"@ / @|@\.reciprocal\(\)",
    "sigmoid": r"tl\.sigmoid\(@\)|\(@\) ?/ ?\(\(@\) \+ "
    r"(?:@\.neg\(\)\.exp\(\)|std::exp\(-@\))\)",
    "maximum": r"triton_helpers\.maximum\(@, @\)|(?:at::vec::maximum|at::vec::clamp_min"
    r"|max_propagate_nan|std::max)\(@, \(?@\)?\)",
    "minimum": r"triton_helpers\.minimum\(@, @\)|(?:at::vec::minimum|at::vec::clamp_max"
    r"|min_propagate_nan|std::min)\(@, \(?@\)?\)",
    "where": r"tl\.where\(@, @, @\)|::blendv\(@, @, @\.template cast\(\)\)|@ \? @ : @",
    "convert_element_type": r"@\.to\(tl\.\w+\)|(?:at::vec|c10)::convert\(@\)",
}
_PRINTED |= {"relu": _PRINTED["maximum"], "clamp_min": _PRINTED["maximum"]}
_PRINTED |= {"clamp_max": _PRINTED["minimum"], "pow": _PRINTED["mul"]}
# A reduction: of a block, of what was summed up so far, and in C++.
_REDUCED = {
    "sum": (r"tl\.sum\(@, @\)", r"@ \+ @", r"@ \+ .*|(?:sum_masked|cascade_sum)_.*"),
    "amax": (r"triton_helpers\.max2\(@, @\)", _PRINTED["maximum"], r".*max.*\(.*\)"),
    "amin": (r"triton_helpers\.min2\(@, @\)", _PRINTED["minimum"], r".*min.*\(.*\)"),
}
# The same values in another form.
_SAME = {"convert_element_type", "view", "reshape", "_unsafe_view", "squeeze", "clone"}
_SAME |= {"unsqueeze", "expand", "permute", "alias", "detach", "select", "slice"}
_PASSED_ON = re.compile(
    r"@|\(@\)|tl\.broadcast_to\(@, \[.*\]\)|tl\.where\([^@]*, @, (?:@|[^@]*)\)"
    r"|@\.to\(tl\.\w+\)|tl\.reshape\(@, .*\)|(?:at::vec|c10)::convert\(@\)"
    r"|at::vec::VectorizedN?\(@\)"
)
_STORED = re.compile(r"(?:\w+\.)?store\((.*)\)")
_VALUE = re.compile(
    r"\b(?:masked)?_?tmp\w*\b|(?<![\w.\])])\d+\.?\d*(?:e-?\d+)?(?![\w.])"
)
_RUNNING = re.compile(r"(?:masked_)?(tmp_acc\d+)\w*")  # all parts of one C++ reduction


def _bare(text: str) -> str:
    """Return an expression without what gives it only its type or shape."""
    while text != (text := re.sub(r"(?<=\w)<[\w:, ]*>", "", text)):
        pass  # templates within templates
    text = re.sub(r"decltype\(\w+\)", "", text)
    text = re.sub(r"(?<=\))\[:, None\](?:\.to\(tl\.float32\))?$", "", text)
    full = re.fullmatch(r"tl\.full\(\[.*\], (.*), tl\.\w+\)", text)
    text = full[1] if full else text
    wrapped = re.fullmatch(
        r"(?:float|double|bool|static_cast|at::vec::VecMask|)\((.*)\)", text
    )
    whole = wrapped and "(" not in wrapped[1].replace("()", "")
    return wrapped[1] if whole else text


# --- following values ---------------------------------------------------------------


@dataclass
class Flow:
    """Follows values through the kernels of one graph.

    *tensors* holds the nodes whose value each buffer of the generated module has.
    """

    nodes: tuple[Node, ...]
    tensors: dict[str, set[str]] = field(default_factory=dict)

    def follow(
        self, lines: Iterable[Line], arguments: Mapping[str, str]
    ) -> dict[str, list[Line]]:
        """Return the lines of each node, and of ``load X`` and ``store X``.

        *arguments* is the buffer behind each parameter of the kernel.
        """
        self._values: dict[str, set[str] | float] = {}
        self._ways: dict[str, list[Line]] = {}
        self._running: dict[str, str] = {}  # which node a C++ variable sums up for
        found: dict[str, list[Line]] = defaultdict(list)
        for line in lines:
            for key in self._one(line, arguments):
                found[key] += self._taken(key, line)
        return {key: list(dict.fromkeys(each)) for key, each in found.items()}

    def _taken(self, key: str, line: Line) -> list[Line]:
        ops = {node.name: node.op for node in self.nodes}
        before = self._before if ops.get(key) in _REDUCED else []
        return [*before, line]

    def _one(self, line: Line, arguments: Mapping[str, str]) -> list[str]:
        """Note what a line's target is; return the nodes the line computes."""
        self._before: list[Line] = []
        tensor = TENSOR.search(line.text)
        buffer = tensor and arguments.get(tensor[0], tensor[0])
        stored = _STORED.match(line.text.removeprefix("tl."))
        if buffer and stored:
            written = [self._of(name) for name in _VALUE.findall(line.text)]
            held = next((value for value in written if isinstance(value, set)), set())
            self.tensors[buffer] = set(held)
            return [f"store {name}" for name in sorted(held)]
        target = self._name(line.target)
        if buffer:
            self._values[target] = set(self.tensors.get(buffer, ()))
            return [f"load {name}" for name in sorted(self._values[target])]
        text = _bare(line.text.replace("float('-inf')", "1e999"))
        words = _VALUE.findall(text)
        shape, values = _VALUE.sub("@", text), [self._of(word) for word in words]
        if not line.new:
            return self._reduced_in_cpp(target, shape, values)
        if shape == "@" and isinstance(values[0], float):
            self._values[target] = values[0]
            self._running.pop(target, None)
            return []
        self._before = [way for word in words for way in self._ways.get(word, ())]
        goes_on = bool(words) and words[0].startswith("_tmp")
        made = {n.name for n in self.nodes if self._prints(n, shape, values, goes_on)}
        self._values[target] = self._closed(made)
        if _PASSED_ON.fullmatch(shape):
            passed = [value for value in values if isinstance(value, set)]
            kept = passed[0] if passed else values[0]
            if isinstance(kept, set):
                self._values[target] |= kept
                self._ways[target] = [*self._before, line]
            else:
                self._values[target] = kept
        self._running.pop(target, None)
        return sorted(made)

    def _reduced_in_cpp(self, target: str, shape: str, values: list) -> list[str]:
        name = self._running.get(target)
        for node in self.nodes:
            given = [value for value in values if isinstance(value, set)]
            fits = node.op in _REDUCED and re.fullmatch(_REDUCED[node.op][2], shape)
            if not name and fits and any(node.arguments[0] in each for each in given):
                name = self._running[target] = node.name
        self._values[target] = self._closed({name} if name else set())
        return [name] if name else []

    def _name(self, word: str) -> str:
        running = _RUNNING.fullmatch(word)
        return running[1] if running else word

    def _of(self, word: str) -> set[str] | float:
        number = re.fullmatch(r"[\d.e-]+", word)
        return float(word) if number else self._values.get(self._name(word), set())

    def _closed(self, names: set[str]) -> set[str]:
        """Return the nodes *names*, and those that are the same in another form."""
        same = {n.name for n in self.nodes if n.op in _SAME and names & {*n.arguments}}
        return set(names) if same <= names else self._closed(names | same)

    def _prints(
        self, node: Node, shape: str, values: list[set[str] | float], goes_on: bool
    ) -> bool:
        """Return whether an expression is this node's operation on its arguments."""
        wanted = list(node.arguments)
        if node.op in _REDUCED and re.fullmatch(_REDUCED[node.op][goes_on], shape):
            given = [value for value in values if isinstance(value, set)]
            return bool(given) and all({wanted[0], node.name} & each for each in given)
        if not re.fullmatch(_PRINTED.get(node.op, "$^"), shape):
            return False
        if node.op == "pow":
            wanted = [wanted[0], wanted[0]] if wanted[1:] == [2] else [None]
        elif node.op == "relu":
            wanted = [0.0, *wanted]
        elif node.op in ("reciprocal", "rsqrt") and " / " in shape:
            wanted = [1.0, *wanted]
        elif node.op == "sigmoid" and "/" in shape:
            wanted = [1.0, 1.0, *wanted]
        elif "blendv" in shape:
            wanted.reverse()
        elif node.op == "convert_element_type":
            wanted = wanted[:1]
        orders = [wanted, wanted[::-1]] if node.op in _ANY_ORDER else [wanted]
        return any(_equal(order, values) for order in orders)


def _equal(wanted: list[str | float], values: list[set[str] | float]) -> bool:
    def same(want: str | float, value: set[str] | float) -> bool:
        return want in value if isinstance(value, set) else want == value

    return len(wanted) == len(values) and all(map(same, wanted, values))
