# %% 20.1: the largest distance so far, at each step, as the lesson's own judge has it
from itertools import accumulate


def same_training(train):
    exact, eager = train(torch.float64, False), train(torch.float32, False)
    ours = train(torch.float32, True)

    def farthest(run):
        shifts = (abs(a - b) for a, b in zip(run, exact, strict=True))
        return accumulate(shifts, max)

    both = zip(farthest(ours), farthest(eager), strict=True)
    near = all(mine <= 4 * theirs + 1e-6 for mine, theirs in both)
    return near and bool(torch.tensor(ours).isfinite().all())
