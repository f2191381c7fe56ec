# Other right answers to the exercises of notebook 18.


# %% 18.2: fullgraph refuses a break, and a counter the rest
def verdict(function, wrap, *inputs):
    from torch._dynamo.testing import CompileCounter

    from course.values import right_values

    counter = CompileCounter()
    try:
        whole = wrap(function, backend=counter, fullgraph=True)
        good = right_values(function, whole, *inputs)
    except torch._dynamo.exc.Unsupported:
        return "not captured"
    if counter.frame_count != 1:
        return "not captured"
    return "right" if good else "wrong"
