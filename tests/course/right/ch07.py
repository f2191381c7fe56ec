# Other right answers to the exercises of lesson 07.


# %% 07.1: a division, and torch.matmul
def recognised(q, k, v):
    scores = torch.matmul(q, k.transpose(-2, -1)).div(q.shape[-1] ** 0.5)
    return torch.matmul(torch.nn.functional.softmax(scores, dim=-1), v)


# %% 07.2: with real memory on the meta device
def peak_bytes(lines):
    import re

    held, most = {}, 0
    for line in lines:
        name, _, rest = line.partition(" = ")
        if rest.startswith("empty_strided"):
            call = re.sub(r"^\w+", "", rest)
            size, stride, dtype = eval(call, {"torch": torch})
            made = torch.empty_strided(size, stride, dtype=dtype, device="meta")
            held[name] = made.untyped_storage().nbytes()
        elif "# reuse" in rest:
            held[name] = held.pop(rest.partition("; del ")[2].split()[0])
        elif line.startswith("del "):
            held.pop(line.split()[1], None)
        most = max(most, sum(held.values()))
    return float(most)
