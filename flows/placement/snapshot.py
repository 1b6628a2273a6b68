"""A pool at a moment, from two tables: its hosts, and the requests that run on them; predicted by a served bundle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sojourn.serving import Predictor
from sojourn.simulator.rectification import PoolView, edges_s
from sojourn.simulator.workloads import whole_amounts

HOST_COLUMNS, REQUEST_COLUMNS = ("host_id", "cpu_cores", "mem_gib"), (
    "request_id", "host_id", "uptime_s", "cpu_cores", "mem_gib")
RESOURCES = ("cpu_cores", "mem_gib", "gpu")
_SUFFIXES = (".parquet", ".csv")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """view: what a planner sees. host_ids, request_ids: of its positions. n_unknown: requests of which the model does
    not know all that it reads."""

    view: PoolView
    host_ids: list[Any]
    request_ids: list[Any]
    n_unknown: int


def read_snapshot(folder: Path, predictor: Predictor, now_s: int) -> Snapshot:
    """The snapshot of a folder with the tables `hosts` and `requests`, CSV or Parquet.

    hosts: host_id, cpu_cores, mem_gib, optional gpu. requests: request_id, host_id, uptime_s, cpu_cores, mem_gib,
    optional gpu and migratable (yes where it is missing); further columns are the attributes that the model reads, as
    `sojourn predict` takes them. now_s: the snapshot's time on the clock of the training trace.

    ValueError: a table or column that is not there, an id twice, a host that is not known, more requests on a host than
    it has room for, a bad uptime, a request that the model refuses.
    """
    hosts, requests = _table(folder, "hosts", HOST_COLUMNS), _table(folder, "requests", REQUEST_COLUMNS)
    if len(hosts) == 0:
        raise ValueError("hosts must be at least one, got none")
    names = tuple(name for name in RESOURCES if name in hosts or name in requests)
    capacity, need = (whole_amounts(table.fillna({"gpu": 0.0}), names) for table in (hosts, requests))
    host_ids, request_ids = _unique(hosts, "host_id"), _unique(requests, "request_id")
    host = pd.Index(host_ids).get_indexer(pd.Index(requests["host_id"]))
    if (host < 0).any():
        bad = int(np.argmin(host))
        raise ValueError(f"host_id must be in the table of hosts, got {requests['host_id'].tolist()[bad]!r} of request "
                         f"{request_ids[bad]!r}")
    used = np.stack([np.bincount(host, need[:, d], len(hosts)) for d in range(len(names))], axis=1).astype(np.int64)
    for d, name in enumerate(names):
        is_over = used[:, d] > capacity[:, d]
        if is_over.any():
            at = int(np.argmax(is_over))
            asked = requests.loc[host == at, name].sum()
            raise ValueError(f"requests on a host must fit on it, got {asked:g} {name} on host {host_ids[at]!r}, which "
                             f"has {hosts[name].tolist()[at] if name in hosts else 0:g}")
    uptime_s = pd.to_numeric(requests["uptime_s"], errors="coerce").to_numpy(np.float64)
    is_bad = ~(np.isfinite(uptime_s) & (uptime_s >= 0))
    if is_bad.any():
        bad = int(np.argmax(is_bad))
        raise ValueError(f"uptime_s must be 0 or more, got {requests['uptime_s'].tolist()[bad]!r} of request "
                         f"{request_ids[bad]!r}")
    n = len(requests)
    breakpoints = np.concatenate([[0], edges_s()])
    total, overhang, n_unknown = _curves(requests, request_ids, uptime_s, breakpoints, predictor, now_s)
    starts = np.arange(n) * len(breakpoints)
    view = PoolView(
        capacity, capacity - used, 0, np.ones(len(hosts), bool), np.bincount(host, minlength=len(hosts)),
        np.zeros(len(hosts), np.int64), host.astype(np.int64), need, np.zeros(n, np.int64), ~_migratable(requests),
        np.full(n, -1), np.full(n, -1), starts, starts + len(breakpoints), np.tile(breakpoints, n), total, overhang)
    return Snapshot(view, host_ids, request_ids, n_unknown)


def _curves(requests: pd.DataFrame, request_ids: list[Any], uptime_s: np.ndarray, breakpoints: np.ndarray,
            predictor: Predictor, now_s: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Predicted totals and overhangs counted from now, flat, and how many requests are not known in all columns."""
    known = [name for name in predictor.encoder.columns() if name in requests]
    totals, overhangs, n_unknown = [], [], 0
    for k, document in enumerate(requests[known].to_dict("records")):
        uptime = float(uptime_s[k])
        try:
            life = predictor.predict(_given(document), round(now_s - uptime))
        except ValueError as error:
            raise ValueError(f"request {request_ids[k]!r}: {error}") from error
        n_unknown += bool(life.unknown)
        left = [max(life.remaining(uptime + float(after)), 1.0) for after in breakpoints]
        totals += [int(after + own) for after, own in zip(breakpoints.tolist(), left, strict=True)]
        overhangs += [round(own * life.survival(float(after), uptime))
                      for after, own in zip(breakpoints.tolist(), left, strict=True)]
    flat = np.array(overhangs, np.int64).reshape(-1, len(breakpoints))
    return np.array(totals, np.int64), np.minimum.accumulate(flat, axis=1).reshape(-1), n_unknown


def _given(document: Mapping[Any, Any]) -> dict[str, Any]:
    """What a request says; a missing value is left out."""
    return {str(name): value for name, value in document.items() if not pd.isna(value)}


def _migratable(requests: pd.DataFrame) -> np.ndarray:
    if "migratable" not in requests:
        return np.ones(len(requests), bool)
    texts = requests["migratable"].astype("string").str.lower().fillna("true")
    is_known = texts.isin(["true", "false", "1", "0", "yes", "no"])
    if not is_known.all():
        bad = requests["migratable"].tolist()[int(np.argmin(is_known.to_numpy(bool)))]
        raise ValueError(f"migratable must be true or false, got {bad!r}")
    return np.asarray(texts.isin(["true", "1", "yes"]).to_numpy(bool))


def _table(folder: Path, name: str, columns: tuple[str, ...]) -> pd.DataFrame:
    files = [folder / f"{name}{suffix}" for suffix in _SUFFIXES if (folder / f"{name}{suffix}").is_file()]
    if len(files) != 1:
        found = " and ".join(file.name for file in files) or "neither"
        raise ValueError(f"snapshot must be a folder with {name}.csv or {name}.parquet, got {found} in {str(folder)!r}")
    table = pd.read_csv(files[0]) if files[0].suffix == ".csv" else pd.read_parquet(files[0])
    missing = [column for column in columns if column not in table]
    if missing:
        raise ValueError(f"{files[0].name} must have the columns {', '.join(columns)}, got none named {missing[0]!r}")
    return table


def _unique(table: pd.DataFrame, column: str) -> list[Any]:
    is_twice = table[column].duplicated()
    if is_twice.any():
        raise ValueError(f"{column} must be unique, got {table[column][is_twice].tolist()[0]!r} twice")
    return list(table[column])
