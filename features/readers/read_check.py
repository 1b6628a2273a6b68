"""A reader's interpretation of a file as an aligned table: columns, times, censoring, refused rows."""

from __future__ import annotations

from typing import Any

import pandas as pd

from sojourn.features.describe import duration_text
from sojourn.features.read_report import ReadReport
from sojourn.features.readers._stamps import moment
from sojourn.features.trace import TIMES, TOLD_TIMES, Trace

N_EXAMPLES, _WIDTH = 3, 44


def check_lines(trace: Trace, report: ReadReport) -> list[str]:
    """Lines for a person who checks the interpretation of a file, with all notes of the report.

    Notes that need a decision are under `look at`, the others under `notes`.

    >>> table = pd.DataFrame({"request_id": ["a", "b"], "arrival_s": [0, 60], "departure_s": [30, None],
    ...                       "cpu_cores": [2.0, 4.0], "mem_gib": [8.0, 16.0], "user": ["ann", "bob"]})
    >>> from sojourn.features.read_report import ReadLedger
    >>> from sojourn.features.trace import Roles
    >>> lines = check_lines(Trace(table, 100, Roles(owners=("user",))), ReadLedger().report(2))
    >>> print("\\n".join(lines[:4] + lines[7:]))
    column       is           kind                      examples
    request_id   request_id   name                      a, b
    arrival_s    arrival      seconds on its own clock  0, 60
    departure_s  departure    seconds on its own clock  30
    first time  second 0
    last time   second 60 (1.0 min after the first)
    horizon     second 100 (1.7 min after the first), the end of observation
    requests    2, of which 1 still runs at the horizon (50.0 %): censored
    """
    rows = [(each["column"], each["role"], each["kind"], _shown(each["examples"])) for each in _columns(trace)]
    rows = [("column", "is", "kind", "examples"), *rows]
    rows += [(name, "not read", "", "") for name in trace.meta.get("not_read", ())]
    widths = [max(len(row[idx]) for row in rows) for idx in range(3)]
    lines = ["  ".join([*(cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)), row[3]]).rstrip()
             for row in rows]
    if "units" in trace.meta:
        lines += ["", f"units       {trace.meta['units']}"]
    first_s, last_s = _first_and_last_s(trace)
    n_running = int((~trace.is_event()).sum())
    verb = "still runs" if n_running == 1 else "still run"
    lines += ["", f"first time  {_moment(trace, first_s, first_s)}", f"last time   {_moment(trace, last_s, first_s)}",
              f"horizon     {_moment(trace, trace.horizon_s, first_s)}, the end of observation",
              f"requests    {len(trace):,}, of which {n_running:,} {verb} at the horizon "
              f"({n_running / len(trace):.1%}): censored".replace("%)", " %)")]
    if report.n_refused:
        lines += ["", f"refused     {report.n_refused:,} of {report.n_read:,} rows"]
        for rule, count in report.refused.items():
            lines += [f"  {count:,}  {rule}", *(f"      {example}" for example in report.examples(rule)[:N_EXAMPLES])]
    if report.repaired:
        lines += ["", "changed", *(f"  {count:,}  {rule}" for rule, count in report.repaired.items())]
    doubts = [line for line in report.notes if line.startswith("check: ") or "--horizon-s" in line]
    plain_notes = [line for line in report.notes if line not in doubts]
    if doubts:
        shown = [line.removeprefix("check: ").partition(": " if "guessed by their names" in line else "\n")[0]
                 for line in doubts]
        lines += ["", "look at", *(f"  - {line}" for line in shown)]
    if plain_notes:
        lines += ["", "notes", *(f"  - {line}" for line in plain_notes)]
    return lines


def check_facts(trace: Trace, report: ReadReport) -> dict[str, Any]:
    """What `check_lines` says, as JSON values: columns, times on the trace's clock, counts, rules, notes."""
    first_s, last_s = _first_and_last_s(trace)
    return {"columns": _columns(trace), "not_read": list(trace.meta.get("not_read", ())),
            "units": trace.meta.get("units"), "is_dated": trace.is_dated, "first_s": first_s, "last_s": last_s,
            "horizon_s": trace.horizon_s, "n_requests": len(trace), "n_running": int((~trace.is_event()).sum()),
            **report.summary()}


def _first_and_last_s(trace: Trace) -> tuple[int, int]:
    ends = trace.requests["departure_s"].dropna()
    last_s = max(int(ends.max()) if len(ends) else trace.begin_s, int(trace.start_s().max()))
    return int(trace.start_s().min()), last_s


def _columns(trace: Trace) -> list[dict[str, Any]]:
    """The columns from the reader's interpretation; without one, from the roles of the trace's columns."""
    if "columns" in trace.meta:
        return list(trace.meta["columns"])
    roles = dict.fromkeys(trace.requests.columns, "kept without a role")
    roles |= {"request_id": "request_id", "arrival_s": "arrival", "departure_s": "departure"}
    roles |= dict.fromkeys(trace.resources, "resource") | dict.fromkeys(trace.roles.owners, "owner")
    roles |= dict.fromkeys(trace.roles.categories, "category") | dict.fromkeys(trace.roles.numbers, "number")
    roles |= dict.fromkeys((name for name in trace.meta.get("known_at_end", ()) if name in roles), "known at end")
    units = {} if "units" in trace.meta else {"cpu_cores": "cores", "mem_gib": "GiB"}
    rows = []
    for name in trace.requests.columns:
        column = trace.requests[name]
        clock = "Unix seconds" if trace.is_dated else "seconds on its own clock"
        kind = clock if name in (*TIMES, *TOLD_TIMES) else "seconds" if name.endswith("_s") else "number"
        if name == "request_id" or not pd.api.types.is_numeric_dtype(column):
            kind = "name"
        kind = str(units.get(name, kind))
        examples = [str(value) for value in column.dropna().drop_duplicates().head(N_EXAMPLES)]
        rows.append({"column": str(name), "role": roles[name], "kind": kind, "examples": examples})
    return rows


def _shown(examples: list[str]) -> str:
    cells = [" ".join(each.split()) for each in examples[:N_EXAMPLES]]
    return ", ".join(each if len(each) <= _WIDTH else each[:_WIDTH - 3] + "..." for each in cells)


def _moment(trace: Trace, second: int, first_s: int) -> str:
    """A date; in a trace without dates the second, and the time since the first one."""
    if trace.is_dated:
        return moment(second)
    after = f" ({duration_text(second - first_s)} after the first)" if second > first_s else ""
    return f"second {second:,}{after}"
