# Wrong answers to the exercises of notebook 19, each with what it must be told.


# %% 19.1: a training that is hard on eager too: you say False
def same_training(train):
    eager = torch.tensor(train(torch.float32, False))
    return torch.allclose(torch.tensor(train(torch.float32, True)), eager)


# %% 19.1: a step lost in the middle, which recovers: you say True
def same_training(train):
    exact = train(torch.float64, False)[-1]
    eager = train(torch.float32, False)[-1]
    ours = train(torch.float32, True)[-1]
    return abs(ours - exact) <= 4 * abs(eager - exact) + 1e-6


# %% 19.1: losses that become NaN: you say True
def same_training(train):
    exact = train(torch.float64, False)
    eager = train(torch.float32, False)
    ours = train(torch.float32, True)
    most = max(abs(a - b) for a, b in zip(eager, exact, strict=True))
    pairs = zip(ours, exact, strict=True)
    return not any(abs(a - b) > 4 * most + 1e-6 for a, b in pairs)


# %% 19.2: another training: the loss of step 3
def mended(model, batches, backend):
    optimizer = torch.optim.SGD(model.parameters(), torch.tensor(0.01), momentum=0.9)
    schedule = OneCycleLR(
        optimizer, 0.05, total_steps=len(batches), cycle_momentum=False
    )
    step = torch.compile(optimizer.step, backend=backend)
    loss_of = torch.compile(lambda x: model(x).square().mean(), backend=backend)
    losses = []
    for x in batches:
        loss = loss_of(x)
        losses.append(loss.item())
        loss.backward()
        step()
        optimizer.zero_grad()
        schedule.step()
    return losses


# %% 19.2: graphs in 12 steps, and 2 are allowed
def mended(model, batches, backend):
    optimizer = torch.optim.SGD(model.parameters(), torch.tensor(0.01), momentum=0.9)
    schedule = OneCycleLR(optimizer, 0.05, total_steps=len(batches))
    loss_of = torch.compile(lambda x: model(x).square().mean(), backend=backend)
    step = torch.compile(optimizer.step, backend=backend)
    losses = []
    for x in batches:
        loss = loss_of(x)
        losses.append(loss.item())
        loss.backward()
        step()
        optimizer.zero_grad()
        schedule.step()
    return losses


# %% 19.2: compiled code ran 0 times in 12 steps
def mended(model, batches, backend):
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    schedule = OneCycleLR(optimizer, 0.05, total_steps=len(batches))
    losses = []
    for x in batches:
        loss = model(x).square().mean()
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    return losses
