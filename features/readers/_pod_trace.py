"""The trace of a recording of pods, by kubectl or the extender."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._ending import (
    all_requests,
    cut_at,
    horizon_of,
    origin_of,
    since_start,
    trace_of,
    without_ended,
)
from sojourn.features.readers._placement_log import is_placement_log, placement_table
from sojourn.features.readers._pod_table import TIMES, PodTable, kubectl_table
from sojourn.features.readers._stamps import checked_timezone, moment
from sojourn.features.trace import Roles, Trace
from sojourn.serving.inputs import POD_NAMES

_CATEGORIES = tuple(name for name in POD_NAMES if name not in ("namespace", "controller"))
_AT_END = ("phase", "n_restarts", "ended_after_s", "ended_by_s")


def pod_trace(source: Path, timezone: str | None, seed: int, horizon_s: int | None) -> tuple[Trace, ReadReport]:
    """As `read_kubernetes`."""
    ledger = ReadLedger()
    zone = checked_timezone(timezone) if timezone else None
    if is_placement_log(source):
        table = placement_table(source, seed, ledger)
    else:
        table = kubectl_table(source, zone, seed, ledger)
    requests = all_requests([table.requests], source, "pod that ran", ledger)
    requests, origin_s, is_from_list = _on_clock(requests, table, ledger)
    last_s = requests.pop("last_s").to_numpy(np.int64)
    recorded_s = table.last_s - origin_s
    if not len(last_s) or recorded_s > last_s.max():  # else a pod has this time, which must not count twice
        last_s = np.append(last_s, math.floor(max(recorded_s, 0)))
    if horizon_s is None and int(last_s.max()) <= 0:
        raise ValueError(f"{source}: the last time must lie after the first, got one moment alone; record a second "
                         "list later")
    horizon = horizon_of(last_s, since_start(horizon_s, origin_s, int(last_s.max())), n_rows=len(last_s))
    requests = cut_at(requests.drop(columns="file"), horizon, ledger, source.name)
    roles = _roles(requests, table.owners)
    n_running, n_before = int(requests["departure_s"].isna().sum()), int((requests["arrival_s"] < 0).sum())
    begin = "the begin of recording" if is_from_list else "the first end"
    ledger.note(f"second 0 is {moment(origin_s)}, {begin}; {n_before:,} pods began before it")
    ledger.note(f"{n_running:,} of {len(requests):,} pods have no end and still run at the horizon, "
                f"{horizon.time_s:,} s = {moment(origin_s + horizon.time_s)}")
    meta = {"source": f"Kubernetes, {source.name}", "licence": "the user's own", "start_unix_s": origin_s,
            "known_at_end": [name for name in _AT_END if name in requests], "seed": seed}
    names = [name for name in ("pod", "phase") if name in requests]
    hosts = table.hosts
    if hosts is not None and "gpu" not in requests:
        hosts = hosts.drop(columns="gpu")
    return trace_of(requests, horizon.time_s, roles, ledger, meta, others=names, hosts=hosts,
                    n_hosts=0 if hosts is None else len(hosts), is_event_log=True)


def _on_clock(requests: pd.DataFrame, table: PodTable, ledger: ReadLedger) -> tuple[pd.DataFrame, int, bool]:
    """The pods on the trace's clock, its second 0, and whether that is the start of the recording.

    That is right if ends were recorded as they occurred: pods that ran then have their start, and earlier ended pods
    are missing. If most ends are earlier, as in a single list, second 0 is the first end.
    """
    ends = requests["departure_s"].dropna().to_numpy(np.float64)
    first_s, last_s = table.first_s, table.last_s
    is_from_list = bool(last_s > first_s and (ends > first_s).sum() >= max((ends <= first_s).sum(), 1))
    if is_from_list:
        origin_s = math.floor(first_s)
    elif len(ends) and origin_of(ends) < max(last_s, ends.max()):
        origin_s = origin_of(ends)
    else:
        origin_s = origin_of(requests["arrival_s"].to_numpy(np.float64))
    for name in TIMES:
        whole = pd.Series(np.floor(requests[name].to_numpy(np.float64)) - origin_s, dtype="Float64")
        requests[name] = whole.mask(whole.isna()).astype("Int64")
    name_column = "pod" if "pod" in requests else "request_id"
    return without_ended(requests, name_column, ledger), origin_s, is_from_list


def _roles(requests: pd.DataFrame, owners: tuple[str, ...]) -> Roles:
    """The roles of columns with values; other columns are dropped in place."""
    for name in ("namespace", *_CATEGORIES):
        if name in requests and requests[name].nunique() < 2:
            del requests[name]
    if "gpu" in requests and not (requests["gpu"] > 0).any():
        del requests["gpu"]
    for name in ("requested_s", "creation_s"):
        if name in requests and requests[name].isna().all():
            del requests[name]
    return Roles(owners=tuple(name for name in owners if name in requests),
                 categories=tuple(name for name in _CATEGORIES if name in requests),
                 numbers=tuple(name for name in ("requested_s",) if name in requests))
