# Wrong answers to the exercises of notebook 12, each with what it must be told.


# %% 12.1: no mode is paid back by then
def choose(races, calls):
    def total(mode):
        race = races[mode]
        return race.cold_start_s + (calls - 1) * race.median_s[1]

    return min(races, key=total, default="eager")


# %% 12.1: read the notes
def choose(races, calls):
    saved = {"eager": 0.0}
    for mode, race in races.items():
        if race.verdict == "faster":
            a, b = race.median_s
            saved[mode] = calls * a - race.cold_start_s - (calls - 1) * b
    return max(saved, key=saved.get)


# %% 12.1: the first call is a call, too
def choose(races, calls):
    saved = {"eager": 0.0}
    for mode, race in races.items():
        ignored = any("ignored" in note for note in race.notes)
        if race.verdict == "faster" and not ignored:
            a, b = race.median_s
            saved[mode] = calls * a - race.cold_start_s - calls * b
    return max(saved, key=saved.get)


# %% 12.2: was overwritten
def graphed(f, record):
    replays = {}

    def g(x):
        if x.shape not in replays:
            replays[x.shape] = record(f, x)
        return replays[x.shape](x)

    return g


# %% 12.2: a recording can be used again
def graphed(f, record):
    return lambda x: record(f, x)(x).clone()


# %% 12.2: it fits one shape
def graphed(f, record):
    replays = []

    def g(x):
        if not replays:
            replays.append(record(f, x))
        return replays[0](x).clone()

    return g


# %% 12.3: leaves every kernel as it was
def culprits(f, options, *inputs):
    from helpers import output_code

    plain = output_code(f, *inputs).text
    return [
        name
        for name, value in options.items()
        if output_code(f, *inputs, options={name: value}).text != plain
    ]


# %% 12.3: changes a kernel, and was not found
def culprits(f, options, *inputs):
    from helpers import kernels

    plain = len(kernels(f, *inputs).generated)
    return [
        name
        for name, value in options.items()
        if len(kernels(f, *inputs, options={name: value}).generated) != plain
    ]
