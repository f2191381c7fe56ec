"""Each Python of `make test` looks less often for cycles among its objects.

A compile makes objects by the hundred thousand, and few of them are cycles: to look
after every 700 takes an eighth of its time.
"""

import gc

gc.set_threshold(50_000, 20, 50)
