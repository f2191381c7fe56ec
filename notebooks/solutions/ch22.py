# Answers to the exercises of notebook 22. Try first: a hint costs nothing.


# %% 22.1
def compiled_apart(records):
    """Return (step, rank, why) of each compile that others had to wait for."""
    found = []
    for steps in zip(*records, strict=True):
        busy = [bool(step["compiles"]) for step in steps]
        if any(busy) and not all(busy):
            found += [
                (step["step"], rank, step["why"][0] if step["why"] else None)
                for rank, step in enumerate(steps)
                if step["compiles"]
            ]
    return found
