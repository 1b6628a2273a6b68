"""The preset `ctcl-table`: tables IV and V and figures 5 to 7 of the CTCL paper, and what it claims beside ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from sojourn.flows.compare.settings import CompareConfig
from sojourn.flows.compare.tables import log_sections
from sojourn.flows.console import console, stage
from sojourn.flows.evaluations.ctcl_claims import claims_section, steps_section
from sojourn.flows.evaluations.ctcl_figure import figure_5_to_7
from sojourn.flows.evaluations.mix_source import MixSource, mix_source
from sojourn.flows.placement.mixed_needs import class_needs, fixed_pool, service_grid
from sojourn.flows.placement.usage_needs import DailyClasses, daily_classes
from sojourn.flows.placement.workloads import t_half_width
from sojourn.flows.reports.section import Section
from sojourn.flows.versions.promotion import open_store
from sojourn.simulator.elastic import (
    OUTCOMES,
    SCHEDULERS,
    Autoscaler,
    MixedResult,
    MixedScheduler,
    MixedWorkload,
    homogeneous,
    own_maximum,
    replay_mixed,
    replay_recorded,
    true_needs,
)

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


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the tables. needs: of a workload, None = the scheduler reads none."""

    scheduler: MixedScheduler
    needs: _Needs


def run_ctcl_table(config: CompareConfig) -> int:
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
        console.print(section, crop=False)
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
