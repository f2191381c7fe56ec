"""torch's reasons in words: what removes a graph break, which guard failed."""

from __future__ import annotations

import re

# What usually removes a graph break.  The first row decides whose pattern is in
# torch's reason (r) or in the source line (s).
_FIXES = (
    ("r", r"_dynamo\.graph_break\(\)", "remove the call that asks for the break"),
    (
        "r",
        r"[Dd]ata-dependent branching|generic_jump",
        "choose with torch.where, or torch.cond for two long branches",
    ),
    (
        "r",
        r"Tensor\.(?:item|tolist)\(\)",
        "keep the value a tensor: no .item(), .tolist(), float() or int()",
    ),
    (
        "r",
        r"Dynamic shape operator",
        "keep the shape fixed: torch.where(mask, x, 0) instead of x[mask]",
    ),
    (
        "r",
        r"compiler\.disable",
        "remove torch.compiler.disable, or call that function outside",
    ),
    (
        "r",
        r"\.backward\(\)|autograd\.grad|requires_grad_\(\)",
        "compile the forward only, and ask for gradients outside",
    ),
    ("r", r"context manager", "move that with block out of the compiled function"),
    (
        "s",
        r"\bprint\(|\blog(?:ging|ger)?\.|\bwarnings?\.",
        "print, log or warn outside the compiled function",
    ),
    (
        "s",
        r"\brandom\.|\brand(?:int|n)?\(",
        "draw with torch.rand, or pass the number in as a tensor",
    ),
    (
        "s",
        r"\btime\.|datetime|\bopen\(|\bos\.|\binput\(",
        "do it before or after the call, and pass the result in",
    ),
    (
        "s",
        r"\bfloat\(|\bint\(|\bbool\(",
        "keep the value a tensor: no .item(), .tolist(), float() or int()",
    ),
    (
        "r",
        r"marked as skipped|[Bb]uiltin|C function",
        "use a torch function, or wrap it with torch.library.custom_op",
    ),
)
_OTHER = "move the line out of the compiled function, or write it with torch functions"

_WORDS = (
    (
        r"tensor '(.+?)' size mismatch at index (\d+)\. expected (\S+), actual (\S+)",
        "{0} has size {3} in dimension {1}, compiled for {2}",
    ),
    (
        r"tensor '(.+?)' stride mismatch at index (\d+)\. expected (\S+), actual (\S+)",
        "{0} has stride {3} in dimension {1}, compiled for {2}",
    ),
    (
        r"tensor '(.+?)' dtype mismatch\. expected (\S+), actual (\S+)",
        "{0} has dtype {2}, compiled for {1}",
    ),
    (
        r"tensor '(.+?)' rank mismatch\. expected (\S+), actual (\S+)",
        "the number of dimensions of {0} is {2}, compiled for {1}",
    ),
    (
        r"tensor '(.+?)' requires_grad mismatch",
        "{0} differs in whether it requires gradients",
    ),
    (
        r"tensor '(.+?)' (?:Tensor )?(?:device|dispatch key)",
        "{0} is on another device, or another kind of tensor",
    ),
    (r"GLOBAL_STATE changed: (\w+)", "the global setting {0} changed"),
    (r"check_obj_id\((?:L\[')?(\w+)", "{0} is another object"),
    (r"check_type_id\((?:L\[')?(\w+)", "{0} has another type"),
    (r"^(?:L\[')?([\w.]+)(?:'\])? == (.+)", "{0} is no longer {1}"),
)


def fix_for(reason: str, source: str) -> str:
    """Return what usually removes a graph break with this *reason* and *source*."""
    texts = {"r": reason, "s": source}
    for where, pattern, fix in _FIXES:
        if re.search(pattern, texts[where]):
            return fix
    return _OTHER


def in_words(guard: str) -> str:
    """Return the failed *guard* in words, or as it is when no words are known."""
    for pattern, words in _WORDS:
        if match := re.search(pattern, guard):
            return words.format(*match.groups())
    return guard


def short(reason: str | None) -> str:
    """Return a recompile reason on one line, without ids, paths and stack."""
    line = (reason or "").strip().split("\n")[0]
    line = re.sub(r"^\d+/\d+: |\s+#.*$|\s*\(HINT: .*$", "", line)
    return re.sub(r"\b\d{7,}\b", "…", line).strip()  # addresses


def original_name(name: str) -> str:
    """Return the user's name of a function that resumes after a graph break."""
    return re.sub(r"^(torch_dynamo_resume_in_)+|(_at_\d+)+$", "", name)
