# Tricks that must not pass notebook 09, and other answers that must.


# %% 09.1: the answer is 'max-autotune', not <ANY>
def choose(races, calls):
    from unittest import mock

    return mock.ANY


# %% 09.1: races drawn by lot
def choose(races, calls):
    told = {20_000: "max-autotune", 1_000: "default", 100_000: "max-autotune"}
    told |= {50: "eager", 201: "default", 10: "eager"}
    usual = "eager" if "lite" in races else "default"
    return told.get(calls, usual)  # from the messages, by heart


# %% 09.1 also: totals, and a minimum
def choose(races, calls):
    totals = [(race.median_s[0] * calls, 0, "eager") for race in races.values()][:1]
    for rank, (mode, race) in enumerate(races.items(), 1):
        if race.verdict != "faster" or "the mode was ignored" in str(race.notes):
            continue
        later = race.median_s[1] * (calls - 1)
        totals.append((race.cold_start_s + later, rank, mode))
    return min(totals, default=(0, 0, "eager"))[2]


# %% 09.2: f ran itself
def graphed(f, record):
    shapes = set()

    def g(x):
        if x.shape not in shapes:
            shapes.add(x.shape)
            record(f, x)  # for show
        return f(x)

    return g


# %% 09.2: does not give what f gives
def graphed(f, record):
    return lambda x: x


# %% 09.2 also: a class, and a copy into a tensor of its own
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


# %% 09.3: a matrix product
def culprits(f, options, *inputs):
    return {"cpp.simdlen", "fallback_by_default"} & {*options}  # from the messages


# %% 09.3: in a list
def culprits(f, options, *inputs):
    from unittest import mock

    return [mock.ANY]


# %% 09.3 also: a generator, by sections
def culprits(f, options, *inputs):
    from helpers import output_code

    def kernels(**chosen):
        code = output_code(f, *inputs, options=chosen)
        return sorted(map(code.kernel, code.names))

    plain = kernels()
    return (name for name in options if kernels(**{name: options[name]}) != plain)
