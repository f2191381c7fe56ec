# Wrong answers to the exercises of notebook 22, each with what it must be told.


# %% 22.1: 5 rows under no_grad still compile
def warm(compiled, make, sizes):
    compiled(make(sizes[0])).sum().backward()
    compiled.zero_grad()


# %% 22.1: a training step with 5 rows still compiles
def warm(compiled, make, sizes):
    for n in sizes:
        for wanted in (False, True):
            with torch.set_grad_enabled(wanted):
                compiled(make(n))


# %% 22.1: it leaves gradients
def warm(compiled, make, sizes):
    for wanted in (False, True):
        x = make(sizes[0])
        torch._dynamo.mark_dynamic(x, 0)
        with torch.set_grad_enabled(wanted):
            y = compiled(x)
        if wanted:
            y.sum().backward()


# %% 22.1: times, and 2 are enough
def warm(compiled, make, sizes):
    for n in sizes:
        with torch.no_grad():
            compiled(make(n))
        compiled(make(n)).sum().backward()
    compiled.zero_grad()


# %% 22.2: twelve threads call it at once, and it compiles
def once(compiled):
    def call(x):
        return compiled(x)

    return call


# %% 22.2: other threads wait for ever
def once(compiled):
    import threading

    lock, done = threading.Lock(), []

    def call(x):
        if done:
            return compiled(x)
        lock.acquire()
        y = compiled(x)
        done.append(True)
        lock.release()
        return y

    return call


# %% 22.2: calls still wait for each other
def once(compiled):
    import threading

    lock = threading.Lock()

    def call(x):
        with lock:
            return compiled(x)

    return call


# %% 22.2: the others all try at once
def once(compiled):
    import threading

    lock, tried = threading.Lock(), []

    def call(x):
        with lock:
            if not tried:
                tried.append(True)
                return compiled(x)
        return compiled(x)

    return call
