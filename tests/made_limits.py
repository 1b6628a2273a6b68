"""A trace whose requests are killed at limits that they state."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sojourn.features import Trace
from sojourn.features.synthetic import synthesize

LIMITS_S = np.array([300, 900, 3_600, 7_200, 43_200])


def limited_trace(n: int, seed: int) -> Trace:
    """Requests with a limit of five, killed up to half a minute after it; one in ten states none, one in fifty 20 s."""
    trace = synthesize(n, seed=seed).since_begin()
    rng = np.random.default_rng(seed)
    started = trace.requests["arrival_s"].fillna(-1) >= 0
    requests = trace.requests[started].reset_index(drop=True)
    drawn = rng.choice(LIMITS_S, len(requests))
    limit_s = np.where(rng.random(len(requests)) < 0.02, 20, drawn).astype(np.float64)
    killed_s = limit_s + rng.integers(0, 30, len(requests))
    has_limit = rng.random(len(requests)) >= 0.1
    arrival_s = requests["arrival_s"].to_numpy(np.float64, na_value=np.nan)
    end_s = requests["departure_s"].to_numpy(np.float64, na_value=np.inf)
    cut_s = np.where(has_limit, np.minimum(end_s, arrival_s + killed_s), end_s)
    departures = requests["departure_s"].copy()
    departures[:] = [None if not cut < np.inf or cut > trace.horizon_s else int(cut) for cut in cut_s.tolist()]
    requests["departure_s"] = departures
    requests["requested_s"] = np.where(has_limit, limit_s, np.nan)
    return replace(trace, requests=requests,
                   roles=replace(trace.roles, numbers=(*trace.roles.numbers, "requested_s")))
