"""A cell of a comparison: a worker takes its trace and curves from the store, replays it, and keeps the result.

Results lie on disk as JSON, arrays as .npz, under the hash of all that decided them; so do a model's curves for the
later part of a trace, one file for each trace and predictor. What decides a result reads no store."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sojourn.features.synthetic import synthesize
from sojourn.features.trace import Trace
from sojourn.flows.compare.grid import Cell, learnt_key, parse_rectifier
from sojourn.flows.placement.predictors import MADE, PredictorSpec
from sojourn.flows.placement.workloads import (
    TraceSpec,
    WorkloadSpec,
    known_by,
    later_workload_of,
    positions_of,
    replica,
)
from sojourn.publishing import whole_file
from sojourn.simulator import (
    WORKLOADS,
    Curves,
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

_ARRAYS = frozenset({"offsets", "uptime_s", "total_s", "index", "request_id"})
_BEFORE = "migration_"
_TEXTS = ("planner", "request_id", "from_host", "to_host")


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


def run_cell(keyed: tuple[Cell, str]) -> str | None:
    """Replay a cell and keep its result under its key; returns why where it failed.

    A cell that is kept already is left alone; one whose key is another here is refused: code or libraries differ.
    """
    cell, key = keyed
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
        trace = synthesize(source.n_requests, seed=source.seed)
    else:
        from sojourn.flows.retrain.ingest import ingested_trace

        trace = Trace.load(ingested_trace(spec.store, source, spec.data_hash).folder)
    if not spec.is_past:
        return trace
    until_s = cut_s(spec.whole)
    if until_s is None:
        raise ValueError(f"{spec.name} must be cut before its past is replayed, got no cut")
    return known_by(trace, until_s)


@lru_cache(maxsize=1)
def source_of(spec: WorkloadSpec, predictor: PredictorSpec) -> LifetimeSource:
    """What a predictor says of a spec's workload."""
    workload = workload_of(spec)
    learnt = learnt_source(workload, spec.trace, predictor) if predictor.is_learnt else None
    return made_source(workload, spec, predictor, learnt)


@dataclass(frozen=True, slots=True)
class CellResult:
    """What one replay left.

    figures: metrics, flat, the same for the same key. times: `elapsed_s` of the loop, `compile_s` and `decision_us`, of
    the run that was kept. about: `description`, `doubts` (lines for people), `n_hosts`, `cores_per_host`, `warmup_s`.
    arrays: `time_s`, `empty_hosts_pct` and `bound_empty_hosts_pct` of the series, the measures' own series, and what
    else the engine recorded.
    """

    figures: dict[str, float]
    times: dict[str, float]
    about: dict[str, Any]
    arrays: dict[str, np.ndarray]


class CellStore:
    """The folder `cells` of a store. Several processes may write at once; nothing half-written is ever read."""

    def __init__(self, store: Path) -> None:
        self._folder = store / "cells"

    def write(self, key: str, result: CellResult) -> None:
        """Keep a result; its JSON comes last and says what is whole."""
        content = io.BytesIO()
        np.savez(content, allow_pickle=False, **result.arrays)
        with whole_file(self._folder / f"{key}.npz") as temporary:
            temporary.write_bytes(content.getvalue())
        document = {"key": key, "figures": result.figures, "times": result.times, "about": result.about}
        document["sha256"] = _sha256(document, content.getvalue())
        with whole_file(self._folder / f"{key}.json") as temporary:
            temporary.write_text(json.dumps(document, indent=1) + "\n")

    def read(self, key: str) -> CellResult | None:
        """The result under a key; None where there is none, or what is there is damaged and must be made anew."""
        try:
            document = json.loads((self._folder / f"{key}.json").read_text())
            content = (self._folder / f"{key}.npz").read_bytes()
            if document.pop("sha256") != _sha256(document, content) or document["key"] != key:
                return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return CellResult(document["figures"], document["times"], document["about"], dict(arrays))


def _sha256(document: Mapping[str, Any], arrays: bytes) -> str:
    return hashlib.sha256(json.dumps(document).encode() + arrays).hexdigest()


def cut_s(trace: TraceSpec) -> int | None:
    """Where the later part begins, seconds of the trace; None where nobody kept it, or what is kept is damaged."""
    try:
        document = json.loads(_cut_file(trace).read_text())
        from_s = int(document["from_s"])
        return from_s if document == _cut(from_s) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep_cut(trace: TraceSpec, from_s: int) -> None:
    """Keep where the later part begins."""
    with whole_file(_cut_file(trace)) as temporary:
        temporary.write_text(json.dumps(_cut(from_s)) + "\n")


def _cut(from_s: int) -> dict[str, int | str]:
    return {"from_s": from_s, "sha256": hashlib.sha256(str(from_s).encode()).hexdigest()}


def keep_curves(trace: TraceSpec, predictor: PredictorSpec, request_ids: pd.Series, curves: Curves) -> None:
    """Keep the curves of requests, all with the same breakpoints. Equal ones are kept once: a lookup table has few."""
    n, m = len(curves), len(curves.uptime_s) // max(len(curves), 1)
    columns = [curves.total_s] if curves.overhang_s is None else [curves.total_s, curves.overhang_s]
    whole = np.concatenate([column.reshape(n, m) for column in columns], axis=1)
    as_bytes = np.ascontiguousarray(whole).view(np.dtype((np.void, whole.itemsize * whole.shape[1])))
    _, first, index = np.unique(as_bytes.reshape(-1), return_index=True, return_inverse=True)
    arrays = {"offsets": np.arange(len(first) + 1) * m, "uptime_s": np.tile(curves.uptime_s[:m], len(first)),
              "total_s": curves.total_s.reshape(n, m)[first].reshape(-1), "index": index,
              "request_id": request_ids.astype(str).to_numpy("U")}
    if curves.overhang_s is not None:
        arrays["overhang_s"] = curves.overhang_s.reshape(n, m)[first].reshape(-1)
    with whole_file(_curves_file(trace, predictor)) as temporary, temporary.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays)


def learnt_source(workload: Workload, trace: TraceSpec, predictor: PredictorSpec) -> Held:
    """The kept curves for a workload's requests; a recipe's copy of a request has the original's."""
    arrays = kept_curves(trace, predictor)
    if arrays is None:
        raise ValueError(f"{predictor.learnt_name} must be learnt before it is asked, got no curves in the store")
    idx = positions_of(pd.Series(workload.request_ids), pd.Series(arrays.pop("request_id")))
    if (idx < 0).any():
        bad = workload.request_ids[int(np.argmin(idx))]
        raise ValueError(f"every request must have a prediction by {predictor.learnt_name}, got none for {bad!r}")
    arrays["index"] = arrays["index"][idx]
    return Held(workload.request_ids, Curves(**arrays))


def kept_curves(trace: TraceSpec, predictor: PredictorSpec) -> dict[str, np.ndarray] | None:
    """What `keep_curves` kept; None where there is nothing, or what is there is damaged and must be made anew."""
    try:
        # numpy leaves a damaged file open, if it opened it
        with _curves_file(trace, predictor).open("rb") as stream, np.load(stream, allow_pickle=False) as kept:
            arrays = dict(kept)
    except Exception:  # a damaged archive raises nearly anything
        return None
    return arrays if _ARRAYS <= arrays.keys() <= _ARRAYS | {"overhang_s"} else None


def _curves_file(trace: TraceSpec, predictor: PredictorSpec) -> Path:
    key = learnt_key(trace, predictor.learnt_name, predictor.version)
    return trace.store / "curves" / f"{predictor.kind}-{key[:24]}.npz"


def _cut_file(trace: TraceSpec) -> Path:
    return trace.store / "curves" / f"cut-{learnt_key(trace, '', '')[:24]}.json"


def migration_arrays(migrations: pd.DataFrame | None) -> dict[str, np.ndarray]:
    """Columns of `Result.migrations` by name, ids and planners as text; {} where there is none."""
    if migrations is None:
        return {}
    return {f"{_BEFORE}{name}": np.array(migrations[name].astype(str).tolist(), np.str_) if name in _TEXTS
            else migrations[name].to_numpy() for name in map(str, migrations)}


def migration_table(arrays: Mapping[str, np.ndarray]) -> pd.DataFrame | None:
    """What `migration_arrays` made arrays of; None where there was none."""
    own = {name.removeprefix(_BEFORE): values for name, values in arrays.items() if name.startswith(_BEFORE)}
    return pd.DataFrame(own) if own else None
