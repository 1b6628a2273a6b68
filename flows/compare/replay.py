"""What a worker does with one cell: bring its trace and curves out of the store, replay, keep the result."""

from __future__ import annotations

from functools import lru_cache

from sojourn.features.synthetic import synthesize
from sojourn.features.trace import Trace
from sojourn.flows.compare.cell_replay import made_rectifier, made_source, made_workload, replayed
from sojourn.flows.compare.cell_store import CellStore
from sojourn.flows.compare.grid import Cell
from sojourn.flows.compare.learnt_curves import cut_s, learnt_source
from sojourn.flows.placement.predictors import PredictorSpec
from sojourn.flows.placement.workload_spec import TraceSpec, WorkloadSpec
from sojourn.simulator import LifetimeSource, Workload


def replay(asked: tuple[Cell, str]) -> str | None:
    """Replay a cell and keep its result under its key; returns why where it failed.

    A cell that is kept already is left alone; one whose key is another here is refused: code or libraries differ.
    """
    cell, key = asked
    if (own := cell.key()) != key:
        return f"its worker must have the code and libraries that asked for {key[:12]}, got those of {own[:12]}"
    store = CellStore(cell.workload.trace.store)
    if store.read(key) is not None:
        return None
    try:
        workload = workload_of(cell.workload)
        source = None if cell.predictor is None else source_of(cell.workload, cell.predictor)
        rectify = made_rectifier(cell.workload, cell.rectifier)
        store.write(key, replayed(workload, cell.policy, source, rectify))
    except Exception as error:  # not all of them survive the way to another process
        return f"{type(error).__name__}: {error}"
    return None


@lru_cache(maxsize=1)
def workload_of(spec: WorkloadSpec) -> Workload:
    """The workload of a spec, the same for every policy and predictor."""
    return made_workload(spec, _trace(spec.trace), cut_s(spec.trace) if spec.start == "warm" else None)


@lru_cache(maxsize=1)
def _trace(spec: TraceSpec) -> Trace:
    source = spec.source
    if source.file is None:
        return synthesize(source.n_requests, seed=source.seed)
    from sojourn.flows.stages.ingest import ingested_trace

    return Trace.load(ingested_trace(spec.store, source, spec.data_hash).folder)


@lru_cache(maxsize=1)
def source_of(spec: WorkloadSpec, predictor: PredictorSpec) -> LifetimeSource:
    """What a predictor says of a spec's workload."""
    workload = workload_of(spec)
    learnt = learnt_source(workload, spec.trace, predictor) if predictor.is_learnt else None
    return made_source(workload, spec, predictor, learnt)
