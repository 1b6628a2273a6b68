"""How much of the possible gain a policy has, over one replay or several."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def gap_closed_pct(gain_pp: ArrayLike, best_fit_pct: ArrayLike, bound_pct: ArrayLike) -> float:
    """The mean gain as a share of best-fit's mean distance to the bound, %; NaN where that is not above 0.

    Higher = better. gain_pp: over best-fit on the same workload, float64 (n_replays,) or one number, as best_fit_pct
    and bound_pct: the empty hosts of best-fit and of the bound there, %. A ratio of means: the mean of each replay's
    ratio would be decided by the replays whose distance happens to be small.

    >>> gap_closed_pct([1.0, 1.0], best_fit_pct=[20.0, 29.5], bound_pct=[30.0, 30.0])  # replay by replay: 10 and 200 %
    19.047619047619047
    """
    gap = float(np.mean(np.asarray(bound_pct, np.float64) - np.asarray(best_fit_pct, np.float64)))
    return 100.0 * float(np.mean(np.asarray(gain_pp, np.float64))) / gap if gap > 0.0 else float("nan")
