# %% 07.1: with real memory on the meta device
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
