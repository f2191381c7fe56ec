# %% 20.1: the largest distance so far, at each step, and a tensor as the answer
def same_training(train):
    runs = (torch.float64, False), (torch.float32, False), (torch.float32, True)
    exact, *both = (torch.tensor(train(*run), dtype=torch.float64) for run in runs)
    eager, ours = ((run - exact).abs().cummax(0).values for run in both)
    return (ours <= 4 * eager + 1e-6).all() & ours.isfinite().all()
