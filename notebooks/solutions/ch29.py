# Answers to the exercises of notebook 29. Try first: a hint costs nothing.


# %% 29.1
def compiled_parts(model):
    """Return {name: how} for each part of *model* that is compiled."""
    found = {}

    def walk(part, name, wrapped=False):
        if isinstance(part, torch._dynamo.OptimizedModule):
            walk(part._orig_mod, name, wrapped=True)
            return
        placed = part._compiled_call_impl is not None
        how = ["", "in place", "wrapper", "both"][2 * wrapped + placed]
        if how:
            found[name] = how
        for child, inner in part.named_children():
            walk(inner, f"{name}.{child}".lstrip("."))

    walk(model, "")
    return found


# %% 29.2
def portable(model):
    """Return the state_dict of *model*, named as if nothing was wrapped."""
    wrappers = torch._dynamo.OptimizedModule, torch.nn.DataParallel
    named = dict(model.named_modules(remove_duplicate=False))

    def bare(name):
        """Return a name without the pieces that wrappers put in."""
        kept, above = [], ""
        for piece in name.split("."):
            if not isinstance(named.get(above), wrappers):
                kept.append(piece)
            above = f"{above}.{piece}".lstrip(".")
        return ".".join(kept)

    return {bare(name): tensor for name, tensor in model.state_dict().items()}
