"""The limit that a request states (a batch job's requested time), and how its owners' habits stand to it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sojourn.serving.inputs.owner import OWNER_FEATURES
from sojourn.serving.jitable import register_jitable

LIMIT = "requested_s"
"""The number of a request that is read as its limit, seconds."""
LIMIT_MIN_S, LIMIT_MAX_S = 60.0, 3.0 * 365.0 * 86_400.0
"""Other limits are read as none. Kills come tens of seconds late: beside a shorter limit they tell nothing of it."""
OF_LIMIT = ("mean", "last")
"""Of each owner key, what is set against the limit: log10 of the lifetime over the limit, 0 = the whole of it."""
_PLACES = tuple(OWNER_FEATURES.index(part) for part in OF_LIMIT)


@register_jitable
def has_limit(limit_s: float) -> bool:
    """Whether a number of seconds is read as a limit; not NaN.

    >>> has_limit(3_600.0), has_limit(math.nan), has_limit(1.0)
    (True, False, False)
    """
    return LIMIT_MIN_S <= limit_s <= LIMIT_MAX_S


@register_jitable
def limit_log10(limit_s: float) -> float:
    """log10 of a limit in seconds; NaN where it is none.

    >>> limit_log10(1_000.0), limit_log10(1.0)
    (3.0, nan)
    """
    return math.log10(limit_s) if has_limit(limit_s) else math.nan


@register_jitable
def fill_limit_features(limit_s: float, is_owner: Sequence[Any], n_owner: int, n_category: int, start: int,
                        features: Any, at: int) -> int:
    """Write what stands to the limit of each owner key into features[at:], from its history features; returns the end.

    is_owner: of each history key, the others are categories; n_owner, n_category: how many features each has.
    start: where the history features begin.
    """
    level = limit_log10(limit_s)
    for idx in range(len(is_owner)):
        if is_owner[idx]:
            for place in _PLACES:
                features[at] = features[start + place] - level
                at += 1
            start += n_owner
        else:
            start += n_category
    return at


def limit_feature_names(owners: Sequence[str]) -> tuple[str, ...]:
    """Names of those features, of the owner keys in order.

    >>> limit_feature_names(("user",))
    ('user:mean/limit', 'user:last/limit')
    """
    return tuple(f"{owner}:{part}/limit" for owner in owners for part in OF_LIMIT)
