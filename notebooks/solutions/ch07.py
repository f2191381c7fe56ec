# Answers to the exercises of lesson 07. Try first: a hint costs nothing.


# %% 07.1
def peak_bytes(lines):
    """Return the largest number of bytes that buffers hold at one time."""
    import re

    new = r"(\w+) = empty_strided_\w+\(\((.*?)\), \((.*?)\), torch\.(\w+)\)"
    alive, peak = {}, 0
    for line in lines:
        if made := re.match(new, line):
            name, *numbers, dtype = made.groups()
            sizes, strides = (map(int, re.findall(r"\d+", n)) for n in numbers)
            pairs = zip(sizes, strides, strict=True)
            elements = 1 + sum((size - 1) * stride for size, stride in pairs)
            alive[name] = elements * getattr(torch, dtype).itemsize
        elif reused := re.match(r"(\w+) = .*; del (\w+)  # reuse", line):
            alive[reused[1]] = alive.pop(reused[2])
        elif line.startswith("del buf"):
            del alive[line[4:]]
        peak = max(peak, sum(alive.values()))
    return peak
