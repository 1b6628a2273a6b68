"""Only what a predictor says at a request's start."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sojourn.simulator.predictions.sources import Curves, LifetimeSource


class OneShot:
    """The prediction at uptime 0 of another source, never asked again; an outlived one doubles.

    What it says there of the whole distribution (`overhang_s`) stays.

    >>> from sojourn.simulator.predictions.sources import Held
    >>> curves = Curves(np.array([0, 2]), np.array([0, 600]), np.array([900, 7200]))
    >>> OneShot(Held(["a"], curves)).curves(pd.DataFrame({"request_id": ["a"]})).total_at(0, 1000)
    1800
    """

    def __init__(self, source: LifetimeSource, *, is_distribution_kept: bool = True) -> None:
        """is_distribution_kept: False leaves `overhang_s` out, for policies that do not read it: one breakpoint a
        curve, and the same totals at every uptime."""
        self._source = source
        self._is_distribution_kept = is_distribution_kept

    def curves(self, requests: pd.DataFrame) -> Curves:
        """The source's curves with the totals of their first breakpoints."""
        whole = self._source.curves(requests)
        if whole.overhang_s is not None and self._is_distribution_kept:
            return _doubling(whole, whole.overhang_s)
        first = whole.offsets[:-1]
        return Curves(np.arange(len(first) + 1), whole.uptime_s[first], whole.total_s[first], whole.index)


def _doubling(whole: Curves, overhang_s: np.ndarray) -> Curves:
    """The distribution's breakpoints, and among them those at which the first total and its doubles are outlived."""
    first, last = whole.offsets[:-1], whole.offsets[1:] - 1
    total_s = np.maximum(whole.total_s[first], 1)
    n_outlived = _bit_length(np.maximum(whole.uptime_s[last] - 1, 0) // total_s)
    outlived = np.repeat(np.arange(len(first)), n_outlived)
    power = np.arange(len(outlived)) - np.repeat(np.cumsum(n_outlived) - n_outlived, n_outlived)

    curve = np.append(np.repeat(np.arange(len(first)), last - first + 1), outlived)
    uptime_s = np.append(whole.uptime_s, total_s[outlived] << power)
    is_own = np.arange(len(curve)) < len(overhang_s)
    order = np.lexsort((~is_own, uptime_s, curve))
    curve, uptime_s, is_own = curve[order], uptime_s[order], is_own[order]

    before = np.cumsum(is_own) - 1
    after = np.minimum(before + 1, len(overhang_s) - 1)
    span_s = np.maximum(whole.uptime_s[after] - whole.uptime_s[before], 1)
    share = np.where(is_own, 0.0, (uptime_s - whole.uptime_s[before]) / span_s)
    between_s = np.rint(overhang_s[before] - share * (overhang_s[before] - overhang_s[after])).astype(np.int64)
    is_kept = np.append(True, (np.diff(curve) != 0) | (np.diff(uptime_s) != 0))
    curve, uptime_s = curve[is_kept], uptime_s[is_kept]
    return Curves(np.searchsorted(curve, np.arange(len(first) + 1)), uptime_s,
                  total_s[curve] << _bit_length(uptime_s // total_s[curve]), whole.index, between_s[is_kept])


def _bit_length(numbers: np.ndarray) -> np.ndarray:
    """Of whole numbers from 0 to 2^53: the fewest doublings of 1 that exceed each, int64."""
    return np.frexp(numbers.astype(np.float64))[1].astype(np.int64)
