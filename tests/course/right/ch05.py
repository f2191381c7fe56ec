# %% 05.1: torch.cond, and no gradient for history
def repaired(logits, temperature, history):
    assert torch.isnan(logits).sum() == 0, "the model has diverged"
    logits = logits / torch.where(logits.max() > 5, 2.0, 1.0)
    probs = torch.softmax(logits / temperature, dim=-1)
    entropy = torch.special.entr(torch.where(probs > 0.01, probs, 1)).sum()
    with torch.no_grad():
        history.append(entropy * 1)
    first = probs.sort(descending=True).values
    sure = torch.cond(
        entropy > 1, lambda p: p[:3].sum(), lambda p: p[0].clone(), (first,)
    )
    return probs, sure, entropy
