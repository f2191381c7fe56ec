# %% 22.1: nobody compiles twice: you return [(0, 0, '')
def compiled_apart(records):
    return [
        (step["step"], rank, (step["why"] or [""])[0])
        for rank, steps in enumerate(records)
        for step in steps
        if step["compiles"]
    ]


# %% 22.1: of four ranks, one compiles in step 1, and two in step 2
# -         if any(busy) and not all(busy):
# +         if busy.count(False) == 1:

# %% 22.1: records that begin at step 7
# -     for steps in zip(*records, strict=True):
# +     for number, steps in enumerate(zip(*records, strict=True)):
# - (step["step"], rank, step
# + (number, rank, step

# %% 22.1: rank 1 meets a new size in step 2
# - step["why"][0] if
# + step["why"][-1] if

# %% 22.1: four of five ranks compile in step 1
# - bool(step["compiles"])
# + bool(step["why"])
# -                 if step["compiles"]
# +                 if step["why"]

# %% 22.1: as to validate
# -         if any(busy) and not all(busy):
# +         if any(busy) and not all(busy) and any(s["why"] for s in steps):

# %% 22.1: you return a generator, and a list was asked for
# -     return found
# +     return (one for one in found)

# %% 22.1: in step 1, rank 0 compiles once, and rank 1 twice
# -         busy = [bool(step["compiles"]) for step in steps]
# +         fewest = min(step["compiles"] for step in steps)
# +         busy = [step["compiles"] > fewest for step in steps]

# %% 22.1: it changes the records
# - step["why"][0] if
# + step["why"].pop(0) if

# %% 22.1: you return
# -         if any(busy) and not all(busy):
# +         if busy[0] != busy[1]:
