"""Tables of placement by usage."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from sojourn.flows.reports.section import Section
from sojourn.simulator.colocation import Optimum, Violations

_LEGEND = ("Rate: share of the slots in which a request's host is asked for more than it has, mean over requests, %. "
           "Severity: what is asked for above capacity, of all that is asked for, %. Ratios: to the baseline's means, "
           "with the paired 95 % interval over orders. Lower = better. Used: mean utilisation, %: load x (1 - "
           "severity). Seconds: to place one order.")
_TITLES = ("rate %", "95 % interval", "rate ratio", "severity %", "95 % interval", "severity ratio", "95 % interval",
           "used %", "seconds")


def means_section(means: pd.DataFrame, title: str, caption: str, by: Sequence[str] = ()) -> Section:
    """The section of a table that `order_means` made; `by`: its columns of words before the label."""
    rows = []
    for row in means.to_dict("records"):
        words = tuple(f"{row[name]:g}" if isinstance(row[name], float | int) else str(row[name]) for name in by)
        rows.append((*words, str(row["label"]), _number(row["request_rate_pct"], 3),
                     _interval(row, "request_rate_pct", 2), _number(row["request_rate_ratio"], 3),
                     _number(row["severity_pct"], 3), _interval(row, "severity_pct", 3),
                     _number(row["severity_ratio"], 3), _interval(row, "severity_ratio", 3),
                     _number(row["used_pct"], 2), _number(row["elapsed_s"], 2)))
    n_seeds = int(means["n_seeds"].max())
    return Section(title, f"{caption} {n_seeds} {'orders' if n_seeds > 1 else 'order'}.",
                   (*(name.replace("_", " ") for name in by), "policy:model", *_TITLES), tuple(rows), len(by) + 1,
                   _LEGEND)


def days_sections(days: pd.DataFrame, baseline: str, caption: str) -> list[Section]:
    """Of a table that `run_days` made: severity day by day, and by month the days on which each policy is
    below and above the label `baseline`; equal days are neither."""
    labels = list(dict.fromkeys(days["label"].tolist()))
    table = days.pivot_table("severity_pct", ["month", "day", "n_requests"], "label", sort=False)[labels]
    rows = tuple((str(day), f"{n:,}", *(f"{value:.2f}" for value in values))
                 for (_, day, n), values in zip(table.index, table.to_numpy(np.float64).tolist(), strict=True))
    months = []
    for month, own in table.groupby(level="month", sort=False):
        base = own[baseline].to_numpy(np.float64)
        for label in labels:
            severity = own[label].to_numpy(np.float64)
            won = ("-", "-") if label == baseline else (f"{(severity < base).sum()}", f"{(severity > base).sum()}")
            months.append((str(month), str(label), f"{len(own)}", *won, f"{severity.mean():.2f}",
                           f"{np.median(severity):.2f}"))
    return [Section("Severity of single days, %", caption, ("day", "requests", *labels), rows, 1,
                    "Lower = better."),
            Section("Days won", caption, ("month", "policy:model", "days", "below", "above", "mean %", "median %"),
                    tuple(months), 2, f"Below, above: days with a lower and a higher severity than {baseline}. Mean, "
                    "median: severity over the days of the month, %, lower = better.")]


def optimum_section(found: Optimum, violated: Violations) -> Section:
    """The optimum beside its bound."""
    row = (found.status, _number(violated.request_rate_pct, 3), _number(found.severity_pct, 4),
           _number(found.bound_pct, 4), _number(found.gap_pct, 4), _number(violated.used_pct, 2),
           _number(found.elapsed_s, 1))
    return Section("Optimum", "By CP-SAT with one worker, which knows all requests and their real use.",
                   ("status", "request rate %", "severity %", "bound %", "gap %", "used %", "seconds"), (row,), 1,
                   "Status: optimal = proved, feasible = the time limit came first. Bound: no placement has less "
                   "severity. Gap: severity less bound.")


def _number(value: float, digits: int) -> str:
    return "-" if np.isnan(value) else f"{value:.{digits}f}"


def _interval(row: Mapping[Hashable, Any], name: str, digits: int) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return "-" if np.isnan(low) else f"{low:.{digits}f} {high:.{digits}f}"
