# Other right answers to the exercises of notebook 29.


# %% 29.1: by the names of all modules
def compiled_parts(model):
    found, named = {}, dict(model.named_modules(remove_duplicate=False))
    wrapper = torch._dynamo.OptimizedModule

    def bare(name):
        kept, above = [], named[""]
        for piece in name.split(".") if name else []:
            if not isinstance(above, wrapper):
                kept.append(piece)
            above = above.get_submodule(piece)
        return ".".join(kept)

    for name, part in named.items():
        if isinstance(part, wrapper):
            found[bare(name)] = "wrapper"
        elif part._compiled_call_impl is not None:
            found[bare(name)] = "both" if bare(name) in found else "in place"
    return found


# %% 29.2: walking from part to part
def portable(model):
    state = {}

    def walk(part, name):
        if isinstance(part, torch._dynamo.OptimizedModule):
            walk(part._orig_mod, name)
        elif isinstance(part, torch.nn.DataParallel):
            walk(part.module, name)
        else:
            own = {k: t for k, t in part.state_dict().items() if "." not in k}
            state.update({name + key: tensor for key, tensor in own.items()})
            for key, child in part.named_children():
                walk(child, f"{name}{key}.")

    walk(model, "")
    return state
