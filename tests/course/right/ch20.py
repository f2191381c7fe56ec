# Other right answers to the exercises of notebook 20.


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


# %% 20.2: the whole loss is written into a tensor that is there before
def mended(model, batches, backend):
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    schedule = OneCycleLR(optimizer, 0.05, total_steps=len(batches))
    losses = torch.zeros(len(batches))
    compiled = torch.compile(model, backend=backend)
    for number, x in enumerate(batches):
        loss = compiled(x).square().mean()
        losses[number] = loss.detach()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    return losses.tolist()
