# Other right answers to the exercises of notebook 19.


# %% 19.2: the whole loss is written into a tensor that is there before
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
