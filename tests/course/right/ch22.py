# %% 22.1: counted for each step first
def compiled_apart(records):
    found = []
    for number, step in enumerate(records[0]):
        busy = [n for n, rank in enumerate(records) if rank[number]["compiles"]]
        if len(busy) not in (0, len(records)):
            for rank in reversed(busy):
                why = records[rank][number]["why"]
                found.append([step["step"], rank, next(iter(why), None)])
    return found
