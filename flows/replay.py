"""What a worker does with one cell: build its workload, ask its predictor, replay, keep the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import lru_cache
from typing import Any

import numpy as np

from sojourn.features.synthetic import synthesize
from sojourn.features.trace import Trace
from sojourn.flows.cell_store import CellResult, CellStore
from sojourn.flows.grid import Cell, TraceSpec, WorkloadSpec
from sojourn.flows.learnt_curves import cut_s, learnt_source
from sojourn.flows.predictors import MADE, Predictor
from sojourn.flows.replicas import replica
from sojourn.flows.simulation import later_workload_of
from sojourn.simulator import (
    LifetimeSource,
    OneShot,
    Result,
    Workload,
    build_workload,
    host_map,
    simulate,
    stranding,
    usage_metrics,
)


def replay(asked: tuple[Cell, str]) -> str | None:
    """Replay a cell and keep its result under its key; returns why where it failed.

    A cell that is kept already is left alone; one whose key is another here is refused: code or libraries differ.
    """
    cell, key = asked
    if (own := cell.key()) != key:
        return f"its worker must have the code and libraries that asked for {key[:12]}, got those of {own[:12]}"
    store = CellStore(cell.workload.trace.settings.store)
    if store.read(key) is not None:
        return None
    try:
        workload = workload_of(cell.workload)
        source = None if cell.predictor is None else source_of(cell.workload, cell.predictor)
        store.write(key, cell_result(workload, simulate(workload, cell.policy, source)))
    except Exception as error:  # not all of them survive the way to another process
        return f"{type(error).__name__}: {error}"
    return None


@lru_cache(maxsize=1)
def workload_of(spec: WorkloadSpec) -> Workload:
    """The workload of a spec, the same for every policy and predictor.

    A seed makes a fresh one where the recipe or the trace is drawn by it, else a replica of the recipe's.
    """
    options: dict[str, Any] = {**dict(spec.options), "load": spec.load, "seed": spec.seed}
    trace = _trace(spec.trace)
    if spec.start == "warm":
        from_s = cut_s(spec.trace)
        if from_s is None:
            raise ValueError(f"{spec.trace.name} must be cut before its later part is replayed, got no cut")
        workload = later_workload_of(spec.recipe, trace, from_s, **options)
    else:
        workload = build_workload(spec.recipe, trace, **options)
    is_drawn = spec.recipe == "openb" or spec.trace.settings.trace is None
    return workload if is_drawn else replica(workload, spec.seed)


@lru_cache(maxsize=1)
def _trace(spec: TraceSpec) -> Trace:
    settings = spec.settings
    if settings.trace is None:
        return synthesize(settings.n_requests, seed=settings.seed)
    from sojourn.flows.ingest import ingested_trace

    return Trace.load(ingested_trace(settings, spec.data_hash).folder)


@lru_cache(maxsize=1)
def source_of(spec: WorkloadSpec, predictor: Predictor) -> LifetimeSource:
    """What a predictor says of a spec's workload."""
    if predictor.is_learnt:
        source: LifetimeSource = learnt_source(workload_of(spec), spec.trace, predictor)
    else:
        source = MADE[predictor.kind](workload_of(spec), spec, predictor.argument)
    return OneShot(source) if predictor.is_one_shot else source


def cell_result(workload: Workload, result: Result) -> CellResult:
    """A replay's outcome, flat; with `UsageMetrics` where the workload's trace has usage."""
    figures, arrays = _flat(result.metrics)
    figures["bound_empty_hosts_pct"] = result.bound_empty_hosts_pct
    figures |= stranding(workload, result).columns()
    usage = workload.trace.usage
    if usage is not None and workload.request_ids.isin(usage["request_id"]).any():
        figures |= asdict(usage_metrics(workload, result))
    about = {"description": workload.description, "n_hosts": len(workload.hosts), "warmup_s": workload.warmup_s}
    arrays |= {str(name): result.series[name].to_numpy() for name in result.series}
    hosts = host_map(workload, result)
    arrays |= {"map_time_s": hosts.time_s, "map_lifetime_class": hosts.lifetime_class}
    arrays |= {} if hosts.state is None else {"map_state": hosts.state, "map_state_names": np.array(hosts.state_names)}
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
