# %% 12.2: a generator, by sections
def culprits(f, options, *inputs):
    from helpers import output_code

    def kernels(**chosen):
        code = output_code(f, *inputs, options=chosen)
        return sorted(code.kernels.values())

    plain = kernels()
    return (name for name in options if kernels(**{name: options[name]}) != plain)
