# %% 01.1: by time, not by parents
def how_compiled(call):
    from torch.profiler import profile

    call()
    with profile() as seen:
        call()
    own = ("## Call CompiledFxGraph", "aten::")
    events = [event for event in seen.events() if event.name.startswith(own)]
    events.sort(key=lambda e: (e.time_range.start, -e.time_range.end))
    kinds, until = [], float("-inf")
    for event in events:
        if event.time_range.start >= until:
            until = event.time_range.end
            kinds.append(event.name[:6] == "aten::")
    if all(kinds):
        return "eager"
    return "partly" if any(kinds) else "compiled"


# %% 01.2: a forward that calls a compiled one
def repaired(cls, backend):
    step = torch.compile(cls.forward, backend=backend)

    class Repaired(cls):
        def forward(self, *args, **kwargs):
            return step(self, *args, **kwargs)

    return Repaired
