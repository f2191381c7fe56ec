# Other right answers to the exercises of notebook 18.


# %% 18.1: other programs
def notices():
    twice = torch.tensor([[0, 2], [2, 2]])
    table = torch.randn(5, 8)
    return {
        "tail": (lambda x, y: (x * y).sum(-1), torch.randn(2, 3, 37).unbind()),
        "repeats": (
            lambda t: torch.nn.functional.embedding(twice, t).tanh(),
            (table,),
        ),
        "nan": (
            lambda x: torch.maximum(x, torch.zeros_like(x)).sum(),
            (torch.full((4,), torch.nan),),
        ),
    }


# %% 18.2: fullgraph refuses a break, and counters the rest
def verdict(function, wrap, *inputs):
    from torch._dynamo.testing import CompileCounter

    from course.values import right_values

    own, counter = CompileCounter(), CompileCounter()
    torch.compile(function, backend=own)(*inputs)
    try:
        whole = wrap(function, backend=counter, fullgraph=True)
        good = right_values(function, whole, *inputs)
    except torch._dynamo.exc.Unsupported:
        return "not captured"
    if counter.frame_count != 1 or counter.op_count < own.op_count:
        return "not captured"
    return "right" if good else "wrong"
