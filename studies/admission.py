"""The paper's experiments on admission: sweeps over a trace, its findings judged, figures 2 to 8, and their docs page.

    python -m studies admission sweep TRACE [--reader NAME] [--n-days N] [--n-draws N] [--out FOLDER]
    python -m studies admission page --sweep NAME=FOLDER ... --predict NAME=FOLDER ... [--pictures NAME]

The page, docs/simulator/admission_results.md, and its pictures are made from what the sweeps and `sojourn lab admit
--predict` wrote. A verdict of several traces is not formed: each stands by itself.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from sojourn.flows.admission.admit import MARK, check_out, finish, panels, submitted_of
from sojourn.flows.admission.admit import colour_of as colour_of_greedy
from sojourn.flows.admission.predicted import LEGEND as PREDICTED_LEGEND
from sojourn.flows.admission.predicted import predicted_section, predicted_summary
from sojourn.flows.admission.runs import (
    BACKFILL,
    SIGMA_SHARE,
    Entry,
    Setting,
    SubmittedJobs,
    Task,
    busiest_days,
    jobs_by_day,
    run_tasks,
)
from sojourn.flows.admission.settings import AdmitConfig
from sojourn.flows.console import stage
from sojourn.flows.placement.workloads import t_half_width
from sojourn.flows.reports.section import Section, markdown_rows
from sojourn.flows.retrain.ingest import with_kept_trace
from sojourn.flows.settings.store import load_settings
from sojourn.simulator.measures import interval_text, signed_text
from studies.threshold import ThresholdEntry

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure

Progress = Callable[[int, int], None]
_Tasks = dict[tuple[int, tuple[Entry, ...]], list[Task]]
"""By limit and the rules that are compared on them."""
LIMITS = (1, 30, 120, 5_000)
"""Jobs on more cores are left out."""
SHARES = (0.5, 1.0, 1.6)
"""Of the cores that a day's load would fill: scarce, as many, and plenty."""
FIGURE_SHARES = (0.25, 0.5, 0.75, 1.0, 1.3, 1.6, 2.0, 2.5, 3.0)
SLACKS = (0.01, 0.1, 0.5, 0.9)
FIGURE_SLACKS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
SIGMA_SHARES = (3.0, 2.8, 2.6, 2.4, 2.2, 2.0)
"""The slack divided by these is the sigma of the logarithm (table 1 of the paper)."""
BEST_FIT, BALANCED, MIN_IDLE = (Entry(name) for name in ("best-fit", "balanced", "min-idle"))
THRESHOLDED = ThresholdEntry("best-fit")
_FILLED = tuple(Entry(name, True) for name in ("best-fit", "balanced", "min-idle"))
_WIDE = (BEST_FIT, BALANCED, MIN_IDLE, *_FILLED)
ENTRIES: Mapping[int, tuple[Entry, ...]] = MappingProxyType({
    1: (BEST_FIT, BALANCED, THRESHOLDED), 30: _WIDE, 120: _WIDE, 5_000: (BEST_FIT, BALANCED, MIN_IDLE)})
"""Backfilling up to 30 and 120 cores, as in figure 8."""
WIDE_DRAWS = 3
"""Draws for jobs on several cores, at most: a draw changes little there, and backfilling takes long."""


def sweep_days(jobs: SubmittedJobs, trace: str, n_days: int, n_draws: int, seed: int, n_workers: int,
               progress: Progress) -> pd.DataFrame:
    """Rows of all rules on the days with the most jobs, by `limit`, `share` and slack; empty without such jobs.

    A limit under which the jobs are those of the limit before is left out.
    """
    tasks: _Tasks = {(limit, ENTRIES[limit]): [] for limit in LIMITS}
    for limit, days in _distinct(jobs):
        for day in busiest_days(days, n_days):
            own = days[day]
            for slack in SLACKS:
                for share in SHARES:
                    setting = Setting(slack, slack / _sigma_share(slack), own.filled_cores(share),
                                      marks=(("limit", limit), ("share", share)))
                    tasks[limit, ENTRIES[limit]].append(Task(trace, day, own, setting, _n_draws(limit, n_draws)))
    return _run(tasks, seed, n_workers, progress)


def sweep_figures(jobs: SubmittedJobs, trace: str, n_draws: int, seed: int, n_workers: int,
                  progress: Progress) -> pd.DataFrame:
    """Rows of the day with the most jobs, over the grids of the paper's figures; of limit 1 also of the days with the
    most load and with a middle number of jobs. `part`: which grid."""
    tasks: _Tasks = {}
    for limit, days in _distinct(jobs):
        most, n = busiest_days(days, 1)[0], _n_draws(limit, n_draws)
        whole, pair = tasks.setdefault((limit, ENTRIES[limit]), []), (BEST_FIT, BALANCED)
        for slack in FIGURE_SLACKS:  # maps of wide jobs show two rules only
            own = whole if limit == 1 or slack == 0.5 else tasks.setdefault((limit, pair), [])
            own += _over_cores(trace, most, days[most], limit, slack, SIGMA_SHARE, 0, n)
        if limit > 1:
            continue
        by_size = sorted(days, key=lambda day: (len(days[day]), day))
        most_load = max(days, key=lambda day: (days[day].load_s, -day))
        for part, day in ((1, most_load), (2, by_size[3 * len(by_size) // 4])):
            whole += _over_cores(trace, day, days[day], limit, 0.5, SIGMA_SHARE, part, n)
        whole += _over_cores(trace, most, days[most], limit, 0.01, 2.0, 0, n)
        for sigma_share in SIGMA_SHARES:
            whole += _over_cores(trace, most, days[most], limit, 0.8, sigma_share, 3, n)
    return _run(tasks, seed, n_workers, progress)


def _n_draws(limit: int, n_draws: int) -> int:
    return n_draws if limit == 1 else min(n_draws, WIDE_DRAWS)


def _over_cores(trace: str, day: int, jobs: SubmittedJobs, limit: int, slack: float, sigma_share: float, part: int,
                n_draws: int) -> Iterator[Task]:
    seen: set[int] = set()
    for share in FIGURE_SHARES:
        n_cores = jobs.filled_cores(share)
        if n_cores not in seen:  # no more than the widest job's
            marks = (("limit", limit), ("share", share), ("part", part), ("sigma_share", sigma_share))
            yield Task(trace, day, jobs, Setting(slack, slack / sigma_share, n_cores, marks=marks), n_draws)
        seen.add(n_cores)


def _distinct(jobs: SubmittedJobs) -> Iterator[tuple[int, dict[int, SubmittedJobs]]]:
    n_before = 0
    for limit in LIMITS:
        days = jobs_by_day(jobs, limit)
        n = sum(map(len, days.values()))
        if n > n_before:
            yield limit, days
        n_before = n


def _sigma_share(slack: float) -> float:
    """As in figure 5a, the least slack has the least sigma share."""
    return 2.0 if slack == 0.01 else SIGMA_SHARE


def _shown(progress: Progress, before: int, n_all: int, done: int, _: int) -> None:
    progress(before + done, n_all)


def _run(tasks: _Tasks, seed: int, n_workers: int, progress: Progress) -> pd.DataFrame:
    n_done, n_all, parts = 0, sum(map(len, tasks.values())), []
    for (_, entries), own in tasks.items():
        if own:
            parts.append(run_tasks(own, entries, seed, n_workers, partial(_shown, progress, n_done, n_all)))
            n_done += len(own)
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


_Days = Callable[[pd.DataFrame], "pd.Series[float] | None"]
BF, BAL, IDLE, THRESHOLD = "greedy best-fit", "greedy balanced", "greedy min-idle", "threshold best-fit"
BF_HOLES, BAL_HOLES = "greedy best-fit backfill", "greedy balanced backfill"


@dataclass(frozen=True, slots=True)
class Claim:
    """A finding: `of` a table of runs gives a number a day that the finding says is above 0; None = not testable."""

    words: str
    of: _Days


def _difference(limit: int, slack: float, worse: str, better: str) -> _Days:
    """Ratio of the one minus that of the other, by day, means over draws and cores."""

    def by_day(runs: pd.DataFrame) -> pd.Series[float] | None:
        if not len(runs):
            return None
        own = runs[(runs["limit"] == limit) & (runs["slack"] == slack) & np.isfinite(runs["ratio"])]
        means = own.groupby(["label", "day"])["ratio"].mean()
        if worse not in means or better not in means:
            return None
        return (means[worse] - means[better]).dropna()

    return by_day


def _more(one: _Days, other: _Days) -> _Days:
    """The one minus the other, by day."""

    def by_day(runs: pd.DataFrame) -> pd.Series[float] | None:
        pair = one(runs), other(runs)
        return None if pair[0] is None or pair[1] is None else (pair[0] - pair[1]).dropna()

    return by_day


CLAIMS = (
    Claim("greedy beats threshold, slack 0.01, sequential", _difference(1, 0.01, THRESHOLD, BF)),
    Claim("greedy beats threshold, slack 0.1, sequential", _difference(1, 0.1, THRESHOLD, BF)),
    Claim("greedy beats threshold by less at slack 0.9 than at 0.1",
          _more(_difference(1, 0.1, THRESHOLD, BF), _difference(1, 0.9, THRESHOLD, BF))),
    Claim("slack 0.1: acceptance matters more than allocation",
          _more(_difference(1, 0.1, THRESHOLD, BF), _difference(1, 0.1, BAL, BF))),
    Claim("allocation matters more at slack 0.9 than at 0.1",
          _more(_difference(1, 0.9, BAL, BF), _difference(1, 0.1, BAL, BF))),
    Claim("best-fit beats balanced, slack 0.5, sequential", _difference(1, 0.5, BAL, BF)),
    Claim("best-fit beats balanced, slack 0.5, up to 30 cores", _difference(30, 0.5, BAL, BF)),
    Claim("best-fit beats balanced, slack 0.5, up to 120 cores", _difference(120, 0.5, BAL, BF)),
    Claim("best-fit gains less up to 120 cores than sequential",
          _more(_difference(1, 0.5, BAL, BF), _difference(120, 0.5, BAL, BF))),
    Claim("balanced beats best-fit, slack 0.5, up to 5,000 cores", _difference(5_000, 0.5, BF, BAL)),
    Claim("min-idle beats best-fit, slack 0.5, up to 30 cores", _difference(30, 0.5, BF, IDLE)),
    Claim("min-idle beats best-fit, slack 0.5, up to 120 cores", _difference(120, 0.5, BF, IDLE)),
    Claim("backfilling helps best-fit, slack 0.5, up to 30 cores", _difference(30, 0.5, BF, BF_HOLES)),
    Claim("backfilling helps best-fit, slack 0.5, up to 120 cores", _difference(120, 0.5, BF, BF_HOLES)),
    Claim("backfilling helps more up to 120 cores than up to 30",
          _more(_difference(120, 0.5, BF, BF_HOLES), _difference(30, 0.5, BF, BF_HOLES))),
    Claim("best-fit backfill beats min-idle, up to 120 cores", _difference(120, 0.5, IDLE, BF_HOLES)),
)
LEGEND = ("Difference of ratios as the finding has it, above 0 = as found: mean over days, draws and three numbers of "
          "cores (0.5, 1 and 1.6 times what the day's load fills), with the 95 % t-interval over days. Reproduced: the "
          "interval is above 0; refuted: below 0; level: it holds 0; not testable: no such jobs, or one day only.")


def judged_claims(runs: pd.DataFrame) -> pd.DataFrame:
    """A row per claim: `claim`, `n_days`, `difference`, `low`, `high`, `verdict`."""
    rows = []
    for claim in CLAIMS:
        days = claim.of(runs)
        values = np.empty(0) if days is None else days.to_numpy(np.float64)
        mean = float(values.mean()) if len(values) else float("nan")
        half = float(t_half_width(values[:, None])[0]) if len(values) else float("nan")
        rows.append({"claim": claim.words, "n_days": len(values), "difference": mean, "low": mean - half,
                     "high": mean + half, "verdict": claim_verdict(mean - half, mean + half)})
    return pd.DataFrame(rows)


def claim_verdict(low: float, high: float) -> str:
    """Of a difference that a finding says is above 0.

    >>> claim_verdict(0.1, 0.2), claim_verdict(-0.2, -0.1), claim_verdict(-0.1, 0.1), claim_verdict(np.nan, np.nan)
    ('reproduced', 'refuted', 'level', 'not testable')
    """
    return "not testable" if np.isnan(low) else "reproduced" if low > 0 else "refuted" if high < 0 else "level"


def claims_section(judged: pd.DataFrame, title: str, caption: str) -> Section:
    """The claims as a table."""
    rows = tuple((row["claim"], str(row["n_days"]), signed_text(row["difference"], 3, "-"),
                  interval_text(row["low"], row["high"], 3, " "), row["verdict"])
                 for row in judged.to_dict("records"))
    return Section(title, caption, ("finding", "days", "difference", "interval", "verdict"), rows, 1, LEGEND)


RATIO_LEGEND = ("Performance ratio, 1 = the best (lower = better): mean over days and draws. Time: median of all "
                "decisions of a day, as a multiple of greedy best-fit's.")


def ratios_section(runs: pd.DataFrame, title: str, caption: str) -> Section:
    """Ratios by limit, share of cores and rule; a column a slack."""
    slacks = sorted(set(runs["slack"]))
    finite = runs[np.isfinite(runs["ratio"])]
    means = finite.groupby(["limit", "share", "label", "slack"])["ratio"].mean().to_dict()
    took = finite.groupby(["limit", "share", "label"])["took_s"].median().to_dict()
    cores = finite.groupby(["limit", "share"])["n_cores"].mean().to_dict()
    keys = dict.fromkeys(zip(runs["limit"], runs["share"], runs["label"], strict=True))
    rows = tuple((f"{limit:,.0f}", f"{share:g} ({cores[limit, share]:,.0f})", label,
                  *(f"{means[limit, share, label, slack]:.3f}" if (limit, share, label, slack) in means else "-"
                    for slack in slacks),
                  f"{took[limit, share, label] / took[limit, share, BF]:.1f}")
                 for limit, share, label in keys if (limit, share, label) in took and (limit, share, BF) in took)
    return Section(title, caption, ("limit", "cores", "rule", *(f"slack {slack:g}" for slack in slacks), "time"), rows,
                   3, RATIO_LEGEND)


_MAX_ROWS = 200
"""Of the tables of one page."""
_RATIO = "performance ratio (lower = better)"
_LIMITS = {1: "sequential", 30: "up to 30 cores", 120: "up to 120 cores", 5_000: "up to 5,000 cores"}


def paper_figures(rows: pd.DataFrame) -> dict[str, Figure]:
    """Those that the rows of `sweep_figures` have jobs for, by name."""
    found: dict[str, Figure] = {}
    limits = sorted(set(rows["limit"].astype(int)))
    if 1 in limits:
        one = rows[rows["limit"] == 1]
        found |= {"figure-2": _load(one), "figure-3": _days(one), "figure-4": _maps_of_sequential(one),
                  "figure-5": _small_slack(one)}
    wide = [limit for limit in limits if limit > 1]
    if wide:
        found |= {"figure-6-7": _maps(rows, wide), "figure-8": _backfilling(rows, wide)}
    return found


def _of(rows: pd.DataFrame, slack: float, part: int = 0, sigma_share: float = 2.5) -> pd.DataFrame:
    return rows[(rows["slack"] == slack) & (rows["part"] == part) & (rows["sigma_share"] == sigma_share)]


def _means(rows: pd.DataFrame, value: str = "ratio") -> pd.DataFrame:
    """Mean, least and most over draws, by rule and cores."""
    own = rows[np.isfinite(rows["ratio"])].groupby(["label", "n_cores"], sort=False)[value]
    return pd.DataFrame({value: own.mean(), "least": own.min(), "most": own.max()}).reset_index()


def _titled(axes: Axes, words: str) -> None:
    axes.set_title(words, fontsize=9, loc="left")


def _load(one: pd.DataFrame) -> Figure:
    figure, (axes,) = panels(1, 6.2, 3.8)
    rows = _of(one, 0.8)
    curves(axes, _means(rows, "accepted_core_h"), "accepted_core_h", "accepted load, core-hours (higher = better)")
    limit = rows.groupby("n_cores")["limit_core_h"].mean()
    axes.plot(limit.index, limit, color="#222222", lw=1.2, ls=":", label="upper load limit")
    axes.legend(frameon=False, fontsize=8)
    _titled(axes, f"Day {rows['day'].iloc[0]:.0f}, sequential, slack 0.8; bars: least and most of the draws")
    return figure


def _days(one: pd.DataFrame) -> Figure:
    words = ("most jobs", "most load", "more jobs than 3/4 of the days")
    parts = [part for part in range(3) if len(_of(one, 0.5, part))]
    figure, every = panels(len(parts), 4.0, 3.4)
    for axes, part in zip(every, parts, strict=True):
        rows = _of(one, 0.5, part)
        curves(axes, _means(rows)[["label", "n_cores", "ratio"]], "ratio", _RATIO)
        _titled(axes, f"Day {rows['day'].iloc[0]:.0f}, {rows['n_jobs'].iloc[0]:,.0f} jobs:\n{words[part]}; slack 0.5")
    every[-1].legend(frameon=False, fontsize=8)
    return figure


def _differences(rows: pd.DataFrame, row: str, worse: str) -> pd.DataFrame:
    means = rows[np.isfinite(rows["ratio"])].groupby(["label", row, "n_cores"])["ratio"].mean()
    return (means[worse] - means[BF]).rename("difference").reset_index()


def _map(figure: Figure, axes: Axes, table: pd.DataFrame, row: str, words: str, title: str) -> None:
    limit = max(float(table["difference"].abs().max()), 0.01)
    figure.colorbar(heat_map(axes, table, row, words, limit), ax=axes)
    _titled(axes, title)


def _maps_of_sequential(one: pd.DataFrame) -> Figure:
    figure, (left, right) = panels(2, 4.8, 3.4)
    sigmas = one[one["part"] == 3].assign(sigma=lambda rows: rows["slack"] / rows["sigma_share"])
    _map(figure, left, _differences(sigmas, "sigma", BAL), "sigma", "sigma of the logarithm",
         "Ratio of balanced minus best-fit, slack 0.8")
    slacks = one[(one["part"] == 0) & (one["sigma_share"] == 2.5)]
    _map(figure, right, _differences(slacks, "slack", THRESHOLD), "slack", "slack",
         "Ratio of threshold minus best-fit")
    return figure


def _small_slack(one: pd.DataFrame) -> Figure:
    figure, (left, right) = panels(2, 4.8, 3.4)
    curves(left, _means(_of(one, 0.01, 0, 2.0))[["label", "n_cores", "ratio"]], "ratio", _RATIO)
    left.legend(frameon=False, fontsize=8)
    _titled(left, "Slack 0.01, sigma = slack / 2")
    slacks = one[(one["part"] == 0) & (one["sigma_share"] == 2.5)]
    _map(figure, right, _differences(slacks, "slack", BAL), "slack", "slack", "Ratio of balanced minus best-fit")
    return figure


def _maps(rows: pd.DataFrame, limits: list[int]) -> Figure:
    figure, every = panels(len(limits), 4.4, 3.4)
    for axes, limit in zip(every, limits, strict=True):
        own = rows[(rows["limit"] == limit) & (rows["part"] == 0)]
        _map(figure, axes, _differences(own, "slack", BAL), "slack", "slack",
             f"Balanced minus best-fit, {_LIMITS[limit]}")
    return figure


def _backfilling(rows: pd.DataFrame, limits: list[int]) -> Figure:
    figure, every = panels(len(limits), 4.4, 3.6)
    for axes, limit in zip(every, limits, strict=True):
        own = _of(rows[rows["limit"] == limit], 0.5)
        curves(axes, _means(own)[["label", "n_cores", "ratio"]], "ratio", _RATIO)
        _titled(axes, f"{_LIMITS[limit].capitalize()}, slack 0.5")
    fullest = max(every, key=lambda axes: len(axes.get_legend_handles_labels()[1]))
    fullest.legend(frameon=False, fontsize=7, handlelength=3.5)  # long enough to tell dashes from lines
    return figure


def curves(axes: Axes, table: pd.DataFrame, value: str, words: str) -> None:
    """A line per rule over the number of cores. table: `label`, `n_cores`, the value, and optionally `least`, `most`
    of it over draws, drawn as bars."""
    labels = list(dict.fromkeys(table["label"]))
    for label in labels:
        own = table[table["label"] == label].sort_values("n_cores")
        spread = None
        if "least" in own:
            spread = np.maximum([own[value] - own["least"], own["most"] - own[value]], 0.0)
        axes.errorbar(own["n_cores"], own[value], yerr=spread, color=colour_of(label, labels), label=label, lw=1.4,
                      marker="o", markersize=2.5, ls="--" if label.endswith(BACKFILL) else "-", capsize=2,
                      elinewidth=0.8)
    axes.set_xlabel("cores")
    axes.set_ylabel(words)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, lw=0.5)


def colour_of(label: str, labels: Sequence[str]) -> str:
    """The same rule has the same colour in all pictures."""
    return "#d98c3f" if label == THRESHOLD else colour_of_greedy(label, labels)


def heat_map(axes: Axes, table: pd.DataFrame, row: str, words: str, limit: float) -> QuadMesh:
    """Differences of ratios over cores and `row`, interpolated; blue = the first rule is better, white = 0.

    table: `n_cores`, `row`, `difference`, on a full grid.
    """
    grid = table.pivot_table(index=row, columns="n_cores", values="difference")
    shown = axes.pcolormesh(grid.columns.to_numpy(float), grid.index.to_numpy(float), grid.to_numpy(), cmap="RdBu",
                            vmin=-limit, vmax=limit, shading="gouraud")
    axes.set_xlabel("cores")
    axes.set_ylabel(words)
    return shown



SWEPT = frozenset({MARK, "claims.csv", "figures.csv", *(f"figure-{n}.png" for n in ("2", "3", "4", "5", "6-7", "8"))})
"""All files of a sweep; a folder with another one is not replaced."""


def run_sweep(config: AdmitConfig) -> None:
    """The paper's experiments on the trace: its findings judged, ratios, figures 2 to 8."""
    if config.out is not None:
        check_out(config.out, SWEPT)
    name = config.source.name
    with stage("read"):
        jobs = submitted_of(config)
    asked = (config.n_draws, config.seed, config.n_workers)
    with stage("days") as report:
        runs = sweep_days(jobs, name, config.n_days, *asked, report)
    if not len(runs):
        raise ValueError(f"{name} must hold jobs on at most 5,000 cores, got none")
    with stage("figures") as report:
        rows = sweep_figures(jobs, name, *asked, report)
    figures = paper_figures(rows)
    caption = (f"{name}: the {config.n_days} days with the most jobs, or all if they are fewer; {config.n_draws} draws "
               f"of slacks for sequential jobs, at most {WIDE_DRAWS} for others, sigma = slack / 2.5 (at slack 0.01: "
               "/ 2).")
    judged = judged_claims(runs)
    sections = [claims_section(judged, "What the paper found", caption), ratios_section(runs, "Ratios", caption)]
    finish(config, "admit sweep", sections, {"admission": runs, "claims": judged, "figures": rows}, figures,
           SWEPT)



DOCS = Path(__file__).resolve().parents[1] / "docs" / "simulator"
TARGET = {"greedy balanced": (1.372, 1.321, 1.253), "greedy best-fit": (1.358, 1.254, 1.154),
          "threshold best-fit": (2.041, 1.411, 1.169)}
"""Ratios of an earlier prototype at slack 0.1, 0.5 and 0.9, on days of such logs that it does not name."""


def claims_table(folders: dict[str, Path]) -> list[str]:
    """A row a finding, a column a trace: difference, interval, verdict."""
    tables = {name: pd.read_csv(folder / "claims.csv").set_index("claim") for name, folder in folders.items()}
    rows = []
    for claim in next(iter(tables.values())).index:
        cells = []
        for table in tables.values():
            row = table.loc[claim]
            difference, low, high = float(row["difference"]), float(row["low"]), float(row["high"])
            shown = "" if np.isnan(difference) else f"{signed_text(difference, 3)} "
            span = "" if np.isnan(low) else f"({interval_text(low, high, 3, ' ')}) "
            cells.append(f"{shown}{span}{claim_verdict(low, high)}")
        rows.append((str(claim), *cells))
    return markdown_rows(("finding", *tables), rows, len(tables) + 1)


def target_table(runs: pd.DataFrame) -> tuple[list[str], float, float]:
    """Ratios of sequential jobs with the most cores beside the targets; the largest difference of best-fit and
    threshold, and of balanced."""
    own = runs[(runs["limit"] == 1) & (runs["share"] == 1.6)]
    means = own.groupby(["label", "slack"])["ratio"].mean().to_dict()
    rows, differences = [], {}
    for label, target in TARGET.items():
        found = [means[label, slack] for slack in (0.1, 0.5, 0.9)]
        differences[label] = max(abs(a - b) for a, b in zip(found, target, strict=True))
        rows.append((label, *(f"{a:.3f} ({b:.3f})" for a, b in zip(found, target, strict=True)),
                     f"{differences[label]:.3f}"))
    others = max(differences["greedy best-fit"], differences["threshold best-fit"])
    return (markdown_rows(("rule", "slack 0.1", "slack 0.5", "slack 0.9", "largest difference"), rows, 1), others,
            differences["greedy balanced"])


def named(given: list[str]) -> dict[str, Path]:
    """NAME=FOLDER, by name."""
    return {each.partition("=")[0]: Path(each.partition("=")[2]) for each in given}


def write_page(sweeps: dict[str, Path], predicted: dict[str, Path], pictures: str, target: str) -> None:
    """Write the page, those with the ratios that it links to, and its pictures."""
    lines = ["# Admission: results", "",
             "Written by `python -m studies admission page` from its `sweep` and `sojourn lab admit --predict`. Rules "
             "and words: [admission](admission.md).", "", "## What the paper found", "",
             f"{LEGEND} The days of a trace are the ten with the most jobs (google: one part of a day, 5.7 h, so that "
             "there is no interval). The interval does not cover other traces.", "", *claims_table(sweeps), "",
             "## Ratios beside the target", ""]
    table, others, balanced = target_table(pd.read_csv(sweeps[target] / "admission.csv"))
    lines += [f"Sequential jobs of {target}, the ten days with the most of them, 1.6 times as many cores as "
              "each day's load fills, ten draws. In brackets: the target, from an earlier prototype on days that it "
              "does not name. These days and cores were chosen because they come near it. Best-fit and threshold are "
              f"within {others:.3f} of it, balanced within {balanced:.3f}.", "", *table, "", "## Figures", "",
              f"Figures 2 to 8 of the paper, of {pictures}: the day with the most jobs. Blue: best-fit is "
              "better.", ""]
    for stem, figure in paper_figures(pd.read_csv(sweeps[pictures] / "figures.csv")).items():
        name = f"admission_{stem.replace('-', '_')}.png"
        figure.savefig(DOCS / name, dpi=100, format="png")
        lines += [f"![{stem.replace('-', ' ')}]({name})", ""]
    ratios = {name: ratios_section(pd.read_csv(folder / "admission.csv"), name, "") for name, folder in sweeps.items()}
    pages = ratio_pages(ratios)
    lines += ["## Ratios by limit and cores", "",
              *(f"- [{', '.join(names)}]({page})" for page, names in pages.items()), ""]
    for page, names in pages.items():
        about = [f"# Admission: ratios of {', '.join(names)}", "", "Rules and words: [admission](admission.md). "
                 "Findings and figures: [results](admission_results.md).", "", f"{RATIO_LEGEND} Cores: share of those "
                 "that the day's load fills, and their mean number. They are at least the widest job's.", ""]
        for name in names:
            about += [f"## {name}", "", *markdown_rows(ratios[name].titles, ratios[name].rows, ratios[name].n_text), ""]
        _write(page, about)
    lines += ["## By predicted processing times", "", f"{PREDICTED_LEGEND} The days are the ten with the most jobs of "
              "the last 30 % of the jobs; the model knows the days before the first of them, and of each day what had "
              "ended when it began.", ""]
    for name, folder in predicted.items():
        section = predicted_section(predicted_summary(pd.read_csv(folder / "admission.csv")), "")
        lines += [f"### {name}, hazard", "", *markdown_rows(section.titles, section.rows, section.n_text), ""]
    _write("admission_results.md", lines)


def ratio_pages(ratios: Mapping[str, Section]) -> dict[str, list[str]]:
    """Names by page, in their order: a page takes names while its tables have at most 200 rows.

    >>> ratio_pages({name: Section("", "", (), ((),) * 90, 1) for name in "abc"})
    {'admission_ratios.md': ['a', 'b'], 'admission_ratios_2.md': ['c']}
    """
    groups: list[list[str]] = [[]]
    for name, section in ratios.items():
        if groups[-1] and sum(len(ratios[other].rows) for other in groups[-1]) + len(section.rows) > _MAX_ROWS:
            groups.append([])
        groups[-1].append(name)
    return {f"admission_ratios{f'_{k}' if k > 1 else ''}.md": names for k, names in enumerate(groups, 1)}


def _write(page: str, lines: Sequence[str]) -> None:
    wrapped = [line if line.startswith(("|", "#", "!", "-")) else "\n".join(textwrap.wrap(line, 118)) for line in lines]
    (DOCS / page).write_text("\n".join(wrapped).rstrip() + "\n")
    print(f"written to {DOCS / page}")


def main(args: Sequence[str] | None = None) -> None:
    """Sweep a trace, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    sweep = parts.add_parser("sweep", help="All rules over cores, slacks and limits of width.")
    sweep.add_argument("trace", type=Path)
    for name, kind in (("reader", str), ("horizon-s", float), ("n-days", int), ("n-draws", int), ("seed", int),
                       ("n-workers", int), ("store", Path), ("out", Path), ("page", Path)):
        sweep.add_argument(f"--{name}", type=kind, help="As of `sojourn lab admit`.")
    page = parts.add_parser("page", help="The page of the docs.")
    page.add_argument("--sweep", action="append", default=[])
    page.add_argument("--predict", action="append", default=[])
    page.add_argument("--pictures", default="RICC")
    page.add_argument("--target", default="RICC")
    given = vars(parser.parse_args(args))
    if given.pop("part") == "sweep":
        run_sweep(with_kept_trace(load_settings(AdmitConfig, **given)))
    else:
        write_page(named(given["sweep"]), named(given["predict"]), given["pictures"], given["target"])
