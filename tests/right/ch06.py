# Other right answers to the exercises of notebook 06.


# %% 06.1: by the sum, and over three calls
def sound(step, x):
    masks = []
    for _ in range(3):
        result, gradient = step(x)
        if not ((result != 0) == (gradient != 0)).all():
            return False
        masks.append(result != 0)
    return bool((masks[0] != masks[1]).any() and (masks[1] != masks[2]).any())


# %% 06.2: all of them, then the largest
def frugal(fn, inputs, limit):
    from course.saved import budget, saved_bytes

    def kept(share):
        torch.compiler.reset()
        with budget(share):
            return saved_bytes(torch.compile(fn, backend="aot_eager"), *inputs)

    return max(n / 10 for n in range(11) if kept(n / 10) <= limit)
