# Other right answers to the exercises of notebook 24.


# %% 24.1: two rules joined by torch's own functions
def streaming(window, first):
    from torch.nn.attention.flex_attention import and_masks, or_masks

    numbers = torch.tensor([window, first])
    return and_masks(
        lambda b, h, i, j: i >= j,
        or_masks(
            lambda b, h, i, j: i < j + numbers[0],
            lambda b, h, i, j: j < numbers[1],
        ),
    )


# %% 24.2: by where each text begins, with the row filled up to whole blocks
def attend_all(attend, texts):
    import itertools

    from torch.nn.attention.flex_attention import create_block_mask

    lengths = torch.tensor([q.shape[2] for q, _, _ in texts])
    ends = lengths.cumsum(0)
    n = -(-int(ends[-1]) // 128) * 128
    own = torch.bucketize(torch.arange(n), ends, right=True)
    rest = torch.zeros(1, texts[0][0].shape[1], n - int(ends[-1]), 64)
    q, k, v = (torch.cat([*parts, rest], 2) for parts in zip(*texts, strict=True))
    blocks = create_block_mask(
        lambda b, h, i, j: (own[i] == own[j]) & (j <= i), 1, 1, n, n, device="cpu"
    )
    out = attend(q, k, v, block_mask=blocks)
    starts = [0, *ends.tolist()]
    return [out[:, :, a:b] for a, b in itertools.pairwise(starts)]


# %% 24.3: fewer queries and keys at a time
options = {"BLOCK_M": 16, "BLOCK_N": 32, "num_stages": 1}
