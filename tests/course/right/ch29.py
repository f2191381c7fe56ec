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
            for key, child in part._modules.items():
                walk(child, f"{name}{key}.")

    walk(model, "")
    return state
