# Answers to the exercises of notebook 26.  Each cell replaces its stub.


# %% 26.1
from torch.export import Dim, export


def export_it(model):
    """Return an exported program of *model*, for every batch and length."""
    x, mask = torch.randn(2, 6, 8), torch.ones(2, 6)
    both = {0: Dim("batch"), 1: Dim("length")}
    return export(model, (x, mask), dynamic_shapes=(both, both))


# %% 26.2
class Portable(torch.nn.Module):
    def forward(self, x, level):
        top = x.abs().max()
        new = torch.where(top > level, top, 0.9 * level + 0.1 * top)
        return x / new, new
