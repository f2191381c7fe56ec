# Other right answers to the exercises of notebook 05.


# %% 05.1: torch.cond
def repaired(logits, temperature, history):
    assert (logits == logits).all(), "the model has diverged"
    large = (logits.max() > 5).to(logits.dtype)
    probs = torch.softmax(logits / (1 + large) / temperature, dim=-1)
    likely = probs > 0.01
    entropy = torch.special.entr(probs).masked_fill(~likely, 0).sum()
    history.append(entropy.detach())
    first = probs.sort(descending=True).values
    sure = torch.cond(
        entropy > 1, lambda p: p[:3].sum(), lambda p: p[0].clone(), (first,)
    )
    return probs, sure


# %% 05.2: a copy of stranger that finds other functions
def adopted(stranger, note, namespace):
    import types

    weigh = torch._dynamo.nonstrict_trace(namespace["weigh"])
    names = {**namespace, "weigh": weigh, "note": lambda text: None}
    copy = types.FunctionType(stranger.__code__, names)
    return torch.compile(copy, fullgraph=True, backend="aot_eager")


# %% 05.2: allow_in_graph, which nonstrict_trace is like
def adopted(stranger, note, namespace):
    namespace["weigh"] = torch.compiler.allow_in_graph(namespace["weigh"])
    compiled = torch.compile(stranger, fullgraph=True)

    def call(*inputs):
        with torch._dynamo.config.patch(ignore_logging_functions={note}):
            return compiled(*inputs)

    return call


# %% 05.1: a mask that multiplies, and history without a graph
def repaired(logits, temperature, history):
    assert torch.isnan(logits).sum() == 0, "the model has diverged"
    logits = logits / torch.where(logits.max() > 5, 2.0, 1.0)
    probs = torch.softmax(logits / temperature, dim=-1)
    with torch.no_grad():
        entropy = torch.special.entr(probs).masked_fill(probs <= 0.01, 0).sum()
        history.append(entropy)
    three = probs.topk(3).values.sum()
    return probs, torch.where(entropy > 1, three, probs.amax())
