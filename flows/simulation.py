"""The placement simulation of a run: the later part of the trace, under policies with and without the model."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sojourn.features.creation import FeatureRows, build_rows
from sojourn.features.split import Examples, known_at
from sojourn.features.trace import Trace
from sojourn.flows.config import RetrainConfig
from sojourn.serving.encoder import Encoder
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


def asked_rows(workload: Workload, trace: Trace, rows: FeatureRows, encoder: Encoder) -> tuple[Examples, pd.Series]:
    """The feature rows of a workload's requests, and the request that each belongs to.

    Where the requests are the trace's own, rows are the trace's, with all the history that came before. Where
    a recipe made new ones (laps of openb), their history is replayed from nothing; the first lap is warm-up.
    """
    row_ids = trace.requests["request_id"].iloc[rows.idx_request]
    asked = set(workload.trace.requests["request_id"])
    if asked <= set(row_ids):
        is_asked = row_ids.isin(asked).to_numpy()
        return known_at(rows, is_asked, None, is_late_entry=False), row_ids[is_asked]
    own = build_rows(_with_all_columns(workload.trace, trace, encoder), encoder)
    everything = known_at(own, np.ones(len(own), bool), None, is_late_entry=False)
    return everything, workload.trace.requests["request_id"].iloc[own.idx_request]


def _with_all_columns(made: Trace, trace: Trace, encoder: Encoder) -> Trace:
    """A recipe's trace with the columns that it dropped (openb: gpu), from the request `ID` that `ID#LAP` repeats."""
    dropped = [column for column in encoder.columns() if column not in made.requests]
    source = made.requests["request_id"].astype(str).str.rsplit("#", n=1).str[0]
    originals = trace.requests.set_index(trace.requests["request_id"].astype(str))
    table = made.requests.assign(**{column: originals[column].loc[source].to_numpy() for column in dropped})
    return Trace(table, made.horizon_s, made.roles, meta=made.meta)
