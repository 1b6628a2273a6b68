"""Reads the project's own format, a folder that `Trace.save` wrote."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._horizon import cut_at, horizon_of, since_start
from sojourn.features.readers.reader import Reader
from sojourn.features.trace import Trace


def read_parquet(path: str | Path, *, horizon_s: int | None = None) -> tuple[Trace, ReadReport]:
    """The trace in the folder `path`, and a report in which every request is kept.

    horizon_s: end the trace there, at most at its own end: what runs then is censored, what begins later refused.
    The folder was checked when it was written; a request that breaks a rule now means a damaged folder.

    Raises FileNotFoundError where the folder is no trace and ValueError where it breaks a rule of Trace.

    >>> import tempfile
    >>> import pandas as pd
    >>> table = pd.DataFrame({"request_id": [1], "arrival_s": [0], "departure_s": [30],
    ...                       "cpu_cores": [2.0], "mem_gib": [8.0]})
    >>> folder = Trace(table, horizon_s=100).save(Path(tempfile.mkdtemp()) / "trace")
    >>> trace, report = read_parquet(folder)
    >>> len(trace), report.n_kept, report.n_refused
    (1, 1, 0)
    """
    try:
        trace = Trace.load(path)
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"{path} must be a trace folder, got {type(error).__name__}: {error}") from error
    ledger = ReadLedger()
    ledger.read(len(trace))
    if horizon_s is not None:
        since_s = since_start(horizon_s, trace.begin_s if trace.is_dated else None, trace.span_s)
        if since_s is None or not 0 < since_s <= trace.span_s:
            raise ValueError(f"horizon_s must be above 0 and at most the trace's own, {trace.span_s} s after its "
                             f"begin, got {horizon_s!r}")
        horizon_s = trace.begin_s + since_s
        horizon = horizon_of(trace.end_s(), horizon_s)
        requests = cut_at(trace.requests, horizon, ledger, "requests.parquet")
        usage = trace.usage
        if usage is not None:
            usage = usage[(usage["time_s"] <= horizon_s) & usage["request_id"].isin(requests["request_id"])]
        trace = replace(trace, requests=requests, horizon_s=horizon_s, usage=usage)
    return trace, ledger.report(len(trace))


PARQUET = Reader(
    read_parquet,
    path="folder written by `Trace.save`",
)
