"""The placement simulation of a run: the later part of the trace, under policies with and without the model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from sojourn.features.trace import SEEN_FROM, SEEN_TO, Trace
from sojourn.flows.settings.retrain import PlacementSettings, shape_options
from sojourn.simulator import WORKLOADS, Workload, build_workload


def later_part(trace: Trace, from_s: int) -> Trace:
    """The trace from `from_s` on: requests still running then, or arriving later; times count from there.

    What was running keeps its age as a negative arrival.
    """
    is_kept = (trace.end_s() > from_s) & (np.maximum(trace.start_s(), trace.begin_s) < trace.horizon_s)
    requests = trace.requests.loc[is_kept].drop(columns=[SEEN_FROM, SEEN_TO], errors="ignore")
    usage = trace.usage
    if usage is not None:
        usage = usage[usage["request_id"].isin(requests["request_id"])]
    return replace(trace, requests=requests, usage=usage).moved(-from_s, None)


def later_workload(recipe: str, settings: PlacementSettings, trace: Trace, from_s: int) -> Workload:
    """The workload on which the model is judged: the later part of the trace by a recipe that draws, or as it is."""
    if recipe in WORKLOADS and WORKLOADS[recipe].is_drawn:
        return later_workload_of(recipe, trace, from_s, load=settings.load, seed=settings.seed)
    return later_workload_of("trace", trace, from_s, load=settings.load, seed=settings.seed,
                             **shape_options(settings.host_cpu_cores, settings.host_mem_gib))


def later_workload_of(recipe: str, trace: Trace, from_s: int, **options: Any) -> Workload:
    """What a recipe makes of the part of a trace from `from_s` on; nothing that was decided before arrives in it.

    A recipe that draws repeats the requests of the later part; else the later part runs once, starting warm with what
    was running, and its first tenth is not measured. Requests with an unknown start are left out.
    """
    if WORKLOADS[recipe].is_drawn:
        is_later = trace.is_start_known() & (trace.start_s() >= from_s)
        return build_workload(recipe, trace.select(is_later), **options)
    part = later_part(trace, from_s)
    known = part.select(part.is_start_known())
    return build_workload(recipe, known, warmup_s=part.horizon_s // 10, **options)


def positions_of(request_ids: pd.Series, known_ids: pd.Series) -> np.ndarray:
    """The place of each request among the known ones, int64 (n,), -1 for a stranger.

    A recipe's copy `ID#...` of a request (copies and laps of openb) has its original's.

    >>> positions_of(pd.Series(["b", "a#0.1", "c"]), pd.Series(["a", "b"])).tolist()
    [1, 0, -1]
    """
    known = pd.Index(known_ids.astype(str))
    text = request_ids.astype(str)
    idx = known.get_indexer(pd.Index(text))
    is_copy = idx < 0
    idx[is_copy] = known.get_indexer(pd.Index(text[is_copy].str.rsplit("#", n=1).str[0]))
    return np.asarray(idx, np.int64)
