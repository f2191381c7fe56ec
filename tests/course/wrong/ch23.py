# Wrong answers to the exercises of notebook 23, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch23.py.


# %% 23.1: start_warm missed 2 times
# - torch.compiler.load_cache_artifacts(data) is None
# + not data


# %% 23.1: starts cold without a word
# -         raise ValueError(
# +         _ = (  # and nothing is raised


# %% 23.1: raised FileNotFoundError
# - Path(path).write_bytes(data)


# %% 23.2: it compiles anew
# - torch.tensor(number / 1000)
# + number / 1000


# %% 23.2: gives other answers
# - number / 1000
# + round(number / 1000)
