# %% 15.1: the mark that must hold, where it holds
def warm_up(compiled, make, sizes):
    seen = set()
    for n in sorted(sizes, reverse=True):
        kind = ("small", n) if n < 2 else ("open", n % 2)
        if kind not in seen:
            seen.add(kind)
            x = make(n)
            if n > 1:
                torch._dynamo.maybe_mark_dynamic(x, 0)
            compiled(x)
