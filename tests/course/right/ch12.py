# %% 12.2: a generator, by sections
def culprits(f, options, *inputs):
    from helpers import output_code

    def kernels(**chosen):
        code = output_code(f, *inputs, options=chosen)
        return sorted(map(code.kernel, code.names))

    plain = kernels()
    return (name for name in options if kernels(**{name: options[name]}) != plain)


# %% 12.1: the least time, with eager among the rest
def choose(races, calls):
    times = {}
    for mode, race in races.items():
        unused = "not used" in " ".join(race.notes)
        if race.verdict == "faster" and not (unused and mode == "reduce-overhead"):
            eager, each = race.median_s
            times["eager"] = calls * eager
            times[mode] = race.cold_start_s + (calls - 1) * each
    return min(times, key=times.get, default="eager")
