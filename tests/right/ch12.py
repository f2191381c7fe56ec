# Other right answers to the exercises of notebook 12.


# %% 12.1: totals, and a minimum
def choose(races, calls):
    totals = [(race.median_s[0] * calls, 0, "eager") for race in races.values()][:1]
    for rank, (mode, race) in enumerate(races.items(), 1):
        if race.verdict != "faster" or "the mode was ignored" in str(race.notes):
            continue
        later = race.median_s[1] * (calls - 1)
        totals.append((race.cold_start_s + later, rank, mode))
    return min(totals, default=(0, 0, "eager"))[2]


# %% 12.2: a class, and a copy into a tensor of its own
def graphed(f, record):
    class Graphed:
        def __init__(self):
            self.replays = {}

        def __call__(self, x):
            key = tuple(x.shape)
            try:
                replay = self.replays[key]
            except KeyError:
                replay = self.replays[key] = record(f, x)
            return torch.empty_like(x).copy_(replay(x))

    return Graphed()


# %% 12.3: a generator, by sections
def culprits(f, options, *inputs):
    from helpers import output_code

    def kernels(**chosen):
        code = output_code(f, *inputs, options=chosen)
        return sorted(map(code.kernel, code.names))

    plain = kernels()
    return (name for name in options if kernels(**{name: options[name]}) != plain)
