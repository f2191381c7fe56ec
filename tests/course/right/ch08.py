# %% 08.1: by arithmetic, without where
def lost(a, b, c):
    h = a * b
    yes = (h > 0).to(a.dtype)
    return yes * h + (1 - yes) * a * 0.1 + c.reshape(50, 1)


# %% 08.2: d once more, outside of the row
# -     d = tl.where(i < columns, v - tl.sum(v, 0) / columns, 0.0)
# -     variance = tl.sum(d * d, 0) / columns
# +     d = v - tl.sum(v, axis=0) / columns
# +     variance = tl.sum(tl.where(i < columns, d * d, 0.0), axis=0) / columns
# - d / tl.sqrt(variance + 1e-6)
# + d * tl.rsqrt(variance + 1e-6)
