"""How a reader ends: all rows as one table, then the trace and its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.trace import Roles, Trace


def all_requests(chunks: Sequence[pd.DataFrame], path: Path, what: str, ledger: ReadLedger, *,
                 last_s: int = 1) -> pd.DataFrame:
    """The rows of all blocks as one table.

    Raises ValueError naming `what` is missing where there is no row, or where the last time is not above 0.
    """
    requests = pd.concat(chunks, ignore_index=True) if chunks else pd.DataFrame()
    if requests.empty or last_s <= 0:
        refused = dict(ledger.report(0).refused)
        raise ValueError(f"{path}: must hold at least one {what}, got none; refused: {refused}")
    return requests


def trace_of(requests: pd.DataFrame, horizon_s: int, roles: Roles, ledger: ReadLedger, meta: Mapping[str, Any], *,
             others: Sequence[str] = (), hosts: pd.DataFrame | None = None, n_hosts: int = 0,
             usage: pd.DataFrame | None = None, is_event_log: bool = False) -> tuple[Trace, ReadReport]:
    """The trace of these requests, and the report of the ledger, whose counts the trace keeps in `meta["report"]`.

    requests, horizon_s, usage: times in seconds since the trace's begin; the trace has Unix seconds if `meta` says
    when it began (`start_unix_s`). Owners and categories become pandas categories; others: more columns that do.
    n_hosts: rows read that are hosts. is_event_log: a request is made of several rows.
    """
    names = (*roles.owners, *roles.categories, *others)
    requests = requests.astype(dict.fromkeys(names, "category"))
    report = ledger.report(len(requests), n_hosts=n_hosts, is_event_log=is_event_log)
    own = {**meta, "report": report.summary()}
    start_unix_s = own.pop("start_unix_s", None)
    trace = Trace(requests, horizon_s, roles, hosts, usage, own)
    return (trace if start_unix_s is None else trace.moved(int(start_unix_s), int(start_unix_s))), report
