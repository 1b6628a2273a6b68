"""What counts as long-lived, the ages at which predictions are asked again, and their short names."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from sojourn.features.split import Examples

AGES_S = (600, 3_600, 21_600)
"""Absolute ages at which remaining times are scored: 10 min, 1 h, 6 h."""
CLASS_THRESHOLDS_S: Mapping[str, tuple[int, ...]] = MappingProxyType({
    "dvla": (3_600, 86_400, 604_800, 2_592_000), "lava": (3_600, 36_000, 360_000),
})  # fmt: skip
"""Between the lifetime classes of two schedulers: DVLA's 1 h, 1 d, 7 d, 30 d; LAVA's 1 h, 10 h, 100 h."""
UPTIME_SHARES = tuple(step / 20.0 for step in range(20))
"""Shares of each request's own lifetime (LAVA, figure 9)."""
_LADDER_S = (600, 3_600, 7_200, 21_600, 43_200, 86_400, 172_800, 604_800)
_N_LONG_SHARE = 0.04


def time_label(seconds: float) -> str:
    """A short name of a time: `10m`, `12h`, `7d`.

    >>> [time_label(s) for s in (600, 43_200, 86_400, 604_800)]
    ['10m', '12h', '1d', '7d']
    """
    if seconds % 86_400 == 0 and seconds > 0:
        return f"{int(seconds // 86_400)}d"
    if seconds % 3_600 == 0:
        return f"{int(seconds // 3_600)}h"
    return f"{int(seconds // 60)}m"


def choose_threshold(train: Examples) -> int:
    """The trace's own "long-lived", in seconds: the longest of a ladder (10 min to 7 d) that at least 4 % outlive.

    Looks at training labels only; a censored request counts with its time so far.
    """
    shares = [(train.lifetime_s > bound).mean() for bound in _LADDER_S]
    fitting = [bound for bound, share in zip(_LADDER_S, shares, strict=True) if share >= _N_LONG_SHARE]
    return fitting[-1] if fitting else _LADDER_S[0]


def alive_at(rows: Examples, age_s: float) -> np.ndarray:
    """bool (n,): seen alive at that age."""
    return (rows.lifetime_s > age_s) & (rows.entry_s <= age_s)
