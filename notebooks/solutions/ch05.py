# Answers to the exercises of lesson 05. Try first: a hint costs nothing.


# %% 05.1
def repaired(logits, temperature, history):
    """Return what sampled returns, captured as one graph."""
    assert (~torch.isnan(logits)).all(), "the model has diverged"
    logits = torch.where(logits.max() > 5, logits / 2, logits)
    probs = torch.softmax(logits / temperature, dim=-1)
    likely = probs > 0.01
    logs = torch.where(likely, probs, 1).log()  # no log of 0: its slope is NaN
    entropy = -torch.where(likely, probs * logs, 0).sum()
    history.append(entropy.detach().clone())  # a number, as .item() was
    three = probs.topk(3).values.sum()
    return probs, torch.where(entropy > 1, three, probs.max()), entropy
