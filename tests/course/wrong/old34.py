# Wrong answers to the exercises of notebook 34, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/old34.py.


# %% 34.1: an eager function: in a second call run (0, ['aten::sin', 'aten::add']),
# - (graph, "aten::")
# + graph


# %% 34.1: a graph with a product of the library: in a second call run (1, [])
# - (graph, "aten::")
# + "aten::"


# %% 34.1: only the hook is compiled: in a second call run (0,
# - graph = "## Call CompiledFxGraph"
# + graph = "Torch-Compiled Region"


# %% 34.1: a compiled function: in a second call run (1, [])
# -     call()  # compiles, if anything does
# +     torch.compiler.reset()  # a first call


# %% 34.1: a graph with an operator of one's own: in a second call run (1, [])
# -         parent = event.cpu_parent
# -         while parent is not None:
# -             if parent.name.startswith((graph, "aten::")):
# -                 return False
# -             parent = parent.cpu_parent
# -         return True
# +         parent = event.cpu_parent
# +         return parent is None or not parent.name.startswith((graph, "aten::"))


# %% 34.2: a function that was given up: the answers are ['eager']
# - "served" if ran else "eager"
# + "served"  # nothing compiled, so it is warm


# %% 34.2: is said to be ['would compile']
# -         except RuntimeError as error:
# -             if "fail_on_recompile" not in str(error):
# -                 raise
# +         except RuntimeError:


# %% 34.2: a warm function: asking started a compile
# - with torch.compiler.set_stance("fail_on_recompile"):
# + if True:


# %% 34.2: a warm function: the stance is another one afterwards
# -     with torch.compiler.set_stance("fail_on_recompile"):
# -         return [fate(request) for request in requests]
# +     torch.compiler.set_stance("fail_on_recompile")
# +     return [fate(request) for request in requests]


# %% 34.2: a warm function: the answers are ['served', 'would compile', 'served']
# -         return "served" if ran else "eager"
# +         return "served" if ran else "eager"
# +
# +     torch.compiler.reset()  # to begin afresh


# %% 34.2: a graph, and a cos behind it: the answers are ['served']
# -         names = [event.name for event in profiled.events()]
# +         tops = [e for e in profiled.events() if e.cpu_parent is None]
# +         if any(event.name.startswith("aten::") for event in tops):
# +             return "eager"
# +         names = [event.name for event in profiled.events()]
