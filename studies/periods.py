"""Placement by usage, as in the experiments of period-aware placement.

    python -m studies period-a|period-b|period-c|period-d [--trace PATH --reader NAME] [--n-seeds N]

Made requests have known pulses. A trace of more than 14 days is judged on days that models have not seen; a shorter one
on the days that the models are fitted to, and says so. Its days are split into three sets one after the other."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from sojourn import __version__
from sojourn.features.usage import USAGE_READERS, UsageGrid, planetlab_days, read_usage, store_usage
from sojourn.flows.compare.tables import log_sections
from sojourn.flows.console import console, stage
from sojourn.flows.placement.workloads import TraceSpec, t_half_width
from sojourn.flows.reports.section import Section
from sojourn.flows.settings.trace import TraceSource
from sojourn.flows.versions.promotion import open_store
from sojourn.simulator.colocation import (
    COLOCATION_POLICIES,
    Colocation,
    Violations,
    place,
    violations,
)
from studies.optimum import Optimum, optimum
from studies.settings import OF_USAGE, StudySettings, run_study
from studies.usage_cases import (
    HISTORY_DAYS,
    N_SLOTS,
    USAGE_MODELS,
    PulseRecipe,
    UsageCase,
    day_cases,
    pooled,
    pulse_case,
    wave_profile,
    waves_of_day,
    waves_of_history,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEGEND = ("Rate: share of the slots in which a request's host is asked for more than it has, mean over requests, %. "
           "Severity: what is asked for above capacity, of all that is asked for, %. Ratios: to the baseline's means, "
           "with the paired 95 % interval over orders. Lower = better. Used: mean utilisation, %: load x (1 - "
           "severity). Seconds: to place one order.")
_TITLES = ("rate %", "95 % interval", "rate ratio", "severity %", "95 % interval", "severity ratio", "95 % interval",
           "used %", "seconds")
PANELS = (("request_rate_pct", "violation rate of a request, %"), ("severity_pct", "violation severity, %"),
          ("used_pct", "utilisation, %"))
_STYLES = ("o-", "s--", "^-.", "v:")
"""Lines that lie on each other stay visible."""
_GREY = "#444444"
SHARES_PCT = tuple(range(0, 101, 10))
POLICIES = ("period-aware", "squares")
VMS_PER_HOST = 10
"""Of a single day: as of 2,000 days of VMs on 200 hosts."""
MEASURES = ("host_rate_pct", "request_rate_pct", "severity_pct", "host_severity_pct", "request_severity_pct",
            "used_pct")
N_SETS = 3
_LIMIT_S = 60.0
_SIZES = (PulseRecipe(), PulseRecipe(cores=(1.0, 2.0, 4.0)))


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


def bars_figure(means: pd.DataFrame, title: str) -> Figure:
    """One bar for each label, with its 95 % interval over orders; as figures 7 and 8 of the paper."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 1.6 + 0.28 * len(means)), layout="constrained")
    axes = figure.subplots(1, len(PANELS), sharey=True)
    labels = means["label"].tolist()[::-1]
    for own, (name, words) in zip(axes, PANELS, strict=True):
        values, half = means[name].tolist()[::-1], (means[f"{name}_high"] - means[name]).fillna(0).tolist()[::-1]
        own.barh(labels, values, xerr=half, color="#4878a8", error_kw={"elinewidth": 1, "ecolor": _GREY, "capsize": 2})
        own.set_xlabel(words)
        if name == "used_pct":
            own.set_xlim(left=max(0.0, min(values) - 2))
    figure.suptitle(title, fontsize=9, x=0.02, ha="left", color=_GREY)
    return figure


def lines_figure(means: pd.DataFrame, by: str, words: str, title: str) -> Figure:
    """One line for each label over a setting, with bands of 95 % intervals; as figures 9 and 10 of the paper.

    A label of another number in it, such as `squares, 10 %`, is no line: give the table of one policy.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.4), layout="constrained")
    axes = figure.subplots(1, len(PANELS))
    for own, (name, what) in zip(axes, PANELS, strict=True):
        for k, (label, rows) in enumerate(means.groupby("label", sort=False)):
            own.plot(rows[by], rows[name], _STYLES[k % len(_STYLES)], markersize=3, label=str(label))
            own.fill_between(rows[by], rows[f"{name}_low"], rows[f"{name}_high"], alpha=0.2)
        own.set_xlabel(words)
        own.set_ylabel(what)
    axes[0].legend(fontsize=7)
    figure.suptitle(title, fontsize=9, x=0.02, ha="left", color=_GREY)
    return figure


def shares_of_periodic(case: UsageCase, waves: np.ndarray, strength: np.ndarray, setting: Setting,
                       seeds: Sequence[int], report: Callable[[int, int], None] | None = None) -> pd.DataFrame:
    """One row for each seed, share, policy and judge: `share_pct`, `judged_by` (`real use` or `waves`), measures.

    waves: float32 (n, n_slots), of all requests. strength: float64 (n,). The share with the greatest strength keeps its
    wave, the others are modelled by its peak; at 0 % `period-aware` is `borg-peak`, and its rows are the baseline.
    """
    n = min(setting.n_requests, len(case))
    rows = []
    for done, seed in enumerate(seeds):
        own = np.sort(np.random.default_rng([0, 1]).choice(len(case), n, replace=False))
        day, wave = case.day[own], waves[own]
        rank = np.argsort(np.argsort(-strength[own], kind="stable"))
        peak = np.broadcast_to(wave.max(axis=1, keepdims=True), wave.shape)
        order, capacity = np.random.default_rng([seed, 2]).permutation(n), setting.capacity(day)
        by_wave = Colocation(wave, setting.n_hosts_full, capacity)
        for share in SHARES_PCT:
            model = np.where((rank < n * share / 100)[:, None], wave, peak)
            colocation = Colocation(day, setting.n_hosts_full, capacity, model=model)
            for policy in POLICIES:
                hosts = place(colocation, policy, order)
                for judge, used in (("real use", colocation.used), ("waves", by_wave.used)):
                    found = violations(used, hosts, setting.n_hosts_full)
                    rows.append({"seed": seed, "share_pct": share, "policy": policy, "judged_by": judge,
                                 "label": f"{policy}, {share} %", **asdict(found), "elapsed_s": 0.0})
        if report is not None:
            report(done + 1, len(seeds))
    return pd.DataFrame(rows)


@dataclass(frozen=True, slots=True)
class Entry:
    """A policy and the model that it reads; an oracle's model is the real use."""

    policy: str
    model: str

    @property
    def label(self) -> str:
        """As in tables."""
        return self.policy if COLOCATION_POLICIES[self.policy].is_oracle else f"{self.policy}:{self.model}"


@dataclass(frozen=True, slots=True)
class Setting:
    """How many hosts, and how large: so that the mean use of all requests is `used_share` of `n_hosts_full` hosts.

    n_requests: drawn of a case, all of them where it has no more. n_hosts: by default n_hosts_full.
    """

    n_requests: int
    n_hosts_full: int
    n_hosts: int = 0
    used_share: float = 0.5

    def capacity(self, day: np.ndarray) -> float:
        """Of a host, in the unit of use."""
        return float(day.mean(axis=1, dtype=np.float64).sum()) / self.n_hosts_full / self.used_share


def run_orders(case: UsageCase, setting: Setting, entries: Sequence[Entry], seeds: Sequence[int],
               report: Callable[[int, int], None] | None = None, *, is_redrawn: bool = True) -> pd.DataFrame:
    """One row for each seed and entry: `seed`, `policy`, `model`, `label`, the measures, `elapsed_s` of the placement.

    is_redrawn: a seed draws the requests as well as their order; else all seeds place those that seed 0 draws.
    """
    rows = []
    for done, seed in enumerate(seeds):
        drawn = np.random.default_rng([seed if is_redrawn else 0, 1])
        n = min(setting.n_requests, len(case))
        own = case.take(np.sort(drawn.choice(len(case), n, replace=False)))
        order = np.random.default_rng([seed, 2]).permutation(n)
        models: dict[str, Colocation] = {}
        for entry in entries:
            if entry.model not in models:
                models[entry.model] = Colocation(own.day, setting.n_hosts or setting.n_hosts_full,
                                                 setting.capacity(own.day), model=USAGE_MODELS[entry.model](own))
            colocation = models[entry.model]
            started = time.perf_counter()
            hosts = place(colocation, entry.policy, order, seed)
            elapsed_s = time.perf_counter() - started
            found = violations(colocation.used, hosts, colocation.n_hosts)
            rows.append({"seed": seed, **asdict(entry), "label": entry.label, **asdict(found), "elapsed_s": elapsed_s})
        if report is not None:
            report(done + 1, len(seeds))
    return pd.DataFrame(rows)


def run_days(cases: Sequence[UsageCase], entries: Sequence[Entry], seeds: Sequence[int],
             report: Callable[[int, int], None] | None = None) -> pd.DataFrame:
    """One row for each case and entry: `day` (its date, or its name), `month` ("all" without dates),
    `n_requests`, `label`, and `severity_pct`, the mean over the seeds, which order the requests.

    Each day by itself: all its requests, on a host for every VMS_PER_HOST of them, used to half.
    """
    parts = []
    for done, case in enumerate(cases):
        setting = Setting(len(case), max(round(len(case) / VMS_PER_HOST), 2))
        runs = run_orders(case, setting, entries, seeds, is_redrawn=False)
        means = runs.groupby("label", sort=False)["severity_pct"].mean().reset_index()
        parts.append(means.assign(day=case.date or case.name, month=case.date[:7] or "all",
                                  n_requests=len(case)))
        if report is not None:
            report(done + 1, len(cases))
    return pd.concat(parts, ignore_index=True)


def order_means(runs: pd.DataFrame, baseline: str, by: Sequence[str] = ("label",), *,
                within: Sequence[str] | None = None) -> pd.DataFrame:
    """Means over seeds with 95 % t-intervals, and the ratio to the baseline label with its paired interval.

    `severity_ratio` and `request_rate_ratio` are ratios R of means; their intervals are those of the mean of
    y - R x over the mean of x, the linearised variance of a ratio of paired means (Cochran, Sampling Techniques,
    section 6.3). The baseline of a row has the same values of the columns `within`, by default of all of `by` but the
    label. Columns end in _low and _high.

    >>> runs = pd.DataFrame({"seed": [0, 1] * 2, "label": ["b", "b", "a", "a"],
    ...                      **{name: [2.0, 4.0, 1.0, 2.0] for name in MEASURES}, "elapsed_s": 0.0})
    >>> order_means(runs, "b").set_index("label")["severity_ratio"].tolist()
    [1.0, 0.5]
    """
    others = [name for name in by if name != "label"] if within is None else within
    rows = []
    for key, own in runs.groupby(list(by), sort=False):
        row = dict(zip(by, key if isinstance(key, tuple) else (key,), strict=True))
        is_base = runs["label"] == baseline
        for name in others:
            is_base &= runs[name] == row[name]
        base = runs[is_base].set_index("seed")
        own = own.set_index("seed")
        row["n_seeds"] = len(own)
        values = own[[*MEASURES, "elapsed_s"]]
        half = t_half_width(values.to_numpy(np.float64))
        for name, mean, width in zip(values.columns, values.mean().tolist(), half.tolist(), strict=True):
            row[name], row[f"{name}_low"], row[f"{name}_high"] = mean, mean - width, mean + width
        for name in ("severity", "request_rate"):
            reference = base[f"{name}_pct"]
            paired = reference.reindex(own.index).to_numpy(np.float64)
            mean = float(paired.mean())
            ratio = float(own[f"{name}_pct"].mean()) / mean if mean else np.nan
            width = float(t_half_width((own[f"{name}_pct"].to_numpy(np.float64) - ratio * paired)[:, None])[0])
            row[f"{name}_ratio"] = ratio
            row[f"{name}_ratio_low"] = ratio - width / mean if mean else np.nan
            row[f"{name}_ratio_high"] = ratio + width / mean if mean else np.nan
        rows.append(row)
    return pd.DataFrame(rows)


_MADE = (Entry("random", "true-peak"), Entry("best-fit", "true-peak"), Entry("borg-peak", "true-peak"),
         Entry("period-aware", "true-wave"), Entry("period-aware-per-request", "true-wave"),
         Entry("squares", "true-wave"), Entry("violation-fit", "true-wave"), Entry("oracle-peak", "true-peak"),
         Entry("oracle-series", "true-peak"))
_SAME_DAY = tuple(replace(entry, model={"true-peak": "peak-of-day", "true-wave": "wave-of-day"}[entry.model])
                  for entry in _MADE)
_NEXT_DAY = (Entry("random", "peak"), Entry("best-fit", "peak"), Entry("borg-peak", "peak"),
             Entry("period-aware", "wave"), Entry("squares", "wave"), Entry("period-aware", "max-7"),
             Entry("squares", "mean-7"), Entry("squares", "last-day"), Entry("period-aware", "past-7"),
             Entry("squares", "past-7"), Entry("squares", "past-14"), Entry("violation-fit", "past-7"),
             Entry("violation-fit", "past-14"),
             Entry("oracle-peak", "peak"), Entry("oracle-series", "peak"))
_BY_DAY = (Entry("borg-peak", "peak"), Entry("best-fit", "peak"), Entry("violation-fit", "past-7"),
           Entry("violation-fit", "past-14"))


def run_period_a(config: StudySettings) -> int:
    """100 requests on 20 hosts for a day, in as many random orders as there are seeds, beside the optimum (figure 7).

    Real series: 200 requests, for with 5 a host a host would be smaller than one VM. Returns 0.
    """
    cases = _cases(config, 100)
    setting = Setting(100 if config.trace is None else 200, 20)
    return _compared(config, cases, setting, is_redrawn=False, has_optimum=True)


def run_period_b(config: StudySettings) -> int:
    """10,000 requests on 2,000 hosts (figure 8); of real series 2,000 days of VMs on 200 hosts, and where models know
    the days before, every day by itself as well. Returns 0."""
    if config.trace is None:
        return _compared(config, _cases(config, 10_000), Setting(10_000, 2_000), is_redrawn=False, has_optimum=False)
    days = _single_days(config)
    return _compared(config, sets_of_days(days, config.trace.stem), Setting(2_000, 200), is_redrawn=True,
                     has_optimum=False, days=days if days[0].history is not None else ())


def run_period_c(config: StudySettings) -> int:
    """As period-b, with 75 to 125 % of the hosts of the same capacity (figure 9). Returns 0."""
    cases = _cases(config, 10_000)[:1]
    full = Setting(10_000, 2_000) if config.trace is None else Setting(2_000, 200)
    chosen = [entry for entry in _entries(cases[0]) if entry.policy in ("borg-peak", "oracle-peak")
              or (entry.policy, entry.model) in (("period-aware", "true-wave"), ("squares", "true-wave"),
                                                 ("period-aware", "wave"), ("period-aware", "wave-of-day"),
                                                 ("squares", "wave-of-day"), ("squares", "past-14"))]
    parts = []
    for share in (0.75, 0.875, 1.0, 1.125, 1.25):
        n_hosts = round(full.n_hosts_full * share)
        with stage(f"{n_hosts} hosts") as report:
            parts.append(run_orders(cases[0], replace(full, n_hosts=n_hosts), chosen, config.seeds, report,
                                    is_redrawn=config.trace is not None).assign(n_hosts=n_hosts))
    runs = pd.concat(parts, ignore_index=True)
    means = order_means(runs, _baseline(cases[0]), ("n_hosts", "label"))
    sections = [means_section(means, f"Hosts varied: {cases[0].name}", _caption(cases[0], full), ("n_hosts",))]
    return _finished(config, cases, sections, {"hosts": means, "runs": runs},
                     {"hosts": lines_figure(means, "n_hosts", "hosts", cases[0].name)})


def run_period_d(config: StudySettings) -> int:
    """As period-b, with 0 to 100 % of the requests, the strongest periods first, modelled by their wave and the others
    by their peak; judged by the real use and by all waves (figure 10). Returns 0."""
    case = _cases(config, 10_000)[0]
    full = Setting(10_000, 2_000) if config.trace is None else Setting(2_000, 200)
    if case.waves is not None and case.strength is not None:
        waves, strength = case.waves, case.strength
    else:
        fits = waves_of_day(case) if case.history is None else waves_of_history(case)
        waves = wave_profile(fits, 0 if case.history is None else case.history.shape[1])
        strength = np.where(fits.is_periodic, fits.magnitude, 0.0)
    with stage("shares") as report:
        runs = shares_of_periodic(case, waves, strength, full, config.seeds, report)
    means = order_means(runs, "period-aware, 0 %", ("judged_by", "share_pct", "policy", "label"), within=("judged_by",))
    sections = [means_section(means, f"Share of periodic models varied: {case.name}", _caption(case, full),
                              ("judged_by", "share_pct"))]
    own = means[means["policy"] == "period-aware"].assign(label=lambda table: "period-aware by " + table["judged_by"])
    return _finished(config, [case], sections, {"shares": means, "runs": runs},
                     {"shares": lines_figure(own, "share_pct", "share modelled as periodic, %", case.name)})


def _compared(config: StudySettings, cases: Sequence[UsageCase], setting: Setting, *, is_redrawn: bool,
              has_optimum: bool, days: Sequence[UsageCase] = ()) -> int:
    sections: list[Section] = []
    figures: dict[str, Figure] = {}
    tables: dict[str, pd.DataFrame] = {}
    for k, case in enumerate(cases):
        with stage(case.name) as report:
            runs = run_orders(case, setting, _entries(case), config.seeds, report, is_redrawn=is_redrawn)
        means = order_means(runs, _baseline(case))
        if has_optimum:
            with stage("optimum"):
                sections.append(optimum_section(*_optimum(case, setting)))
        sections.insert(len(sections) - has_optimum, means_section(means, case.name, _caption(case, setting)))
        figures[f"violations-{k}"] = bars_figure(means, case.name)
        tables[f"means-{k}"], tables[f"runs-{k}"] = means, runs
    if days:
        with stage("single days") as report:
            by_day = run_days(days, _BY_DAY, config.seeds, report)
        sections += days_sections(by_day, _BY_DAY[1].label, f"{len(days)} days, each by itself: a host for "
                                  f"{VMS_PER_HOST} requests, used to 50 % on the mean; models know the {HISTORY_DAYS} "
                                  f"days before; mean of {len(config.seeds)} orders.")
        tables["days"] = by_day
    return _finished(config, cases, sections, tables, figures)


def _optimum(case: UsageCase, setting: Setting) -> tuple[Optimum, Violations]:
    """Of the requests that seed 0 draws, begun at the placement of `squares` by the real use."""
    drawn = np.random.default_rng([0, 1])
    n = min(setting.n_requests, len(case))
    own = case.take(np.sort(drawn.choice(len(case), n, replace=False)))
    colocation = Colocation(own.day, setting.n_hosts_full, setting.capacity(own.day))
    first = place(colocation, "oracle-series", np.random.default_rng([0, 2]).permutation(n))
    found = optimum(colocation, first, limit_s=_LIMIT_S)
    return found, violations(colocation.used, found.hosts, colocation.n_hosts)


def _entries(case: UsageCase) -> tuple[Entry, ...]:
    return _MADE if case.waves is not None else _SAME_DAY if case.history is None else _NEXT_DAY


def _baseline(case: UsageCase) -> str:
    return next(entry.label for entry in _entries(case) if entry.policy == "borg-peak")


def _caption(case: UsageCase, setting: Setting) -> str:
    n = min(setting.n_requests, len(case))
    known = ("models are the true waves" if case.waves is not None else
             "models are fitted to the judged day itself (in-sample)" if case.history is None else
             f"models know the {HISTORY_DAYS} days before the judged one")
    return (f"{n:,} requests; {setting.n_hosts_full:,} hosts are used to {100 * setting.used_share:.0f} % on the mean; "
            f"{N_SLOTS} slots; {known}.")


def _cases(config: StudySettings, n: int) -> list[UsageCase]:
    """Made requests of two kinds, or sets of days of a trace."""
    if config.trace is None:
        return [pulse_case(n, 0, recipe) for recipe in _SIZES]
    return sets_of_days(_single_days(config), config.trace.stem)


def _single_days(config: StudySettings) -> list[UsageCase]:
    if config.trace is None:
        raise ValueError("trace must be a file or folder with usage, got none")
    with stage("read usage"):
        grids = usage_grids(config.reader, config.trace)
    return single_days(grids, config.trace.stem)


def single_days(grids: Sequence[UsageGrid], name: str) -> list[UsageCase]:
    """Next days, where one has 14 days before it; else all days, to be judged with models that are fitted to them.

    Refused with ValueError: no day with samples in 80 % of its slots.
    """
    cases = [case for grid in grids for case in day_cases(grid, name)]
    if not cases:
        cases = [case for grid in grids for case in day_cases(grid, name, history_days=0)]
    if not cases:
        raise ValueError(f"usage of {name} must cover 80 % of a day from midnight for one request, got none that does")
    return cases


def sets_of_days(days: Sequence[UsageCase], name: str) -> list[UsageCase]:
    """Days in three sets one after the other; each day of a VM is a request of its own."""
    words, first = ("same day", 0) if days[0].history is None else ("next day", HISTORY_DAYS)
    parts = [part.tolist() for part in np.array_split(np.arange(len(days)), min(N_SETS, len(days)))]
    return [pooled([days[k] for k in part], f"{name}, {words}, days {part[0] + first} to {part[-1] + first}")
            for part in parts]


def usage_grids(reader: str, path: Path) -> list[UsageGrid]:
    """All usage of a file as one grid of 5-minute steps; gaps stay missing. PlanetLab: one for each of its days, which
    lie weeks apart.

    Refused with ValueError: a reader of traces that reads no usage.
    """
    if reader not in USAGE_READERS:
        raise ValueError(f"reader must be one of {', '.join(USAGE_READERS)}, got "
                         f"{reader!r}")
    options = [{"day": day} for day in planetlab_days(path)] if reader == "planetlab" else [{}]
    with TemporaryDirectory() as folder:
        return [store_usage(read_usage(reader, path, **own), Path(folder) / "usage").grid() for own in options]


def _finished(config: StudySettings, cases: Sequence[UsageCase], sections: Sequence[Section],
              tables: dict[str, pd.DataFrame], figures: dict[str, Figure]) -> int:
    for section in sections:
        console.print()
        console.print(section)
    with stage("log"):
        digest = hashlib.sha256(__version__.encode())
        for case in cases:
            digest.update(np.ascontiguousarray(case.day).tobytes())
        source = TraceSource(config.trace, config.reader, None, len(cases[0]), 0)
        spec = TraceSpec(source, digest.hexdigest(), config.store, config.test_share, config.test_share)
        log_sections(open_store(config), config.preset, config.model_dump(mode="json"), spec, sections, tables, figures)
    return 0


RUNS: Mapping[str, tuple[Callable[[StudySettings], int], int]] = MappingProxyType({
    "period-a": (run_period_a, 100), "period-b": (run_period_b, 10), "period-c": (run_period_c, 3),
    "period-d": (run_period_d, 3)})
"""By the name of the study: what runs it, and how many seeds it has if none are given."""


def main() -> None:
    name = sys.argv[0].split()[-1]
    run, n_seeds = RUNS[name]
    run_study(name, run, OF_USAGE, seeds=tuple(range(n_seeds)))
