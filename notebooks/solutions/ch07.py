# Answers to the exercises of notebook 07. Try first: a hint costs nothing.


# %% 07.1
def predict_bytes(steps, sizes, results):
    """Return the bytes that a program moves: (eager, compiled)."""
    runs, before = [], None
    for step in steps:
        if step[1] == before == "pointwise":
            runs[-1].append(step)
        else:
            runs.append([step])
        before = step[1]
    eager = sum(sizes[n] for made, _, taken in steps for n in {made, *taken})
    compiled = 0
    for run in runs:
        made = {step[0] for step in run}
        outside = [step for step in steps if step not in run]
        needed = {*results, *(n for step in outside for n in step[2])}
        read = {n for step in run for n in step[2]} - made
        compiled += sum(sizes[n] for n in read | (made & needed))
    return eager, compiled


# %% 07.2
def lean(x, gain):
    """Return scores(x, gain), in one kernel."""
    h = torch.relu(x) * gain  # what a diagonal matrix does to columns
    return (h - h.amax(-1, keepdim=True)).exp()


# %% 07.3
def mended_step(p, grad, m):
    """Do what momentum_step does, in one kernel when compiled."""
    grad = grad.clamp(-1, 1)  # does nothing to what is small already
    m.mul_(0.9).add_(grad)
    p.sub_(0.1 * m)
    return p, m
