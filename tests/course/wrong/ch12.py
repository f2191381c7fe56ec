# Wrong answers to the exercises of notebook 12, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch12.py.


# %% 12.1: no mode is paid back by then
def choose(races, calls):
    def total(mode):
        race = races[mode]
        return race.cold_start_s + (calls - 1) * race.median_s[1]

    return min(races, key=total, default="eager")


# %% 12.1: read the notes
# - "faster" and not nothing
# + "faster"


# %% 12.1: a median without a verdict is no evidence
# - race.verdict == "faster" and not nothing
# + not nothing


# %% 12.1: it still tunes
# - "faster" and not nothing
# + "faster" and not unused


# %% 12.1: so many calls pay for its first one
# - return max(saved, key=saved.get)
# + paid = [mode for mode in saved if mode != "eager" and saved[mode] > 0]
# +     return min(paid, key=lambda m: races[m].cold_start_s, default="eager")


# %% 12.1: the first call is a call, too
# - (calls - 1)
# + calls


# %% 12.2: was overwritten
# - .clone()


# %% 12.2: each can be used again
def graphed(f, record):
    return lambda x: record(f, x)(x).clone()


# %% 12.2: must match the size
def graphed(f, record):
    replays = []

    def g(x):
        if not replays:
            replays.append(record(f, x))
        return replays[0](x).clone()

    return g


# %% 12.3: leaves every kernel as it was
# - [code.kernel(name) for name in code.names]
# + code.text


# %% 12.3: changes a kernel, and was not found
# - [code.kernel(name) for name in code.names]
# + len(code.names)


# %% 12.1: so few calls do not pay
# - total = race.cold_start_s + (calls - 1) * compiled
# + total = calls * compiled  # the first call is forgotten


# %% 12.1: no mode is paid back by then
# - return max(saved, key=saved.get)
# + del saved["eager"]
# +     return max(saved, key=saved.get, default="eager")


# %% 12.2: must match the size
# - x.shape not in replays
# + x.numel() not in replays
# - replays[x.shape] = record(f, x)
# + replays[x.numel()] = record(f, x)
# - replays[x.shape](x)
# + replays[x.numel()](x)


# %% 12.2: was overwritten
# - replays[x.shape](x).clone()
# + replays[x.shape](x.clone())


# %% 12.3: was not among the options given
def culprits(f, options, *inputs):
    return ["cpp.simdlen", "fallback_by_default"]


# %% 12.3: leaves every kernel as it was
# - return [n for n, value in options.items() if texts({n: value}) != plain]
# + tried, found = {}, []
# +     for name, value in options.items():  # each on top of those before it
# +         tried[name] = value
# +         found += [name] if texts(tried) != plain else []
# +     return found


# %% 12.3: changes a kernel, and was not found
# - return [n for n, value in options.items() if texts({n: value}) != plain]
# + tried, found = {}, []
# +     for name, value in options.items():  # what one more changes
# +         tried[name], before = value, texts(tried)
# +         found += [name] if texts(tried) != before else []
# +     return found
