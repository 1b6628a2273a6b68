"""The presets `period-a` to `period-d`: placement by usage, as in the experiments of period-aware placement.

Made requests have known pulses. A trace (`--trace`, `--reader`) of more than 14 days is judged on days that models have
not seen; a shorter one on the days that the models are fitted to, and says so. Its days are split into three sets one
after the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from sojourn import __version__
from sojourn.features.usage import USAGE_READERS, UsageGrid, planetlab_days, read_usage, store_usage
from sojourn.flows.compare.settings import CompareConfig
from sojourn.flows.compare.tables import log_sections
from sojourn.flows.console import console, stage
from sojourn.flows.evaluations.colocation_runs import (
    VMS_PER_HOST,
    Entry,
    Setting,
    order_means,
    run_days,
    run_orders,
)
from sojourn.flows.evaluations.period_figures import bars_figure, lines_figure
from sojourn.flows.evaluations.period_sections import days_sections, means_section, optimum_section
from sojourn.flows.evaluations.periodic_share import shares_of_periodic
from sojourn.flows.placement.usage_case import (
    HISTORY_DAYS,
    N_SLOTS,
    PulseRecipe,
    UsageCase,
    day_cases,
    pooled,
    pulse_case,
)
from sojourn.flows.placement.usage_models import wave_profile, waves_of_day, waves_of_history
from sojourn.flows.placement.workloads import TraceSpec
from sojourn.flows.reports.section import Section
from sojourn.flows.settings.trace import TraceSource
from sojourn.flows.versions.promotion import open_store
from sojourn.simulator.colocation import Colocation, Optimum, Violations, optimum, place, violations

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_SETS = 3
_LIMIT_S = 60.0
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
_SIZES = (PulseRecipe(), PulseRecipe(cores=(1.0, 2.0, 4.0)))


def run_period_a(config: CompareConfig) -> int:
    """100 requests on 20 hosts for a day, in as many random orders as there are seeds, beside the optimum (figure 7).

    Real series: 200 requests, for with 5 a host a host would be smaller than one VM. Returns 0.
    """
    cases = _cases(config, 100)
    setting = Setting(100 if config.trace is None else 200, 20)
    return _compared(config, cases, setting, is_redrawn=False, has_optimum=True)


def run_period_b(config: CompareConfig) -> int:
    """10,000 requests on 2,000 hosts (figure 8); of real series 2,000 days of VMs on 200 hosts, and where models know
    the days before, every day by itself as well. Returns 0."""
    if config.trace is None:
        return _compared(config, _cases(config, 10_000), Setting(10_000, 2_000), is_redrawn=False, has_optimum=False)
    days = _single_days(config)
    return _compared(config, sets_of_days(days, config.trace.stem), Setting(2_000, 200), is_redrawn=True,
                     has_optimum=False, days=days if days[0].history is not None else ())


def run_period_c(config: CompareConfig) -> int:
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


def run_period_d(config: CompareConfig) -> int:
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


def _compared(config: CompareConfig, cases: Sequence[UsageCase], setting: Setting, *, is_redrawn: bool,
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


def _cases(config: CompareConfig, n: int) -> list[UsageCase]:
    """Made requests of two kinds, or sets of days of a trace."""
    if config.trace is None:
        return [pulse_case(n, 0, recipe) for recipe in _SIZES]
    return sets_of_days(_single_days(config), config.trace.stem)


def _single_days(config: CompareConfig) -> list[UsageCase]:
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
        raise ValueError(f"reader must be one of {', '.join(USAGE_READERS)} with a preset that places by usage, got "
                         f"{reader!r}")
    options = [{"day": day} for day in planetlab_days(path)] if reader == "planetlab" else [{}]
    with TemporaryDirectory() as folder:
        return [store_usage(read_usage(reader, path, **own), Path(folder) / "usage").grid() for own in options]


def _finished(config: CompareConfig, cases: Sequence[UsageCase], sections: Sequence[Section],
              tables: dict[str, pd.DataFrame], figures: dict[str, Figure]) -> int:
    for section in sections:
        console.print()
        console.print(section, crop=False)
    with stage("log"):
        digest = hashlib.sha256(__version__.encode())
        for case in cases:
            digest.update(np.ascontiguousarray(case.day).tobytes())
        source = TraceSource(config.trace, config.reader, None, len(cases[0]), 0)
        spec = TraceSpec(source, digest.hexdigest(), config.store, config.test_share, config.test_share)
        log_sections(open_store(config), config.preset, config.model_dump(mode="json"), spec, sections, tables, figures)
    return 0
