# %% 27.1: one marked size, in a thread like those of the traffic
def warm(compiled, lengths):
    import threading

    def go():
        with torch.inference_mode():
            x = torch.ones(max(lengths), 8)
            torch._dynamo.mark_dynamic(x, 0)
            compiled(x)
            if 1 in lengths:
                compiled(torch.ones(1, 8))

    thread = threading.Thread(target=go)
    thread.start()
    thread.join()


# %% 27.2: compiles are counted, not forbidden
def ready(compiled, eager, samples, runs):
    from torch._dynamo.callback import callback_handler

    seen, good = [], True
    note = seen.append
    callback_handler.register_start_callback(note)
    try:
        with torch.no_grad():
            for x in samples:
                before, y = runs(), compiled(x)
                good &= runs() > before
                wanted = eager(x)
                good &= bool(y.isfinite().all() and y.shape == wanted.shape)
                good &= bool((y - wanted).abs().max() < 1e-4)
    except Exception:
        good = False
    finally:
        callback_handler.remove_start_callback(note)
    return good and not seen
