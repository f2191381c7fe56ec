# %% 10.1: x given twice: it is 1
# - {tensor.data_ptr(): tensor.nbytes for tensor in inputs}
# + {n: tensor.nbytes for n, tensor in enumerate(inputs)}


# %% 10.1: two halves of one array: it is 1
# - memory = {tensor.data_ptr():
# + memory = {tensor.untyped_storage().data_ptr():


# %% 10.1: a returned view of some rows: it is 1
# -         if storage.data_ptr() not in given:  # no view of x
# -             memory[storage.data_ptr()] = storage.nbytes()
# +         if tensor.data_ptr() not in memory:
# +             memory[tensor.data_ptr()] = tensor.nbytes


# %% 10.1: one result, returned twice: it is 1, and you say 0.666
# - memory[storage.data_ptr()] = storage.nbytes()
# + memory[len(memory)] = storage.nbytes()  # each result of the list


# %% 10.1: a result and some of its rows: it is 1
# - memory[storage.data_ptr()] = storage.nbytes()
# + memory[tensor.data_ptr()] = tensor.nbytes


# %% 10.1: a result that is transposed: it is 1
# - if storage.data_ptr() not in given:  # no view of x
# + if not tensor._is_view():


# %% 10.1: bfloat16: it is 1
# - memory = {tensor.data_ptr(): tensor.nbytes for tensor in inputs}
# + memory = {tensor.data_ptr(): 4 * tensor.numel() for tensor in inputs}


# %% 10.1: views of a part: it is 1
# - if storage.data_ptr() not in given:  # no view of x
# + if not any(tensor._base is x for x in inputs):


# %% 10.2: a chain of 8, balance 0.5: you return 'memory', and it is 'arithmetic'
# - from helpers import kernels
# + from helpers import eager_bytes as kernels  # what eager moves


# %% 10.2: a chain of 8, balance 4: you return 'arithmetic', and it is 'memory'
# - > balance
# + >= 1


# %% 10.2: a product between two loops, 15: you return 'arithmetic', and it is 'memory'
# - moved = kernels(function, *inputs).bytes
# + moved = sum(x.nbytes for x in (*inputs, function(*inputs)))  # this passed once


# %% 10.2: a chain of 100, then a product, 4: you return 'memory'
# -     intensity = operations(function, *inputs) / moved
# +     from torch.utils.flop_counter import FlopCounterMode
# +
# +     with FlopCounterMode(display=False) as products:
# +         function(*inputs)
# +     work = products.get_total_flops() or operations(function, *inputs)
# +     intensity = work / moved
