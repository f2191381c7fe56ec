# %% 17.1: the two are multiplied when it is made
class Free(torch.Tensor):
    @staticmethod
    def __new__(cls, raw, scale):
        like = {"dtype": raw.dtype, "device": raw.device, "strides": raw.stride()}
        return torch.Tensor._make_wrapper_subclass(cls, raw.shape, **like)

    def __init__(self, raw, scale):
        self.dense = raw * scale

    def __tensor_flatten__(self):
        return ["dense"], None

    @staticmethod
    def __tensor_unflatten__(inner, rest, size, stride):
        return Free(inner["dense"], 1.0)

    @classmethod
    def __torch_dispatch__(cls, op, types, args=(), kwargs=None):
        from torch.utils._pytree import tree_map

        def plain(a):
            return a.dense if isinstance(a, cls) else a

        return op(*tree_map(plain, args), **(kwargs or {}))
