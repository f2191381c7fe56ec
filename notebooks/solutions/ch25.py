# Answers to the exercises of notebook 25.  Each cell replaces its stub.


# %% 25.1
def warm(compiled, make, sizes):
    def general():
        x = make(sizes[0])
        torch._dynamo.mark_dynamic(x, 0)
        return x

    with torch.no_grad():
        compiled(general())
    compiled(general()).sum().backward()
    compiled.zero_grad()


# %% 25.2
def once(compiled):
    import threading

    lock, done = threading.Lock(), threading.Event()

    def call(x):
        if not done.is_set():
            with lock:
                if not done.is_set():
                    y = compiled(x)
                    done.set()
                    return y
        return compiled(x)

    return call
