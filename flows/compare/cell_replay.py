"""What decides a cell's result: its workload made of a trace, its predictor's curves, the replay and its figures.

It reads no store, so that the key of a kept cell is all that this file imports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from sojourn.features.trace import Trace
from sojourn.flows.compare.cell_store import CellResult
from sojourn.flows.compare.migration_arrays import migration_arrays
from sojourn.flows.compare.rectifiers import parse_rectifier
from sojourn.flows.placement.predictors import MADE, PredictorSpec
from sojourn.flows.placement.replicas import replica
from sojourn.flows.placement.simulation import later_workload_of
from sojourn.flows.placement.workload_spec import WorkloadSpec
from sojourn.simulator import (
    WORKLOADS,
    Held,
    LifetimeSource,
    OneShot,
    Result,
    Workload,
    build_workload,
    host_map,
    simulate,
)
from sojourn.simulator.measures import MEASURES
from sojourn.simulator.rectification import Rectify


def replayed(workload: Workload, policy: str, source: LifetimeSource | None,
             rectify: Rectify | None = None) -> CellResult:
    """What one replay leaves."""
    return cell_result(workload, simulate(workload, policy, source, rectify=rectify))


def made_workload(spec: WorkloadSpec, trace: Trace, from_s: int | None) -> Workload:
    """The workload of a spec, the same for every policy and predictor. from_s: where the later part begins.

    A seed makes a fresh one where the recipe or the trace is drawn by it, else a replica of the recipe's.
    """
    options: dict[str, Any] = {**dict(spec.options), "load": spec.load, "seed": spec.seed}
    if spec.start == "warm":
        if from_s is None:
            raise ValueError(f"{spec.trace.name} must be cut before its later part is replayed, got no cut")
        workload = later_workload_of(spec.recipe, trace, from_s, **options)
    else:
        workload = build_workload(spec.recipe, trace, **options)
    is_drawn = WORKLOADS[spec.recipe].is_drawn or spec.trace.source.file is None
    return workload if is_drawn else replica(workload, spec.seed)


def made_source(workload: Workload, spec: WorkloadSpec, predictor: PredictorSpec,
                learnt: Held | None) -> LifetimeSource:
    """What a predictor says of a workload. learnt: its kept curves, for one that is learnt."""
    if learnt is not None:
        source: LifetimeSource = learnt
    else:
        source = MADE[predictor.kind](workload, spec, predictor.argument)
    return OneShot(source) if predictor.is_one_shot else source


def made_rectifier(spec: WorkloadSpec, text: str) -> Rectify | None:
    """The rectifier of a cell. A spec's seed draws what can't be moved, so that it is the same for every policy."""
    return parse_rectifier(text, spec.seed) if text else None


def cell_result(workload: Workload, result: Result) -> CellResult:
    """A replay's outcome, flat: the engine's metrics, and every measure that can tell."""
    figures, arrays = _flat(result.metrics)
    figures["bound_empty_hosts_pct"] = result.bound_empty_hosts_pct
    for measure in MEASURES.values():
        figures |= measure.of(workload, result)
        arrays |= measure.over_time(workload, result) if measure.over_time is not None else {}
    about = {"description": workload.description, "doubts": workload.doubts(), "n_hosts": len(workload.hosts),
             "cores_per_host": float(workload.hosts["cpu_cores"].mean()), "warmup_s": workload.warmup_s}
    arrays |= {str(name): result.series[name].to_numpy() for name in result.series}
    hosts = host_map(workload, result)
    arrays |= {"map_time_s": hosts.time_s, "map_lifetime_class": hosts.lifetime_class}
    arrays |= {} if hosts.state is None else {"map_state": hosts.state, "map_state_names": np.array(hosts.state_names)}
    arrays |= migration_arrays(result.migrations)
    times = {name: getattr(result, name) for name in ("elapsed_s", "compile_s", "decision_us")}
    return CellResult(figures, times, about, arrays)


def _flat(metrics: Any) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Numbers by field name, those of a mapping `x_pct` or `x` as `x_KEY_pct` or `x_KEY`; and arrays."""
    figures: dict[str, float] = {}
    arrays: dict[str, np.ndarray] = {}
    for name in (field.name for field in fields(metrics)):
        value = getattr(metrics, name)
        if isinstance(value, Mapping):
            stem, unit = (name.removesuffix("_pct"), "_pct") if name.endswith("_pct") else (name, "")
            figures |= {f"{stem}_{key}{unit}": part for key, part in value.items()}
        elif isinstance(value, np.ndarray):
            arrays[name] = value
        elif value is not None:
            figures[name] = value
    return figures, arrays
