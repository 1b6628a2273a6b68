"""A trace with known truth: each owner has a habit of its own, and of all requests one in so many ends at once."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sojourn.features import Roles, Trace

SPAN_S = 60 * 86_400
N_OWNERS = 60


def instant_trace(n: int, share: float, seed: int) -> Trace:
    """Owners' lifetimes lie close to a median of their own, from a minute to a day; `share` of all are 0 or 1 s, drawn
    apart from the habit. The other requests are the same whatever the share."""
    rng = np.random.default_rng(seed)
    arrival_s = np.sort(rng.integers(0, SPAN_S, n))
    owner = rng.integers(0, N_OWNERS, n)
    habit = rng.uniform(np.log10(60.0), np.log10(86_400.0), N_OWNERS)
    lifetime_s = (10.0 ** rng.normal(habit[owner], 0.2)).astype(np.int64) + 2
    is_instant = rng.random(n) < share
    end_s = arrival_s + np.where(is_instant, rng.integers(0, 2, n), lifetime_s)
    departure_s = pd.array(end_s, "Int64")
    departure_s[end_s > SPAN_S] = pd.NA
    table = pd.DataFrame({"request_id": np.arange(n), "arrival_s": arrival_s, "departure_s": departure_s,
                          "cpu_cores": 1.0, "mem_gib": 4.0, "user": [f"u{each}" for each in owner.tolist()]})
    return Trace(table, SPAN_S, Roles(owners=("user",)))
