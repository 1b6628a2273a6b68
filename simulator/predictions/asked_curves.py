"""A source asked for the curves of a workload's requests, and what is said where it gives none that can be used."""

from __future__ import annotations

import pandas as pd

from sojourn.simulator.predictions.sources import BadCurve, Curves, LifetimeSource
from sojourn.simulator.workloads import Workload


def asked_curves(workload: Workload, policy: str, source: LifetimeSource) -> Curves:
    """One curve per request; else ValueError that names the policy, the first request without one, and its arrival."""
    requests = workload.trace.requests
    try:
        curves = source.curves(requests)
    except Exception as error:
        row = error.row if isinstance(error, BadCurve) else _first_raising(source, requests)
        raise ValueError(f"source must predict every request, but {_told(workload, policy, row)} it raised "
                         f"{type(error).__name__}: {error}") from error
    if not isinstance(curves, Curves):
        raise ValueError(f"source must give Curves for policy {policy!r}, got {type(curves).__name__}")
    if len(curves) != len(requests):
        row = min(len(curves), len(requests) - 1)
        raise ValueError(f"curves must be one per request ({len(requests)}), got {len(curves)}: see "
                         f"{_told(workload, policy, row)[:-1]}")
    return curves


def _told(workload: Workload, policy: str, row: int) -> str:
    if not 0 <= row < len(workload.placed_s):
        return f"for policy {policy!r}, asked for all requests together,"
    name = workload.request_ids[[row]].tolist()[0]
    return f"for policy {policy!r}, request {name!r} that arrives at {workload.placed_s[row]} s,"


def _first_raising(source: LifetimeSource, requests: pd.DataFrame) -> int:
    """The first row for which the source raises when asked for it alone, found by halves; -1 where there is none."""
    first, end = 0, len(requests)
    while end - first > 1:
        middle = (first + end) // 2
        if _is_raising(source, requests.iloc[first:middle]):
            end = middle
        elif _is_raising(source, requests.iloc[middle:end]):
            first = middle
        else:
            return -1
    return first


def _is_raising(source: LifetimeSource, requests: pd.DataFrame) -> bool:
    try:
        source.curves(requests)
    except Exception:
        return True
    return False
