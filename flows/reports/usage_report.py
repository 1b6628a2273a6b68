"""The usage of a trace in words and tables: periodic or not and why, how long the periods are, which classes."""

from __future__ import annotations

import numpy as np
import pandas as pd
from rich.table import Table

from sojourn.flows.stages.describe_usage import WAYS, UsageDescription, period_names
from sojourn.serving.usage import DAY_S

_WAYS = ("wave,\np95 and p5", "wave,\nat its means", "constant\nmean", "a week\nbefore")


def summary_lines(found: UsageDescription) -> list[str]:
    """Aligned rows: how much was read, how much of it is used, how much is periodic."""
    table, read = found.table, found.report.read
    n = len(table)
    cores = table["cpu_cores"].sum()
    periodic = table[table["is_periodic"]]
    used = float((table["mean"] * table["cpu_cores"]).sum())
    rows = [
        ("source", found.source),
        ("series", f"{n:,}; {len(found.report.without_series):,} requests without one, "
                   f"{len(found.report.without_request):,} series without a request"),
        ("samples", f"{read.n_kept:,} kept, {read.n_refused:,} refused, "
                    f"{found.n_steps * found.step_s / DAY_S:.1f} days"),
        ("in use", f"{100 * used / cores if cores else np.nan:.1f} % of {cores:,.0f} cores; median series: mean "
                   f"{100 * table['mean'].median():.1f} %, p95 {100 * table['p95'].median():.1f} %, peak "
                   f"{100 * table['peak'].median():.1f} %"),
        ("periodic", f"{len(periodic):,} series ({100 * len(periodic) / n:.1f} %) with "
                     f"{100 * periodic['cpu_cores'].sum() / cores if cores else np.nan:.1f} % of the cores"),
    ]
    white, walk = found.noise_shares
    rows.append(("by chance", f"{100 * white:.1f} % of series of white noise and {100 * walk:.1f} % of random walks on "
                              "these steps would be called periodic"))
    if len(periodic):
        names = period_names(periodic["period_s"]).value_counts(sort=False)
        commonest = names[names > 0].sort_values(ascending=False, kind="stable").head(3)
        rows.append(("periods", ", ".join(f"{name} {count:,}" for name, count in commonest.items())))
    width = max(len(label) for label, _ in rows)
    return [f"{label:<{width}}  {value}" for label, value in rows]


def usage_tables(found: UsageDescription) -> list[Table]:
    """Periods with their strength and errors, reasons for none, and classes."""
    tables = [_reasons(found.table)]
    if found.table["is_periodic"].any():
        tables = [_periods(found.table), _errors(found.table), *tables]
    if len(found.centres):
        tables.append(_classes(found))
    return tables


def _periods(table: pd.DataFrame) -> Table:
    shown = Table(title="Periodic series by the length of their period", title_justify="left", caption_justify="left",
                  caption="Strength: share of the smoothed variance at the period, 0 to 1 (higher = more regular). "
                          "By chance: the strength that noise reaches there. Strengths and busy time are medians.")
    for title in ("period", "series", "share, %", "cores", "strength", "by chance", "busy, % of it"):
        shown.add_column(title, justify="left" if title == "period" else "right", no_wrap=True)
    periodic = table[table["is_periodic"]]
    for name, rows in periodic.groupby(period_names(periodic["period_s"]), observed=True):
        shown.add_row(str(name), f"{len(rows):,}", f"{100 * len(rows) / len(table):.1f}",
                      f"{rows['cpu_cores'].sum():,.0f}", _median(rows["strength"], 2),
                      _median(rows["by_chance"], 2), _median(100 * rows["duty"], 0))
    return shown


def _errors(table: pd.DataFrame) -> Table:
    """In-sample and next-day errors of the periodic series, and how often the wave is the better one."""
    shown = Table(title="Errors of the periodic series", title_justify="left", caption_justify="left",
                  caption="NRMSE: root mean squared error over the series' range, median (lower = better). "
                          "Next day: the last 24 hours, by what was known before. Better: series in which the wave at "
                          "its means is nearer than that, % (higher = the period says more).")
    titles = ("judged", "series", *_WAYS, "better than\nthe constant", "better than\na week before")
    for title in titles:
        shown.add_column(title, justify="left" if title == "judged" else "right", no_wrap=True)
    for label, name in (("in_sample", "in-sample"), ("next_day", "next day")):
        rows = table[table[f"{label}_is_periodic"].to_numpy(bool) & table[f"{label}_wave"].notna()]
        if rows.empty:
            continue
        shown.add_row(name, f"{len(rows):,}", *(_median(rows[f"{label}_{way}"], 3) for way in WAYS),
                      *(_better(rows[f"{label}_at_means"], rows[f"{label}_{way}"]) for way in WAYS[2:]))
    return shown


def _better(wave: pd.Series, other: pd.Series) -> str:
    is_judged = wave.notna() & other.notna()
    return f"{100 * (wave < other)[is_judged].mean():.0f}" if is_judged.any() else "-"


def _reasons(table: pd.DataFrame) -> Table:
    shown = Table(title="Why a series is periodic or not", title_justify="left", caption_justify="left",
                  caption="Mean use: median of the series, % of the cores reserved.")
    for title in ("reason", "series", "share, %", "cores", "mean use, %"):
        shown.add_column(title, justify="left" if title == "reason" else "right", no_wrap=title != "reason")
    groups = sorted(table.groupby("reason"), key=lambda group: -len(group[1]))
    for name, rows in groups:
        shown.add_row(str(name).removeprefix("aperiodic because "), f"{len(rows):,}",
                      f"{100 * len(rows) / len(table):.1f}", f"{rows['cpu_cores'].sum():,.0f}",
                      _median(100 * rows["mean"], 1))
    return shown


def _classes(found: UsageDescription) -> Table:
    shown = Table(title=f"Classes of series with the same day, local time {found.timezone}", title_justify="left",
                  caption_justify="left",
                  caption="By the highest use of each quarter of an hour over all days, % of the cores reserved; "
                          "busiest and quietest of the class's mean day. Mean use: median of its series.")
    for title in ("class", "series", "share, %", "cores", "mean use, %", "busiest, %", "at", "quietest, %", "at",
                  "periodic, %"):
        shown.add_column(title, justify="right", no_wrap=True)
    table = found.table
    for k, centre in enumerate(found.centres):
        rows = table[table["class_id"] == k]
        high, low = int(centre.argmax()), int(centre.argmin())
        shown.add_row(str(k), f"{len(rows):,}", f"{100 * len(rows) / len(table):.1f}",
                      f"{rows['cpu_cores'].sum():,.0f}", _median(100 * rows["mean"], 1), f"{100 * centre[high]:.1f}",
                      slot_text(high, len(centre)), f"{100 * centre[low]:.1f}", slot_text(low, len(centre)),
                      f"{100 * rows['is_periodic'].mean():.0f}" if len(rows) else "-")
    n_none = int((table["class_id"] < 0).sum())
    if n_none:
        shown.add_row("none", f"{n_none:,}", f"{100 * n_none / len(table):.1f}",
                      f"{table.loc[table['class_id'] < 0, 'cpu_cores'].sum():,.0f}", "", "", "", "", "", "")
    return shown


def slot_text(slot: int, n_slots: int) -> str:
    """Begin of a slot of the day.

    >>> slot_text(39, 96)
    '09:45'
    """
    minutes = slot * 1440 // n_slots
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _median(values: pd.Series, n_digits: int) -> str:
    middle = values.median()
    return "-" if np.isnan(middle) else f"{middle:.{n_digits}f}"
