# Wrong answers to the exercises of notebook 10, each with what it must be told.


# %% 10.1: x given twice: it is 1
def excess(function, *inputs):
    from helpers import kernels

    results = function(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    least = sum(tensor.nbytes for tensor in (*inputs, *results))  # x counts twice
    return kernels(function, *inputs).bytes / least


# %% 10.1: a view that is returned: it is 1
def excess(function, *inputs):
    from helpers import kernels

    results = function(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    different = {id(tensor): tensor for tensor in (*inputs, *results)}
    least = sum(tensor.nbytes for tensor in different.values())  # a view counts
    return kernels(function, *inputs).bytes / least


# %% 10.1: a chain of three: it is 1
def excess(function, *inputs):
    from helpers import eager_bytes

    results = function(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    least = sum(tensor.nbytes for tensor in (*inputs, *results))
    return eager_bytes(function, *inputs).bytes / least  # what eager moves


# %% 10.2: a chain of 100, fused, balance 4: it waits for arithmetic
def waits_for(function, inputs, balance):
    from torch.utils.flop_counter import FlopCounterMode

    from helpers import kernels

    with FlopCounterMode(display=False) as flops:  # no pointwise operation
        function(*inputs)
    moved = kernels(function, *inputs).bytes
    return "arithmetic" if flops.get_total_flops() / moved > balance else "memory"


# %% 10.2: a product, 128 wide, balance 10: it waits for arithmetic
def waits_for(function, inputs, balance):
    from helpers import eager_bytes, kernels

    calls = len(eager_bytes(function, *inputs).calls)  # a product as one a number
    moved = kernels(function, *inputs).bytes
    return "arithmetic" if calls * inputs[0].numel() / moved > balance else "memory"


# %% 10.2: a chain of 100, fused, balance 4: it waits for arithmetic
def waits_for(function, inputs, balance):
    from course.roofline import operations

    from helpers import eager_bytes

    moved = eager_bytes(function, *inputs).bytes  # not what is compiled
    return "arithmetic" if operations(function, *inputs) / moved > balance else "memory"
