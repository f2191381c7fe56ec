# Other right answers to the exercises of notebook 22.


# %% 22.1: gradients that go nowhere
def warm(compiled, make, sizes):
    for wanted in (False, True):
        x = make(sizes[-1])
        torch._dynamo.maybe_mark_dynamic(x, 0)
        with torch.set_grad_enabled(wanted):
            y = compiled(x).sum()
        if wanted:
            torch.autograd.grad(y, list(compiled.parameters()))


# %% 22.2: a lock that is forgotten
def once(compiled):
    import threading

    state = {"lock": threading.Lock()}

    def call(x):
        lock = state.get("lock")
        if lock is None:
            return compiled(x)
        lock.acquire()
        try:
            if state.get("lock"):
                y = compiled(x)
                state.clear()
                return y
        finally:
            lock.release()
        return compiled(x)

    return call
