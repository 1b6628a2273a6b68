"""Reads what Slurm's accounting prints: exports of `sacct -P`, plain or gzipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._ending import all_requests, trace_of
from sojourn.features.readers._horizon import cut_at, horizon_of, second_zero, since_start, without_ended
from sojourn.features.readers._sacct_rows import sacct_rows
from sojourn.features.readers._sacct_runs import CUT, SacctExport
from sojourn.features.readers._stamps import checked_timezone, moment
from sojourn.features.readers.reader import Reader
from sojourn.features.trace import Roles, Trace

_NEEDED = (("JobID",), ("State",), ("Start",), ("End",), ("AllocCPUS", "NCPUS", "AllocTRES", "ReqCPUS", "ReqTRES"))
_OWNERS = ("account", "user", "job_name")
_CATEGORIES = ("partition", "qos")
_SHARE_RECORDED = 0.5
"""A name column recorded for fewer of the kept runs, or of whose rows fewer share their name, has no role."""


def read_slurm(path: str | Path, *, timezone: str | None = None, censor_cut: bool = False,
               horizon_s: int | None = None) -> tuple[Trace, ReadReport]:
    """The trace of one export of `sacct -P`, fields in any order; a run is a request, so a requeued job is several.

    Arrival is Start, departure End; a run without an end still runs at the horizon. Time 0 is the first end, since an
    export from a day on holds what ran then already, but not what had ended; where nothing is later, the first start.
    docs/traces.md says the rest.

    timezone: IANA name of the cluster's zone; None = UTC. censor_cut: add `is_cut` (bool): cancelled, timed out,
    preempted, requeued or lost with its node, so that the observed end is a competing one; `departure_s` stays.
    horizon_s: when observation ended, seconds on the trace's clock.

    Raises OSError where the file cannot be opened and ValueError where it is no such export, with what to type.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "sacct.txt"
    >>> _ = file.write_text("JobID|State|Start|End|Elapsed|AllocCPUS|ReqMem|Timelimit\\n"
    ...     "7|COMPLETED|2026-01-05T03:00:00|2026-01-05T04:00:00|01:00:00|4|2Gc|1-00:00:00\\n"
    ...     "8_1|RUNNING|2026-01-05T04:30:00|Unknown|00:30:00|1|8G|UNLIMITED\\n"
    ...     "9|PENDING|Unknown|Unknown|00:00:00|1|8G|UNLIMITED\\n")
    >>> trace, report = read_slurm(file)
    >>> trace.requests[["request_id", "arrival_s", "departure_s", "mem_gib", "requested_s"]].values.tolist()
    [['7', 1767582000, 1767585600, 8.0, 86400.0], ['8_1', 1767587400, <NA>, 8.0, nan]]
    >>> trace.span_s, dict(report.refused)
    (3600, {'never ran (pending)': 1})
    """
    source, ledger = Path(path), ReadLedger()
    export = SacctExport(source, checked_timezone(timezone) if timezone else None)
    chunks = [export.runs(rows) for rows in sacct_rows(source, ledger, _NEEDED)]
    runs = all_requests([chunk for chunk in chunks if len(chunk)], source, "run of a job", ledger)
    runs = _once(runs, ledger, source.name)
    runs, origin_s = _on_clock(runs, ledger, source.name)
    last_s = runs["last_s"].to_numpy(np.int64)
    if horizon_s is None and int(last_s.max(initial=0)) <= 0:
        raise ValueError(f"{source}: the last time must lie after the first, got one moment alone")
    horizon = horizon_of(last_s, since_start(horizon_s, origin_s, int(last_s.max(initial=0))))
    runs = cut_at(runs.drop(columns="last_s"), horizon, ledger, source.name)
    roles = _named(runs)
    if censor_cut:
        runs["is_cut"] = runs["state"].isin(CUT).to_numpy(bool) & runs["departure_s"].notna().to_numpy(bool)
    if not (runs["gpu"] > 0).any():
        del runs["gpu"]
    if runs["n_nodes"].isna().all():
        del runs["n_nodes"]
    export.tell(runs, horizon, origin_s, ledger)
    return trace_of(runs, horizon.time_s, roles, ledger, _meta(export, runs, origin_s), others=export.at_end_names(),
                    is_event_log=True)


SLURM = Reader(
    read_slurm,
    path="what `sacct -P` prints of Slurm's accounting, plain or gzipped",
    arrival="Start",
    departure="End; none where the run still goes on",
    owners="`account`, `user`, `job_name`",
    categories="`partition`, `qos`",
    numbers="`requested_s`, `requested_cores`",
    no_role="`submit_s`, `n_nodes`, `state`, `exit_code`, `suspended_s`, `is_cut`",
)


def _once(runs: pd.DataFrame, ledger: ReadLedger, file: str) -> pd.DataFrame:
    """Each run of a job once, further runs of a job named JOB/2, JOB/3, by their starts.

    Of a run that stands there several times, as in exports put together, the line that saw it last is kept.
    """
    is_several = runs["request_id"].duplicated(keep=False).to_numpy(bool)
    if not is_several.any():
        return runs
    several = runs[is_several].assign(row=np.flatnonzero(is_several), has_end=runs["departure_s"].notna())
    several = several.sort_values(["request_id", "arrival_s", "has_end", "last_s"], kind="stable")
    is_again = several.duplicated(["request_id", "arrival_s"], keep="last").to_numpy(bool)
    again = several[is_again].sort_values("row")
    ledger.refuse("run twice", file, again["line"].to_numpy(np.int64), [
        f"{name}: {moment(int(start))}" for name, start in zip(again["request_id"], again["arrival_s"], strict=True)])
    kept = several[~is_again]
    n_before = kept.groupby("request_id", sort=False).cumcount().to_numpy(np.int64)
    ids = [name if n == 0 else f"{name}/{n + 1}" for name, n in zip(kept["request_id"], n_before, strict=True)]
    is_later = n_before > 0
    if is_later.any():
        ledger.note(f"{int(is_later.sum()):,} further runs of requeued jobs, each a request of its own")
    named = runs["request_id"].to_numpy(object, copy=True)
    named[kept["row"].to_numpy()] = ids
    runs = runs.assign(request_id=pd.Series(named, dtype="str", index=runs.index))
    return runs.drop(index=runs.index[again["row"].to_numpy()]).reset_index(drop=True)


def _on_clock(runs: pd.DataFrame, ledger: ReadLedger, file: str) -> tuple[pd.DataFrame, int]:
    """The runs on the trace's clock, and its second 0: the first end, or the first start where no time is later."""
    origin_s = second_zero(runs)
    for name in ("arrival_s", "departure_s", "last_s", *(["submit_s"] if "submit_s" in runs else [])):
        runs[name] = pd.Series(runs[name] - origin_s, dtype="Float64").astype("Int64")
    runs = without_ended(runs, "request_id", ledger, file)
    if "submit_s" in runs:
        runs["submit_s"] = runs["submit_s"].astype(np.int64)
    return runs, origin_s


def _named(runs: pd.DataFrame) -> Roles:
    """The roles of what recurs; name columns without one are dropped in place."""
    recorded = []
    for name in (*_OWNERS, *_CATEGORIES):
        if name not in runs:
            continue
        n_of = runs[name].value_counts()
        is_recurring = n_of.drop("missing", errors="ignore")
        n_shared = int(is_recurring[is_recurring > 1].sum())
        if len(n_of) > 1 and n_shared >= _SHARE_RECORDED * len(runs):
            recorded.append(name)
        else:
            del runs[name]
    numbers = ("requested_s", *(["requested_cores"] if "requested_cores" in runs else []))
    return Roles(owners=tuple(name for name in _OWNERS if name in recorded),
                 categories=tuple(name for name in _CATEGORIES if name in recorded), numbers=numbers)


def _meta(export: SacctExport, runs: pd.DataFrame, origin_s: int) -> dict[str, Any]:
    at_end = [*export.at_end_names(), *(["suspended_s"] if "suspended_s" in runs else [])]
    meta: dict[str, Any] = {
        "source": f"Slurm accounting, {export.path.name}", "licence": "the user's own", "known_at_end": at_end,
        "start_unix_s": origin_s, "time_zone": export.timezone or "UTC",
        "not_read": export.unread(),
        "spans_hosts": True,  # a job's cores may be of several nodes
    }
    if "n_nodes" in runs:
        meta["hosts_column"] = "n_nodes"
    if "submit_s" in runs:
        meta["submit_column"] = "submit_s"
    return meta
