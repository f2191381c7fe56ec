# %% 29.1: torch.compile(net): what is compiled is {'': 'wrapper'}
# - name, wrapped=True)
# + name)


# %% 29.1: net.compile(): what is compiled is {'': 'in place'}
# -         placed = part._compiled_call_impl is not None
# +         placed = False


# %% 29.1: the model was called
# - found = {}
# + found, _ = {}, model(torch.ones(1, 4))


# %% 29.1: a wrapped model with a part called _orig_mod
# -     return found
# +     return {name.replace("._orig_mod.", "."): how for name, how in found.items()}


# %% 29.1: a block in place, then wrapped
# - "both"][2 * wrapped + placed]
# + "wrapper" if name else "both"][2 * wrapped + placed]


# %% 29.2: torch.compile(net): '_orig_mod.blocks.0.inner.bias' is not in
def portable(model):
    return model.state_dict()


# %% 29.2: a bare model: 'module.bias' is not in
# - {bare(name): tensor for name
# + {name.replace("_orig_mod.", "").replace(".module.", "."): tensor for name


# %% 29.2: a tensor isn't the model's own
# -     return {bare(name): tensor for name, tensor in model.state_dict().items()}
# +     return {bare(n): t.clone() for n, t in model.state_dict().items()}


# %% 29.2: a wrapped block: the model has changed
def portable(model):
    wrappers = torch._dynamo.OptimizedModule, torch.nn.DataParallel

    def unwrap(part):
        while isinstance(part, wrappers):
            part = next(part.children())
        for name, child in part.named_children():
            setattr(part, name, unwrap(child))
        return part

    return unwrap(model).state_dict()


# %% 29.2: 'scratch' is not in
# - model.state_dict().items()}
# + [*model.named_parameters(), *model.named_buffers()]}


# %% 29.2: a wrapped block, one block at two places: 'blocks.1._orig_mod
# - named_modules(remove_duplicate=False)
# + named_modules()


# %% 29.1: the model has changed
# -         placed = part._compiled_call_impl is not None
# +         placed = part.__dict__.pop("_compiled_call_impl", None) is not None
