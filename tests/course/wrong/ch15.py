# %% 15.1: still compiles
def warm_up(compiled, make, sizes):
    compiled(make(sizes[0]))


# %% 15.1: and at most 4 were asked for
def warm_up(compiled, make, sizes):
    for n in sizes:
        compiled(make(n))


# %% 15.1: were compiled, and 1 would do
def warm_up(compiled, make, sizes):
    compiled(make(sizes[0]))  # exact
    compiled(make(sizes[-1]))  # open


# %% 15.1: and a 15: after the warm-up, size 15 still compiles
def warm_up(compiled, make, sizes):
    for n in sorted(sizes)[:4]:
        x = make(n)
        torch._dynamo.maybe_mark_dynamic(x, 0)
        compiled(x)


# %% 15.1: Could not guard on data-dependent expression
def warm_up(compiled, make, sizes):
    from torch._dynamo.decorators import mark_unbacked

    x = make(sizes[-1])
    mark_unbacked(x, 0)
    compiled(x)


# %% 15.1: your answer raised ValueError: max()
def warm_up(compiled, make, sizes):
    kinds = {n for n in sizes if n < 2} | {max(n for n in sizes if n % 2 == 0)}
    for n in [*kinds, *[n for n in sizes if n > 1 and n % 2][:1]]:
        torch._dynamo.maybe_mark_dynamic(x := make(n), 0)
        compiled(x)


# %% 15.1: and a 15: after the warm-up, size 15 still compiles
def warm_up(compiled, make, sizes):
    big = [n for n in sizes if n > 1]  # an early one, and the middle: this passed once
    for n in [*[n for n in sizes if n < 2], big[0], big[len(big) // 2]]:
        torch._dynamo.maybe_mark_dynamic(x := make(n), 0)
        compiled(x)


# %% 15.1: 1 to 20, even and odd apart: after the warm-up
# -     kinds = {n if n < 2 else 2 + n % 2: n for n in sizes}
# -     for n in kinds.values():
# +     odd, even = ([n for n in sizes if n % 2 == rest][:1] for rest in (1, 0))
# +     for n in dict.fromkeys([min(sizes), max(sizes), *odd, *even]):
