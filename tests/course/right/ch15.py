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


# %% 15.1: with the stance of a service, which it leaves
def warm_up(compiled, make, sizes):
    for n in {n if n < 2 else 2 + n % 2: n for n in sizes}.values():
        x = make(n)
        torch._dynamo.maybe_mark_dynamic(x, 0)
        compiled(x)
    torch.compiler.set_stance("eager_on_recompile")
