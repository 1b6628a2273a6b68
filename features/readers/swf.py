"""Reads Standard Workload Format logs of the Parallel Workloads Archive (.swf or .swf.gz)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._ending import all_requests, cut_at, horizon_of, since_start, trace_of
from sojourn.features.readers._rows import MAX_TIME_S, TextRows, text_rows
from sojourn.features.readers.reader import Reader
from sojourn.features.trace import Roles, Trace

_COLUMNS = ("job", "submit", "wait", "run", "procs", "mean_cpu_s", "used_kb", "requested_procs",
            "requested_s", "requested_kb", "status", "user", "group", "executable", "queue", "partition",
            "preceding_job", "think_s")
_OWNERS = ("group", "user", "executable")
_CATEGORIES = ("queue", "partition")
_MISSING = -1
_CANCELLED = 5
_SHARE_RECORDED = 0.5
"""A name column that is recorded for fewer of the kept jobs has no role."""
_KIB_PER_GIB = 1 << 20


def read_swf(path: str | Path, *, censor_cut: bool = False,
             horizon_s: int | None = None) -> tuple[Trace, ReadReport]:
    """The trace of one SWF log; fields as defined by the archive (18 columns, -1 = missing).

    Arrival is the start of running, submit + wait (for a replay); `submit_s` is for splits and history by submit time.
    Departure is start + run; the horizon is the last departure. horizon_s: end of observation, see `read_trace`; by
    default from the file, see docs/traces/readers.md. The trace begins at the first job's submit, so a log without its
    first year does not start with an idle year.

    cpu_cores: allocated processors, else requested ones. mem_gib: requested memory (KB per processor x processors), 0
    where missing; used memory is known only at the end and never read. Owners, coarsest first: group, user, executable;
    categories: queue, partition; each only if recorded for at least half of the jobs and with more than one value.
    Numbers: requested_s, requested_procs (NaN = missing). `status` is known only at the end and has no role.

    censor_cut: add `is_cut` (bool): cancelled (status 5) or run up to the requested time, so that the
    observed end is a competing one. `departure_s` stays, since missing means "running at the horizon".

    Raises OSError if the file cannot be opened, and ValueError if it is not SWF or is truncated.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "log.swf"
    >>> _ = path.write_text(
    ...     "; UnixStartTime: 1000" + chr(10)
    ...     + "1 50 10 600 4 -1 -1 4 900 1048576 1 7 1 -1 1 -1 -1 -1" + chr(10)
    ...     + "2 60  5  -1 0 -1 -1 4 900 1048576 5 7 1 -1 1 -1 -1 -1")
    >>> trace, report = read_swf(path)
    >>> trace.requests[["submit_s", "arrival_s", "departure_s", "cpu_cores", "mem_gib"]].values.tolist()
    [[1050, 1060, 1660, 4.0, 4.0]]
    >>> trace.meta["start_unix_s"], dict(report.refused)
    (1050, {'never ran (run time missing)': 1})
    """
    source = Path(path)
    ledger = ReadLedger()
    header: dict[str, str] = {}
    chunks = []
    ids: set[object] = set()
    for rows in text_rows(source, ledger, separator=None, names=_COLUMNS, has_header=False, comment=";",
                          on_comment=lambda line: _note(header, line)):
        chunks.append(_jobs(rows, ids))
    requests = all_requests(chunks, source, "job that ran", ledger)
    submit_s = requests["submit_s"].to_numpy()
    ledger.repair("submit before the line above: sorted", int((np.diff(submit_s) < 0).sum()))
    origin_s = int(submit_s.min())
    for name in ("submit_s", "arrival_s", "departure_s"):
        requests[name] -= origin_s
    meta = _meta(source, header, origin_s)
    last_s = np.maximum(requests["departure_s"].to_numpy(np.int64), 1)
    horizon = horizon_of(last_s, since_start(horizon_s, meta.get("start_unix_s"), int(last_s.max())))
    requests = cut_at(requests, horizon, ledger, source.name)
    roles = _roles(requests)
    if censor_cut:
        requests["is_cut"] = _is_cut(requests)
    return trace_of(requests, horizon.time_s, roles, ledger, meta)


SWF = Reader(
    read_swf,
    path="log of the Parallel Workloads Archive",
    arrival="start of running: submit + wait",
    departure="start + run",
    owners="`group`, `user`, `executable`",
    categories="`queue`, `partition`",
    numbers="`requested_s`, `requested_procs`",
    no_role="`submit_s`, `status`, `is_cut`",
)


def _jobs(rows: TextRows, ids: set[object]) -> pd.DataFrame:
    """The kept jobs of one block, times still as in the file; name columns are int32 codes."""
    job, submit, wait, run = (rows.number(name) for name in ("job", "submit", "wait", "run"))
    procs, status = rows.number("procs"), rows.number("status")
    requested_procs, requested_s, requested_kb = (
        rows.number(name) for name in ("requested_procs", "requested_s", "requested_kb"))
    names = {name: rows.number(name) for name in _OWNERS + _CATEGORIES}
    rows.refuse("name code outside 32 bits", np.any([np.abs(v) >= 2**31 for v in names.values()], axis=0))
    rows.refuse("status outside -1 .. 6", (status < _MISSING) | (status > 6))
    rows.refuse("never ran (run time missing)", run == _MISSING)
    rows.refuse("never ran (run time 0, no processor)", (run == 0) & (procs <= 0))
    rows.refuse("submit missing or negative", submit < 0)
    rows.refuse("start before submit", (wait < 0) & (wait != _MISSING))
    rows.refuse("departure before arrival", run < 0)
    rows.refuse("time above 100 years", (submit > MAX_TIME_S) | (wait > MAX_TIME_S) | (run > MAX_TIME_S))
    for size in (procs, requested_procs, requested_kb):
        rows.refuse("negative size", size < _MISSING)
    rows.refuse("no processors", (procs <= 0) & (requested_procs <= 0))
    rows.refuse("job not a whole number", job != np.floor(job))
    rows.refuse_duplicates("duplicate job", job, ids)
    rows.repair("wait missing: start taken as submit", wait == _MISSING)
    rows.repair("allocated processors missing: requested ones taken", procs <= 0)
    rows.repair("requested memory missing: 0 taken", requested_kb <= 0)
    is_kept = rows.is_kept
    cores = np.where(procs > 0, procs, requested_procs)[is_kept]
    # An unrounded sum first, so that fractional seconds are truncated once.
    start = submit + np.maximum(wait, 0)
    table = pd.DataFrame({
        "line": rows.line[is_kept],
        "request_id": job[is_kept].astype(np.int64),
        "submit_s": submit[is_kept].astype(np.int64),
        "arrival_s": start[is_kept].astype(np.int64),
        "departure_s": (start + run)[is_kept].astype(np.int64),
        "cpu_cores": cores,
        "mem_gib": np.maximum(requested_kb[is_kept], 0) * cores / _KIB_PER_GIB,
        "requested_s": _or_nan(requested_s[is_kept]),
        "requested_procs": _or_nan(requested_procs[is_kept]),
        "status": status[is_kept].astype(np.int8),
    })
    for name, codes in names.items():
        table[name] = codes[is_kept].astype(np.int32)
    return table


def _roles(requests: pd.DataFrame) -> Roles:
    """Turn recorded name columns into categories in place, drop the others, and declare the roles."""
    recorded = []
    for name in _OWNERS + _CATEGORIES:
        codes = requests[name]
        if (codes != _MISSING).mean() >= _SHARE_RECORDED and codes.min() < codes.max():
            column = codes.astype("category")
            labels = ["missing" if code == _MISSING else str(code) for code in column.cat.categories]
            requests[name] = column.cat.rename_categories(labels)
            recorded.append(name)
        else:
            del requests[name]
    return Roles(owners=tuple(name for name in _OWNERS if name in recorded),
                 categories=tuple(name for name in _CATEGORIES if name in recorded),
                 numbers=("requested_s", "requested_procs"))


def _is_cut(requests: pd.DataFrame) -> np.ndarray:
    run_s = (requests["departure_s"] - requests["arrival_s"]).fillna(0).to_numpy(np.int64)
    is_cut = (requests["status"] == _CANCELLED) | (run_s >= requests["requested_s"].to_numpy())
    return np.asarray(is_cut & requests["departure_s"].notna())


def _or_nan(values: np.ndarray) -> np.ndarray:
    return np.where(values > 0, values, np.nan)


def _note(header: dict[str, str], line: str) -> None:
    """Add one `; Label: value` comment to `header`; the first of a repeated label counts."""
    match = re.match(r";\s*([A-Za-z]{1,30}):\s*(.{1,200})", line)
    if match and len(header) < 100:
        header.setdefault(match[1], match[2].strip())


def _meta(source: Path, header: dict[str, str], origin_s: int) -> dict[str, Any]:
    meta: dict[str, Any] = {
        "source": f"Standard Workload Format, {source.name}",
        "licence": "see the log's header and the Parallel Workloads Archive",
        "header": {key: header[key] for key in sorted(header) if key not in ("Note", "Queue", "Partition")},
        "origin_s": origin_s,
        "submit_column": "submit_s",
        "known_at_end": ["status"],
        "spans_hosts": True,  # a job's processors may be on several nodes
    }
    start = header.get("UnixStartTime", "")
    if re.fullmatch(r"\d{1,12}", start):
        meta["start_unix_s"] = int(start) + origin_s
    offset = header.get("TimeZone", "")
    if re.fullmatch(r"[+-]?\d{1,6}", offset):
        meta["time_zone_offset_s"] = int(offset)
    return meta
