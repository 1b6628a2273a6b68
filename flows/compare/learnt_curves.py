"""Curves of models for the later part of a trace, kept in the store: one file per trace and predictor."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.flows.compare.grid import learnt_key
from sojourn.flows.placement.predictors import PredictorSpec
from sojourn.flows.placement.simulation import positions_of
from sojourn.flows.placement.workload_spec import TraceSpec
from sojourn.publishing import whole_file
from sojourn.simulator import Curves, Held, Workload

_ARRAYS = frozenset({"offsets", "uptime_s", "total_s", "index", "request_id"})


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
