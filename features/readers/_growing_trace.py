"""Parts of a growing source put together: one row a request, the newest; the same trace however it was read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pyarrow as pa

from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._declaration import Declaration
from sojourn.features.readers._horizon import Horizon, cut_at, since_start
from sojourn.features.readers._parts import Part
from sojourn.features.trace import RESOURCES, Trace


def joined_rows(parts: Sequence[Part]) -> pa.Table:
    """All rows of the parts, whose columns do not drift (`check_drift`), in their order."""
    return pa.concat_tables([part.table for part in parts], promote_options="default").combine_chunks()


def trace_of_parts(name: str, parts: Sequence[Part], table: pa.Table, declaration: Declaration,
                   horizon_s: int | None, notes: Sequence[str]) -> tuple[Trace, ReadReport]:
    """The trace of parts in the order of days, and its report.

    table: their rows (`joined_rows`). A request's last row counts, also where that one is refused: then the request is
    left out. Only the rows that count decide the trace; the report says what the others were. The horizon is the last
    time in the rows that count, which is at most the end of the last day.

    ValueError where no request is left.
    """
    ledger = _counted(parts)
    rows = table.to_pandas(strings_to_categorical=False)
    is_named = rows["request_id"].notna().to_numpy()
    is_last = is_named & ~rows["request_id"].duplicated(keep="last").to_numpy()
    versions = _versions(rows[is_named], declaration)
    rows = rows[is_last & ~rows["is_refused"].to_numpy(bool)]
    if rows.empty:
        raise ValueError(f"{name}: must hold at least one request, got none; refused: {dict(ledger.report(0).refused)}")
    requests = _requests(rows, declaration)
    last_s = int(np.maximum(requests["arrival_s"].max(), requests["departure_s"].fillna(0).max()))
    horizon_s = since_start(horizon_s, declaration.origin_s, last_s)
    horizon = Horizon(last_s if horizon_s is None else horizon_s, 1, int((requests["arrival_s"] > last_s).sum()),
                      last_s, len(requests), horizon_s is not None)
    if horizon.time_s <= 0:
        raise ValueError(f"{name}: a request must begin or end after the origin, got the last time at second {last_s}")
    if horizon_s is not None:
        requests = cut_at(requests, horizon, ledger, name)
    else:
        ledger.note(f"horizon {last_s:,} s ({_moment(declaration.origin_s + last_s)}), the last time in the source")
    for line in (*versions, *notes):
        ledger.note(line)
    roles = declaration.roles
    names = (*roles.owners, *roles.categories, *declaration.known_at_end)
    requests = requests.astype(dict.fromkeys(names, "category"))
    meta = {"source": "growing source", "known_at_end": list(declaration.known_at_end)}
    trace = Trace(requests, horizon.time_s, roles, meta=meta).moved(declaration.origin_s, declaration.origin_s)
    return trace, ledger.report(len(trace), is_event_log=True)


def _requests(rows: pd.DataFrame, declaration: Declaration) -> pd.DataFrame:
    """The requests' table on the trace's clock, in an order that only its content decides."""
    roles = declaration.roles
    order = ["request_id", "arrival_s", "departure_s",
             *(name for name in RESOURCES if name in rows), *roles.resources, *roles.columns(),
             *(name for name in ("submit_s",) if name in rows), *declaration.known_at_end]
    requests = rows[order].sort_values(["arrival_s", "request_id"], kind="stable").reset_index(drop=True)
    for name in ("arrival_s", "departure_s"):
        requests[name] = requests[name].astype("Int64") - declaration.origin_s
    if "submit_s" in requests:
        requests["submit_s"] = requests["submit_s"].astype(np.int64) - declaration.origin_s
    return requests


def _counted(parts: Sequence[Part]) -> ReadLedger:
    ledger = ReadLedger(max_texts=None)
    for part in parts:
        label = part.label
        ledger.read(label.n_rows)
        for rule, n_rows in label.repaired.items():
            ledger.repair(rule, n_rows)
        for rule, n_rows in label.refused.items():
            shown = [(line, raw) for line, of, raw in label.rejected if of == rule]
            lines = np.zeros(n_rows, np.int64)
            lines[:len(shown)] = [line for line, _ in shown]
            texts = [raw for _, raw in shown] + [""] * (n_rows - len(shown))
            ledger.refuse(rule, label.name, lines, texts)
    return ledger


def _versions(rows: pd.DataFrame, declaration: Declaration) -> list[str]:
    """Lines on rows that a later row of the same request replaced: what changed."""
    again = rows[rows["request_id"].duplicated(keep=False)]
    if again.empty:
        return []
    again = again.sort_values("request_id", kind="stable")
    same_id = (again["request_id"].to_numpy()[1:] == again["request_id"].to_numpy()[:-1])
    at_end = ("departure_s", *declaration.known_at_end)
    is_same, is_end_same = np.ones(len(again) - 1, bool), np.ones(len(again) - 1, bool)
    for name in again:
        if name in at_end:
            is_end_same &= _equal(again[name])
        elif name != "request_id":
            is_same &= _equal(again[name])
    had_end = again["departure_s"].notna().to_numpy()
    is_ended = same_id & is_same & ~is_end_same & ~had_end[:-1] & had_end[1:]
    is_again = same_id & is_same & is_end_same
    is_corrected = same_id & ~is_again & ~is_ended
    lines = []
    for n_rows, words in ((is_again.sum(), "came again unchanged"),
                          (is_ended.sum(), "gave the end of a request that an earlier row began"),
                          (is_corrected.sum(), "corrected an earlier row: the newer one counts")):
        if n_rows:
            lines.append(f"{int(n_rows):,} row{'s' if n_rows > 1 else ''} {words}")
    if is_corrected.any():
        names = again["request_id"].to_numpy()[1:][is_corrected][:3].tolist()
        lines[-1] += f" (such as {', '.join(map(str, names))})"
    return lines


def _equal(column: pd.Series) -> np.ndarray:
    """Whether each value equals the one before it; two missing ones do. Bool, shape (n - 1,)."""
    values, is_missing = column.to_numpy(object), column.isna().to_numpy()
    return (values[1:] == values[:-1]) & ~is_missing[1:] | is_missing[1:] & is_missing[:-1]


def _moment(unix_s: int) -> str:
    return f"{datetime.fromtimestamp(unix_s, UTC):%Y-%m-%d %H:%M} UTC"


def shrunk(what: str) -> ValueError:
    """What is raised where a source holds less than when it was last read."""
    return ValueError(f"a trace that grows must not shrink, got {what}; --allow-shrunk takes it as it is now")
