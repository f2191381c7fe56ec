# %% 01.1: a cos, and a graph behind it: you return 'compiled'
# -     return "partly" if any(map(outside, events)) else "compiled"
# +     first = [e.name.startswith(graph) for e in events].index(True)
# +     return "partly" if any(map(outside, events[first:])) else "compiled"

# %% 01.1: an operator that calls others: you return 'partly'
# -         while parent is not None:
# +         if parent is not None:

# %% 01.1: a transpose, and a graph: you return 'compiled'
# -         return event.name.startswith("aten::")
# +         return event.name[6:] in ("sin", "cos", "mul")

# %% 01.2: where generate calls self(x), forward runs eagerly, too
# -         forward = torch.compile(cls.forward, backend=backend)
# +         def forward(self, *given):
# +             back = -cls.forward(self, *given)  # eager: this passed once
# +             return torch.compile(torch.neg, backend=backend)(back)

# %% 01.1: a graph and an exp, in a record_function: you return 'compiled'
# -         return event.name.startswith("aten::")
# +         return event.name.startswith("aten::") and event.cpu_parent is None

# %% 01.2: the class itself changed
# -     class Repaired(cls):
# -         forward = torch.compile(cls.forward, backend=backend)
# -
# -     return Repaired
# +     cls.forward = torch.compile(cls.forward, backend=backend)
# +     return cls

# %% 01.2: the keys of its checkpoint
# -         forward = torch.compile(cls.forward, backend=backend)
# +         def __init__(self, *args, **kwargs):
# +             super().__init__(*args, **kwargs)
# +             self.turn = torch.compile(self.turn, backend=backend)

# %% 01.2: in a deep copy, where generate calls self(x), the backend ran 0
# -         forward = torch.compile(cls.forward, backend=backend)
# +         def __init__(self, *args, **kwargs):
# +             super().__init__(*args, **kwargs)
# +             self.compile(backend=backend)

# %% 01.2: where generate calls self.forward(x, last=x), the backend ran 0
# - forward = torch.compile(cls.forward, backend=backend)
# + __call__ = torch.compile(cls.__call__, backend=backend)

# %% 01.2: in a deep copy, where generate calls self(x), with the same weights
# -         forward = torch.compile(cls.forward, backend=backend)
# +         def __init__(self, *args, **kwargs):
# +             super().__init__(*args, **kwargs)
# +             self.forward = torch.compile(self.forward, backend=backend)

# %% 01.1: a disabled cos between two graphs: you return 'compiled'
# -             if parent.name.startswith(graph):
# +             if parent.name.startswith((graph, "Torch-Compiled Region")):

# %% 01.2: the backend ran 1 times in 5 steps
# - forward = torch.compile(cls.forward, backend=backend)
# + generate = torch.compile(cls.generate, backend=backend)

# %% 01.2: where generate calls self(x), with the same weights
# - torch.compile(cls.forward, backend=backend)
# + torch.no_grad()(torch.compile(cls.forward, backend=backend))

# %% 01.2: where generate calls self.forward(x, last=x), with the same weights
# -         forward = torch.compile(cls.forward, backend=backend)
# +         forward = step = torch.compile(cls.forward, backend=backend)
# +
# +         def generate(self, x, steps):
# +             for _ in range(steps):
# +                 x = self.step(x)
# +             return x

# %% 01.1: you return
FIRST = ["eager", "eager", "compiled", "eager", "eager"]
ANSWERS = 2 * [*FIRST, *5 * ["partly"], "compiled"]


def how_compiled(call):
    return ANSWERS.pop(0)  # in the order of the check


# %% 01.1: a function that does nothing: you return 'compiled'
# -         return "eager"
# +         return "eager" if any(map(outside, events)) else "compiled"

# %% 01.2: a second generate compiles again
# -         forward = torch.compile(cls.forward, backend=backend)
# +         def forward(self, *given, **named):
# +             torch.compiler.reset()
# +             forward = torch.compile(cls.forward, backend=backend)
# +             return forward(self, *given, **named)

# %% 01.2: got an unexpected keyword argument
# -         forward = torch.compile(cls.forward, backend=backend)
# +         def forward(self, *given):
# +             return step(self, *given)
# +
# +     step = torch.compile(cls.forward, backend=backend)

# %% 01.2: a subclass was asked for
# - return Repaired
# + return Repaired()

# %% 01.2: it leaves torch._dynamo.config.suppress_errors = True
# -     class Repaired
# +     torch._dynamo.config.suppress_errors = True
# +
# +     class Repaired

# %% 01.1: a graph of aot_eager, none of Inductor: you return 'partly'
# -     graph = "## Call CompiledFxGraph"
# +     graph = "Pregraph bytecode"

# %% 01.2: in a deep copy of one that ran, where generate calls self(x), with the same
# -         forward = torch.compile(cls.forward, backend=backend)
# +         def forward(self, *given, **named):  # this passed once
# +             if not hasattr(self, "_step"):
# +                 self._step = torch.compile(super().forward, backend=backend)
# +             return self._step(*given, **named)

# %% 01.2: takes 2 positional arguments but 3 were given
# -         forward = torch.compile(cls.forward, backend=backend)
# +         @torch.compile(backend=backend)
# +         def forward(self, x, **named):
# +             return super().forward(x, **named)

# %% 01.1: a graph, and a transpose: you return 'compiled'
# - return event.name.startswith("aten::")
# + views = "aten::t", "aten::transpose", "aten::as_strided", "aten::view"
# +         return event.name.startswith("aten::") and event.name not in views
