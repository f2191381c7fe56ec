# %% 10.1: x given twice: it is 1
# - start = tensor.data_ptr()
# + start = 2 * len(memory)  # another place for each

# %% 10.1: x and one of its 64 rows: it is 1.008, and you say 1.98
# -     return kernels(function, *inputs).bytes / len(memory)
# +     memory = {tensor.data_ptr(): tensor.nbytes for tensor in (*inputs, *results)}
# +     return kernels(function, *inputs).bytes / sum(memory.values())

# %% 10.1: a result's row, and it: it is 1
# -         memory.update(range(start, start + tensor.nbytes))
# +         if start not in memory:
# +             memory.update(range(start, start + tensor.nbytes))

# %% 10.1: two parts of one array: it is 1
# - start = tensor.data_ptr()
# + start = tensor.untyped_storage().data_ptr()

# %% 10.1: a returned view of some rows: it is 1
# -     return kernels(function, *inputs).bytes / len(memory)
# +     largest = {}
# +     for tensor in sorted((*inputs, *results), key=lambda tensor: tensor.nbytes):
# +         largest[tensor.data_ptr()] = tensor.nbytes
# +     return kernels(function, *inputs).bytes / sum(largest.values())

# %% 10.1: a result that is transposed: it is 1
# - (*inputs, *results)
# + (*inputs, *(made for made in results if not made._is_view()))

# %% 10.1: a cast to bfloat16: it is 1
# - tensor.nbytes
# + 4 * tensor.numel()

# %% 10.2: a chain of 8, balance 0.5: you return 'memory', and it is 'arithmetic'
# - from helpers import kernels
# + from helpers import eager_bytes as kernels  # what eager moves

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

# %% 10.2: a product in bfloat16, 40: you return 'memory'
# - moved = kernels(function, *inputs).bytes
# + moved = kernels(function, *[x.float() for x in inputs]).bytes

# %% 10.1: rows that overlap: it is 1.154, and you say 1.5
# -     memory = set()  # the address of each byte
# -     for tensor in (*inputs, *results):
# +     memory = set()
# +     for tensor in sorted((*inputs, *results), key=lambda tensor: -tensor.nbytes):
# -         memory.update(range(start, start + tensor.nbytes))
# -     return kernels(function, *inputs).bytes / len(memory)
# +         if not any(start in block for block in memory):
# +             memory.add(range(start, start + tensor.nbytes))
# +     return kernels(function, *inputs).bytes / sum(map(len, memory))

# %% 10.2: a chain on one row of many, 0.5: you return 'memory'
# -     moved = kernels(function, *inputs).bytes
# +     least = sum(x.nbytes for x in (*inputs, function(*inputs)))
# +     moved = max(least, kernels(function, *inputs).bytes)

# %% 10.1: the same bytes in two dtypes
# -     memory = set()  # the address of each byte
# +     memory, size = {}, 0
# -         memory.update(range(start, start + tensor.nbytes))
# +         places = range(start, start + tensor.nbytes, tensor.itemsize)
# +         memory.update(dict.fromkeys(places, tensor.itemsize))
# - len(memory)
# + sum(memory.values())

# %% 10.1: one row of 64: it is 0.03077, and you say 1.0
# - return kernels(function, *inputs).bytes / len(memory)
# + return max(1.0, kernels(function, *inputs).bytes / len(memory))
