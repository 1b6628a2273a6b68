"""The placement simulation of a run: the later part of the trace, under policies with and without the model."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sojourn.features.creation import FeatureRows
from sojourn.features.split import Examples, known_at
from sojourn.features.trace import Trace
from sojourn.flows.config import RetrainConfig
from sojourn.simulator import Workload, build_workload


def later_part(trace: Trace, from_s: int) -> Trace:
    """The trace from `from_s` on: requests still running then, or arriving later; times count from there.

    What was running keeps its age as a negative arrival.
    """
    arrival_s = trace.start_s()
    end_s = trace.end_s()
    is_kept = (end_s > from_s) & (np.maximum(arrival_s, 0) < trace.horizon_s)
    requests = trace.requests.loc[is_kept].copy()
    for name in ("arrival_s", "departure_s"):
        requests[name] = requests[name] - from_s
    if "submit_s" in requests:
        requests["submit_s"] = requests["submit_s"] - from_s
    return Trace(requests, trace.horizon_s - from_s, trace.roles, trace.hosts, None, trace.meta)


def later_workload(config: RetrainConfig, trace: Trace, from_s: int) -> Workload:
    """The workload on which the model is judged: nothing that it was trained on arrives in it.

    `openb` repeats the pods of the later part; else the later part runs once, starting warm with what was
    running, and its first tenth is not measured. Requests with an unknown start are left out.
    """
    if config.workload == "openb" or (config.workload is None and config.reader == "openb"):
        is_later = trace.is_start_known() & (trace.start_s() >= from_s)
        return build_workload("openb", trace.select(is_later), load=config.load, seed=config.seed)
    part = later_part(trace, from_s)
    known = part.select(part.is_start_known())
    return build_workload("trace", known, cpu_cores=config.host_cpu_cores, mem_gib=config.host_mem_gib,
                          load=config.load, warmup_s=part.horizon_s // 10, seed=config.seed)


def asked_rows(workload: Workload, trace: Trace, rows: FeatureRows) -> tuple[Examples, pd.Series]:
    """The feature rows of a workload's requests, and the request that each belongs to.

    Rows are the trace's, with all the history that came before. A recipe's copy `ID#...` of a request (copies
    and laps of openb) has the row of its original: a history replayed over the copies would see each request's
    own near-copies end before it.
    """
    row_ids = trace.requests["request_id"].iloc[rows.idx_request]
    row_of = pd.Series(np.arange(len(rows)), index=row_ids.astype(str).to_numpy())
    asked = workload.trace.requests["request_id"]
    text = asked.astype(str)
    idx = row_of.reindex(text.where(text.isin(row_of.index), text.str.rsplit("#", n=1).str[0])).to_numpy()
    is_found = ~np.isnan(idx)
    everything = known_at(rows, np.ones(len(rows), bool), None, is_late_entry=False)
    return everything.take(idx[is_found].astype(np.int64)), asked[is_found]
