"""Tables IV and V and figures 5 to 7 of the CTCL paper, and its claims beside our figures.

    python -m studies ctcl-table [--trace PATH --reader NAME] [--batch-trace PATH] [--n-requests N] [--n-seeds N]

The mix is made, or the services of a trace with usage beside a table of batch tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from sojourn.features.readers import read_alibaba_2018_instances, read_trace
from sojourn.features.usage import USAGE_READERS, UsageGrid, read_usage, store_usage
from sojourn.flows.compare.tables import log_sections
from sojourn.flows.console import console, stage
from sojourn.flows.placement.workloads import t_half_width
from sojourn.flows.reports.section import Section
from sojourn.flows.versions.promotion import open_store
from sojourn.serving.usage import DAY_S
from sojourn.simulator.measures import signed_text
from sojourn.simulator.mixed import (
    OUTCOMES,
    SCHEDULERS,
    Autoscaler,
    MixedResult,
    MixedScheduler,
    MixedWorkload,
    homogeneous,
    own_maximum,
    replay_mixed,
    true_needs,
)
from sojourn.simulator.page import COLOURS
from studies.mixes import (
    INTERVAL_S,
    MEM_PER_SHARE_GIB,
    DailyClasses,
    MixParameters,
    class_needs,
    daily_classes,
    fixed_pool,
    made_mix,
    real_mix,
    recorded_mix,
    service_grid,
)
from studies.recorded_runs import RecordedRuns, replay_recorded
from studies.settings import StudySettings, run_study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_CLASSES = (10, 15, 20, 25, 30)
OBSERVED_H = (12, 24)
FIGURES = ("trace", "k8s", "demand-blind", "ctcl 20c-12h", "ctcl 20c-24h")
_MARGIN = 0.15
"""A vertical autoscaler's safety margin over what it saw (Kubernetes' recommender adds 15 %)."""
_Needs = Callable[[MixedWorkload], np.ndarray | None]
_IV = ("algorithm", "CPU %", "memory %", "largest cluster", "mean cluster", "wait s", "price/h", "overload %")
_IV_LEGEND = ("CPU and memory: use over the capacity of the machines that are ready, time-weighted over all days (the "
              "fixed pool of trace: of those in use). Wait: of the batch requests that ended, from arrival to "
              "the begin of the run that ended, so with what evictions lost. Price: of the default type's "
              "(relative prices of machine types are ours). Overload: of the machines' time. ± half of the "
              "95 % interval over the seeds.")
_V = ("algorithm", "rescheduled", "of batch %", "more than once", "mean cost s")
_V_LEGEND = ("Rescheduled: batch requests evicted at least once. Cost: lost progress and reallocation, of each. "
             "± half of the 95 % interval over the seeds.")
BEST = "ctcl 20c-24h"
STEPS = ("k8s", "k8s + types", "k8s + types, no margin", "k8s + types, no margin, order",
         "ctcl own maximum 24h", BEST)
"""From k8s to ctcl, one rule after the other: its machine types, no margin above what was seen, its
order of eviction, idle room for batch requests in place of smaller reservations, classes."""
_ALONE = "k8s + order"
_STEP_TITLES = ("algorithm", "cluster: step", "cluster: total", "price", "rescheduled", "wait s")
_STEP_LEGEND = ("Each line takes over one more rule of ctcl's: machine types, no margin, order of eviction, "
                "idle room in place of smaller reservations, classes. Cluster: change of the mean size, % of "
                f"k8s's; the steps add up to the last total. {_ALONE} is k8s with ctcl's order of eviction and "
                "nothing else. Price, rescheduled: change in % of k8s's. Wait: as in table IV. Paired by "
                "seed, ± half of the 95 % interval.")
_TITLES = ("claim", "against", "paper", "ours", "wait s", "verdict")
_LEGEND = ("Change of the paper's best case, ctcl 20c-24h, in % of the other's figure, paired by seed, ± half of the "
           "95 % interval. Reproduced: in the paper's direction, at least as large, and the interval excludes 0; "
           "smaller: in its direction, and the interval excludes 0; refuted: neither. Wait: ours/theirs, "
           "from a batch request's arrival to the begin of the run that ended; the paper has none. trace is a "
           "stand-in, a fixed pool of the default type, where the trace does not record its machines and runs.")
_PANELS = (("cpu_pct", "CPU utilisation (%)"), ("mem_pct", "memory utilisation (%)"), ("n_machines", "machines"))
_PER_HOUR = 4
N_DAYS = 8
_OF_CONTAINERS = "alibaba-2018-containers"
_USAGE_OF = {_OF_CONTAINERS: "alibaba-2018"}
"""Reader of requests -> reader of their usage, where the names differ."""
_PER_SERVICE = 250
"""Batch requests of a made mix for each of its services."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the tables. needs: of a workload, None = the scheduler reads none."""

    scheduler: MixedScheduler
    needs: _Needs


def run_ctcl_table(config: StudySettings) -> int:
    """Print and log tables IV and V, the steps from k8s to ctcl, the claims and figures 5 to 7; returns 0."""
    with stage("open the store"):
        tracker = open_store(config)
    with stage("read"):
        source = mix_source(config.trace, config.reader, config.batch_trace, config.n_requests, config.store)
    replays, series = replayed(source, rows(), config.seeds)
    table = summary(replays)
    caption = f"{source.of_seed(config.seeds[0]).description}; {len(config.seeds)} seeds."
    sections = [_section(table, "Table IV: resource efficiency", caption, _IV, _IV_LEGEND, _line_iv),
                _section(table, "Table V: batch requests rescheduled", caption, _V, _V_LEGEND, _line_v),
                steps_section(replays, caption), claims_section(replays, caption)]
    for section in sections:
        console.print()
        console.print(section)
    with stage("log"):
        spec = next(iter(config.trace_specs().values()))
        log_sections(tracker, config.preset, config.model_dump(mode="json"), spec, sections,
                     {"ctcl": table, "replays": replays, "series": series},
                     {"ctcl-figures-5-to-7": figure_5_to_7(series, FIGURES, caption)})
    return 0


def rows() -> Mapping[str, Row]:
    """The lines by name: the paper's, and ours between them and its truth. Those of `k8s +` take over one rule of
    ctcl's after the other, so that its difference to k8s is split."""
    def nothing(_: MixedWorkload) -> None:
        return None

    learnt: dict[int, tuple[MixedWorkload, DailyClasses]] = {}  # a line's hours and rule use the same classes

    def of_classes(k: int, hours: int, rule: str) -> _Needs:
        def needs(workload: MixedWorkload) -> np.ndarray:
            if k not in learnt or learnt[k][0] is not workload:
                learnt[k] = workload, daily_classes(service_grid(workload), n_classes=k)
            return class_needs(workload, n_classes=k, observed_s=hours * 3600, rule=rule, classes=learnt[k][1])
        return needs

    def of_itself(hours: int, margin: float = 0.0) -> _Needs:
        return lambda workload: own_maximum(workload.services, hours * 3600 // workload.interval_s, margin)

    ctcl, k8s = SCHEDULERS["ctcl"], SCHEDULERS["k8s"]
    of_types = replace(k8s, autoscaler=ctcl.autoscaler)
    lines = {
        "trace": Row(SCHEDULERS["trace"], nothing),
        "k8s": Row(k8s, of_itself(24, _MARGIN)),
        "k8s + order": Row(replace(k8s, evictor=ctcl.evictor), of_itself(24, _MARGIN)),
        "k8s + types": Row(of_types, of_itself(24, _MARGIN)),
        "k8s + types, no margin": Row(of_types, of_itself(24)),
        "k8s + types, no margin, order": Row(replace(of_types, evictor=ctcl.evictor), of_itself(24)),
        "demand-blind": Row(SCHEDULERS["demand-blind"], nothing),
    }
    lines |= {f"ctcl {k}c-{hours}h": Row(ctcl, of_classes(k, hours, "class")) for hours in OBSERVED_H
              for k in N_CLASSES}
    lines |= {f"ctcl combined 20c-{hours}h": Row(ctcl, of_classes(20, hours, "combined")) for hours in OBSERVED_H}
    lines |= {f"ctcl own maximum {hours}h": Row(ctcl, of_itself(hours)) for hours in OBSERVED_H}
    one_type = Autoscaler(homogeneous().types)
    return {**lines, "ctcl own maximum 12h, one type": Row(replace(ctcl, autoscaler=one_type), of_itself(12)),
            "ctcl own maximum 12h, fill 80 %": Row(replace(ctcl, fill=0.8), of_itself(12)),
            "ctcl oracle": Row(ctcl, lambda workload: true_needs(workload.services))}


def replayed(source: MixSource, lines: Mapping[str, Row], seeds: tuple[int, ...]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row for each line and seed; and the mean series of those of the figures, one row a line and interval.

    Services are the same for all seeds, so that needs are made once; a seed draws the batch requests' use (of a made
    mix the requests as well) and the boot lags. Where the source has what the trace did, `trace` is that.
    """
    workloads = {seed: source.of_seed(seed) for seed in seeds}
    first = workloads[seeds[0]]
    n_machines = {seed: workload.n_machines or fixed_pool(workload) for seed, workload in workloads.items()}
    found, series = [], []
    with stage("replay") as report:
        for done, (name, row) in enumerate(lines.items()):
            report(done, len(lines))
            needs = row.needs(first)
            shown: list[pd.DataFrame] = []
            for seed, workload in workloads.items():
                if row.scheduler.is_by_trace and source.recorded is not None:
                    result = replay_recorded(workload, source.recorded)
                else:
                    result = replay_mixed(workload, row.scheduler, needs, rng=np.random.default_rng([seed, 1]),
                                          n_machines=n_machines[seed])
                found.append({"algorithm": name, "seed": seed, **_figures(result, workload)})
                shown.append(result.series)
            if name in FIGURES:
                mean = pd.concat(shown).groupby(level=0).mean()
                series.append(mean.assign(algorithm=name))
    return pd.DataFrame(found), pd.concat(series, ignore_index=True)


def _figures(result: MixedResult, workload: MixedWorkload) -> dict[str, float]:
    ends = result.outcomes()
    n = max(len(workload.batch), 1)
    return {"cpu_pct": result.cpu_pct, "mem_pct": result.mem_pct, "most_machines": result.most_machines,
            "n_machines": result.n_machines, "mean_wait_s": mean_wait_s(result, workload),
            "price_per_h": result.price / (workload.horizon_s / 3600),
            "overloaded_pct": result.overloaded_pct, "above_capacity_pct": result.above_capacity_pct,
            "n_rescheduled": result.n_rescheduled, "rescheduled_pct": 100 * result.n_rescheduled / n,
            "n_multi_rescheduled": result.n_multi_rescheduled, "mean_cost_s": result.mean_cost_s,
            "n_ended": ends["ended"], "n_too_large": ends["too large"],
            "n_pending": ends["pending"] + ends["waiting"], "n_running": ends["running"],
            "n_services_pending": int((result.service_outcome == 1).sum())}


def mean_wait_s(result: MixedResult, workload: MixedWorkload) -> float:
    """Of the batch requests that ended: from arrival to the begin of the run that ended, so with what evictions lost;
    NaN where none ended. Lower is better."""
    has_ended = result.batch_outcome == OUTCOMES.index("ended")
    waits_ms = (result.started_ms - workload.batch.arrival_ms)[has_ended]
    return float(waits_ms.mean()) / 1000 if len(waits_ms) else float("nan")


def summary(replays: pd.DataFrame) -> pd.DataFrame:
    """Means over the seeds, one row for each algorithm, and `<figure>_half`: half of the 95 % t-interval; NaN for one
    seed.

    >>> summary(pd.DataFrame({"algorithm": ["a", "a"], "seed": [0, 1], "x": [1.0, 3.0]})).round(2).to_dict("records")
    [{'algorithm': 'a', 'x': 2.0, 'x_half': 12.71}]
    """
    made = []
    for name, own in replays.groupby("algorithm", sort=False):
        values = own.drop(columns=["algorithm", "seed"])
        half = t_half_width(values.to_numpy(np.float64))
        row: dict[str, object] = {"algorithm": name}
        for column, mean, width in zip(values.columns, values.mean(), half, strict=True):
            row |= {column: float(mean), f"{column}_half": float(width)}
        made.append(row)
    return pd.DataFrame(made)


def _section(table: pd.DataFrame, title: str, caption: str, titles: tuple[str, ...], legend: str,
             line: Callable[[Mapping[str, float]], Iterator[str]]) -> Section:
    lines = tuple((str(row["algorithm"]), *line({str(key): value for key, value in row.items()}))
                  for row in table.to_dict("records"))
    return Section(title, caption, titles, lines, 1, legend)


def _line_iv(row: Mapping[str, float]) -> Iterator[str]:
    for name, form in (("cpu_pct", ".1f"), ("mem_pct", ".1f"), ("most_machines", ".1f"), ("n_machines", ".1f"),
                       ("mean_wait_s", ".0f"), ("price_per_h", ".1f"), ("overloaded_pct", ".2f")):
        yield _with_half(row, name, form)


def _line_v(row: Mapping[str, float]) -> Iterator[str]:
    for name, form in (("n_rescheduled", ".0f"), ("rescheduled_pct", ".2f"), ("n_multi_rescheduled", ".0f"),
                       ("mean_cost_s", ".0f")):
        yield _with_half(row, name, form)


def _with_half(row: Mapping[str, float], name: str, form: str) -> str:
    half = row[f"{name}_half"]
    return f"{row[name]:{form}}" + (f" ± {half:{form}}" if np.isfinite(half) else "")


@dataclass(frozen=True, slots=True)
class Claim:
    """A change in % that the paper reports of `of` against `base`; negative = lower is claimed."""

    words: str
    column: str
    base: str
    paper_pct: float
    of: str = BEST


CLAIMS = (
    Claim("mean cluster size", "n_machines", "trace", -40.0),
    Claim("mean cluster size", "n_machines", "k8s", -37.0),
    Claim("largest cluster", "most_machines", "trace", 100 * (777 / 952 - 1)),
    Claim("largest cluster", "most_machines", "k8s", 100 * (777 / 933 - 1)),
    Claim("CPU utilisation", "cpu_pct", "trace", 100 * (65 / 39 - 1)),
    Claim("memory utilisation", "mem_pct", "trace", 100 * (87 / 78 - 1)),
    Claim("rescheduled", "n_rescheduled", "trace", 100 * (1894 / 210503 - 1)),
    Claim("rescheduled", "n_rescheduled", "k8s", 100 * (1894 / 30422 - 1)),
    Claim("rescheduled by k8s", "n_rescheduled", "trace", 100 * (30422 / 210503 - 1), "k8s"),
    Claim("mean cost", "mean_cost_s", "trace", 100 * (170 / 214 - 1)),
    Claim("rescheduled after 24 h in place of 12 h", "n_rescheduled", "ctcl 20c-12h", 100 * (1894 / 1968 - 1)),
    Claim("rescheduled with 20 classes in place of 10", "n_rescheduled", "ctcl 10c-24h", 100 * (1894 / 2316 - 1)),
)
"""Of tables IV and V, and of section V-C (cluster size)."""


def claims_section(replays: pd.DataFrame, caption: str) -> Section:
    """One line for each of CLAIMS, and "none rescheduled twice". replays: one row for each algorithm and seed."""
    by_name = {str(name): own.sort_values("seed") for name, own in replays.groupby("algorithm", sort=False)}
    lines = []
    for claim in CLAIMS:
        ours = change_pct(by_name[claim.of], by_name[claim.base], claim.column)
        mean, half = float(ours.mean()), float(t_half_width(ours[:, None])[0])
        lines.append((claim.words, claim.base, f"{signed_text(claim.paper_pct, 0)} %",
                      f"{signed_text(mean, 1)} ± {half:.1f} %",
                      "/".join(f"{by_name[name]['mean_wait_s'].mean():.0f}" for name in (claim.of, claim.base)),
                      verdict(mean, half, claim.paper_pct)))
    twice = by_name[BEST]["n_multi_rescheduled"].to_numpy(np.float64)
    extent = f"{twice.mean():.0f} ({twice.min():.0f} to {twice.max():.0f})"
    lines.append(("rescheduled more than once", "-", "0", extent, "-", "reproduced" if not twice.any() else "refuted"))
    return Section("Claims of the paper", caption, _TITLES, tuple(lines), 2, _LEGEND)


def steps_section(replays: pd.DataFrame, caption: str) -> Section:
    """What ctcl's difference to k8s in cluster size is made of, step by step. replays: as of claims_section."""
    by_name = {str(name): own.sort_values("seed") for name, own in replays.groupby("algorithm", sort=False)}
    base = by_name[STEPS[0]]
    lines = []
    for name, before in ((_ALONE, None), *zip(STEPS, (None, *STEPS[:-1]), strict=True)):
        own = by_name[name]
        total = change_pct(own, base, "n_machines")
        step = None if before is None else total - change_pct(by_name[before], base, "n_machines")
        figures = (step, *(None if name == STEPS[0] else change_pct(own, base, column)
                           for column in ("n_machines", "price_per_h", "n_rescheduled")))
        lines.append((name, *map(_pct, figures), f"{own['mean_wait_s'].mean():.1f}"))
    return Section("From k8s to ctcl", caption, _STEP_TITLES, tuple(lines), 1, _STEP_LEGEND)


def _pct(changes: np.ndarray | None) -> str:
    if changes is None:
        return "-"
    mean, half = float(changes.mean()), float(t_half_width(changes[:, None])[0])
    if np.isnan(mean):
        return "-"
    return signed_text(mean, 1) if np.isnan(half) else f"{signed_text(mean, 1)} ± {half:.1f}"


def change_pct(of: pd.DataFrame, base: pd.DataFrame, column: str) -> np.ndarray:
    """Change in % of the base's figure, seed by seed; NaN where that is 0.

    >>> one, two = (pd.DataFrame({"seed": [0], "x": [value]}) for value in (3.0, 4.0))
    >>> change_pct(one, two, "x").tolist()
    [-25.0]
    """
    whole = base[column].to_numpy(np.float64)
    part = of[column].to_numpy(np.float64)
    return np.asarray(100 * np.divide(part - whole, whole, out=np.full(len(whole), np.nan), where=whole != 0))


def verdict(mean: float, half: float, paper_pct: float) -> str:
    """Of a change of `mean` ± `half` % where the paper has `paper_pct`.

    >>> [verdict(mean, 1.0, -40.0) for mean in (-45.0, -10.0, -0.5, 3.0)]
    ['reproduced', 'smaller', 'refuted', 'refuted']
    """
    if np.isnan(mean):
        return "not testable: the base is 0"
    sign = np.sign(paper_pct)
    if sign * mean <= 0 or sign * mean - half <= 0:
        return "refuted"
    return "reproduced" if sign * mean >= sign * paper_pct else "smaller"


def figure_5_to_7(series: pd.DataFrame, algorithms: Sequence[str], title: str) -> Figure:
    """One line for each algorithm in each panel, means over an hour. series: `MixedResult.series` with `algorithm`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 8), layout="constrained")
    panels = figure.subplots(3, 1, sharex=True)
    for k, name in enumerate(algorithms):
        own = series[series["algorithm"] == name].reset_index(drop=True)
        hourly = own.drop(columns="algorithm").groupby(own.index // _PER_HOUR).mean()
        for axes, (column, _) in zip(panels, _PANELS, strict=True):
            axes.plot(hourly["time_s"] / DAY_S, hourly[column], label=name, color=COLOURS[k % len(COLOURS)],
                      linewidth=1.2)
    for axes, (_, label) in zip(panels, _PANELS, strict=True):
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(x=0)
    panels[-1].set_xlabel("time (days)")
    panels[0].legend(frameon=False, fontsize="small", ncols=len(algorithms), loc="upper left",
                     bbox_to_anchor=(0, 1.22))
    figure.suptitle(title, fontsize=9, x=0.02, ha="left", color="#444444")
    return figure


@dataclass(frozen=True, slots=True)
class MixSource:
    """of_seed: the mix of a seed; its services are the same for all. recorded: what the trace itself did, None = it
    does not say."""

    of_seed: Callable[[int], MixedWorkload]
    recorded: RecordedRuns | None = None


def mix_source(trace: Path | None, reader: str, batch_trace: Path | None, n_requests: int, scratch: Path) -> MixSource:
    """A made mix of n_requests batch requests where there is no trace; else the first 8 whole local days of the usage
    at `trace`, and the tasks of `batch_trace`, by default of `batch_task.csv` beside the containers of
    alibaba-2018-containers. With `batch_instance.csv` beside them as well, the mix has the trace's own machines and
    runs, and is the same for all seeds.

    scratch: folder for the usage store, which is removed.
    """
    if trace is None:
        if batch_trace is not None:
            raise ValueError(f"batch_trace must be given with a trace of services, got {str(batch_trace)!r} without")
        settings = MixParameters(n_services=max(n_requests // _PER_SERVICE, 1), n_batch=n_requests)
        base = made_mix(np.random.default_rng(0), settings)

        def made(seed: int) -> MixedWorkload:
            return replace(made_mix(np.random.default_rng([seed, 0]), settings), services=base.services)

        return MixSource(made)
    usage_reader = _USAGE_OF.get(reader, reader)
    if usage_reader not in USAGE_READERS:
        raise ValueError(f"reader must have usage for ctcl-table: "
                         f"{', '.join(sorted({*USAGE_READERS, *_USAGE_OF}))}, got {reader!r}")
    if batch_trace is None and reader != _OF_CONTAINERS:
        raise ValueError(f"batch_trace must be given with reader {reader}: give --batch-trace PATH, got none")
    folder = trace if trace.is_dir() else trace.parent
    tasks, _ = read_trace("alibaba-2018", folder if batch_trace is None else batch_trace)
    scratch.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=scratch) as place:
        grid = _first_days(trace, usage_reader, Path(place) / "usage")

    if batch_trace is None and any((folder / f"batch_instance.csv{end}").is_file() for end in ("", ".gz")):
        containers, _ = read_trace(reader, trace, usage=False)
        runs, _ = read_alibaba_2018_instances(folder)
        mix, recorded = recorded_mix(grid, containers, tasks, runs, f"{usage_reader} as recorded")
        return MixSource(lambda _: mix, recorded)
    if usage_reader == "alibaba-2018":
        grid = replace(grid, mem_gib=grid.mem_gib * MEM_PER_SHARE_GIB)

    def real(seed: int) -> MixedWorkload:
        return real_mix([grid], tasks, np.random.default_rng([seed, 0]), description=f"{usage_reader} and {tasks_name}")

    tasks_name = (batch_trace or folder).name
    return MixSource(real)


def _first_days(trace: Path, reader: str, place: Path) -> UsageGrid:
    store = store_usage(read_usage(reader, trace), place)
    local_s = int(store.clock.local_s(np.array([store.start_s]))[0])
    begin_s = store.start_s + (-local_s) % DAY_S
    end_s = begin_s + N_DAYS * DAY_S
    if store.end_s < end_s - INTERVAL_S:
        raise ValueError(f"usage must cover {N_DAYS} whole local days for ctcl-table, got {store.start_s} to "
                         f"{store.end_s} s")
    return store.grid(None, INTERVAL_S, start_s=begin_s, end_s=end_s)


def main() -> None:
    run_study("ctcl-table", run_ctcl_table, ("trace", "reader", "batch_trace", "n_requests", "seeds"),
              seeds=tuple(range(10)))
