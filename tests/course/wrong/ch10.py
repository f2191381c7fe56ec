# Wrong answers to the exercises of notebook 10, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch10.py.


# %% 10.1: x given twice: it is 1
# - {tensor.data_ptr(): tensor.nbytes for tensor in inputs}
# + {n: tensor.nbytes for n, tensor in enumerate(inputs)}


# %% 10.1: a view that is returned: it is 1
# - not in given:  # no view of x
# + not in ():
# - memory[tensor.data_ptr()]
# + memory[id(tensor)]


# %% 10.1: a chain of three: it is 1
# - from helpers import kernels
# + from helpers import eager_bytes as kernels  # what eager moves


# %% 10.2: a chain of 100, fused, balance 4: it waits for arithmetic
def waits_for(function, inputs, balance):
    from torch.utils.flop_counter import FlopCounterMode

    from helpers import kernels

    with FlopCounterMode(display=False) as flops:  # no pointwise operation
        function(*inputs)
    moved = kernels(function, *inputs).bytes
    return "arithmetic" if flops.get_total_flops() / moved > balance else "memory"


# %% 10.2: a product, 128 wide, balance 10: it waits for arithmetic
# - products.get_total_flops() + pointwise.made
# + pointwise.made  # and a product is not pointwise


# %% 10.2: a view and a product with 0.9, balance 0.2: it waits for memory
# - if torch.Tag.pointwise in operation.tags:  # no view has it
# + if "mm" not in str(operation):  # all but products


# %% 10.1: a slice of a larger array: it is 1
# - {tensor.data_ptr(): tensor.nbytes for
# + {tensor.data_ptr(): tensor.untyped_storage().nbytes() for


# %% 10.1: two halves of one array: it is 1
# - memory = {tensor.data_ptr():
# + memory = {tensor.untyped_storage().data_ptr():


# %% 10.1: a returned view of some rows: it is 1
# - if tensor.untyped_storage().data_ptr() not in given:  # no view of x
# + if tensor.data_ptr() not in memory:


# %% 10.1: a product in the middle: it is
# - kernels(function, *inputs).bytes / sum(memory.values())
# + sum(memory.values()) / kernels(function, *inputs).bytes


# %% 10.2: a chain of 100, fused, balance 4: it waits for arithmetic
# - from helpers import kernels
# + from helpers import eager_bytes as kernels  # what eager moves


# %% 10.2: a chain of 8, balance 4: it waits for memory
# - > balance
# + >= 1


# %% 10.2: a chain of 8, on a slow processor, balance 0.5: it waits for arithmetic
# - > balance
# + > 5


# %% 10.2: a product, on a fast one, balance 40: it waits for memory
# - > balance
# + > min(balance, 20)


# %% 10.1: one result, returned twice: it is 1, and you say 0.666
# - memory[tensor.data_ptr()] = tensor.nbytes
# + memory[len(memory)] = tensor.nbytes  # each result of the list


# %% 10.2: a product and a chain, balance 19: it waits for arithmetic
# - products.get_total_flops() + pointwise.made
# + products.get_total_flops() or pointwise.made  # one or the other
