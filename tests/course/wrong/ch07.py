# %% 07.1: one that is reused: the most at one time is 64 bytes, and you said 128
# -         elif reused := re.match(r"(\w+) = .*; del (\w+)  # reuse", line):
# -             alive[reused[1]] = alive.pop(reused[2])
# +
# - del alive[line[4:]]
# + alive.pop(line[4:], None)


# %% 07.1: one that is freed before the next
# -         elif line.startswith("del buf"):
# -             del alive[line[4:]]


# %% 07.1: rows that are padded, and another dtype
def peak_bytes(lines):
    import math
    import re

    alive, most = {}, 0
    for line in lines:
        if made := re.match(
            r"(\w+) = empty_strided_cpu\(\((.*?)\), .*torch.(\w+)", line
        ):
            sizes = [int(n) for n in re.findall(r"\d+", made[2])]
            alive[made[1]] = math.prod(sizes) * getattr(torch, made[3]).itemsize
        elif reused := re.match(r"(\w+) = (\w+); del \2", line):
            alive[reused[1]] = alive.pop(reused[2])
        elif line.startswith("del buf"):
            del alive[line[4:]]
        most = max(most, sum(alive.values()))
    return most
