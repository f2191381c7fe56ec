# %% 20.1: as arrays
def same_training(train):
    import numpy as np

    runs = (torch.float64, False), (torch.float32, False), (torch.float32, True)
    exact, eager, ours = (np.array(train(*run)) for run in runs)
    return abs(ours - exact).max() <= 4 * abs(eager - exact).max() + 1e-6
