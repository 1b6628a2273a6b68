"""A pool at a moment, from two tables: its hosts, and the requests that run on them; predicted by a served bundle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sojourn.flows.placement.snapshot_tables import SnapshotTable, snapshot_table, unread_words
from sojourn.serving import Predictor
from sojourn.serving.checks import clock_second
from sojourn.serving.served import Lifetime
from sojourn.simulator.rectification import PoolView, edges_s
from sojourn.simulator.workloads import whole_amounts

HOST_COLUMNS, REQUEST_COLUMNS = ("host_id", "cpu_cores", "mem_gib"), (
    "request_id", "host_id", "uptime_s", "cpu_cores", "mem_gib")
RESOURCES = ("cpu_cores", "mem_gib", "gpu")
MOST = 1_000_000_000
"""Cores, GiB or GPU of one host or request."""
MAX_UPTIME_S = 3_155_760_000
"""100 years."""
_NOT_BELOW_0 = ("_cores", "_gib", "gpu", "requested_s")
"""How columns end that are amounts, or a limit."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """view: what a planner sees. host_ids, request_ids: of its positions. ended: the chance that a position's request
    has ended so many seconds from now. warnings: of columns that nobody reads, and of what the model does not know."""

    view: PoolView
    host_ids: list[str]
    request_ids: list[str]
    ended: Callable[[int, float], float]
    warnings: tuple[str, ...] = ()


def read_snapshot(folder: Path, predictor: Predictor, now_s: int) -> Snapshot:
    """The snapshot of a folder with the tables `hosts` and `requests`, CSV or Parquet.

    hosts: host_id, cpu_cores, mem_gib, optional gpu. requests: request_id, host_id, uptime_s, cpu_cores, mem_gib,
    optional gpu and migratable (yes where it is missing); further columns are the attributes that the model reads, as
    `sojourn predict` takes them. now_s: the snapshot's time on the clock of the training trace. Each request is
    predicted as at its admission, from the bundle's history; the snapshot's requests are not counted in it.

    ValueError, naming file, row, column and value: a table, column or value that is not there, one that is not what its
    column must hold, an id twice, a host that is not known, more requests on a host than it has room for, a request
    that the model refuses. Also a now_s that is not on the bundle's clock.
    """
    predictor.predict({}, clock_second(now_s, "now_s"))
    of_model = predictor.encoder.columns()
    hosts = snapshot_table(folder, "hosts", HOST_COLUMNS, ("gpu",))
    requests = snapshot_table(folder, "requests", REQUEST_COLUMNS, ("gpu", "migratable", *of_model))
    if len(hosts) == 0:
        raise ValueError(f"hosts must be at least one, got none in {hosts.file}")
    host_ids, request_ids = hosts.unique_ids("host_id"), requests.unique_ids("request_id")
    host = _host_of(requests, hosts.file, host_ids)
    names = tuple(name for name in RESOURCES if name in hosts.cells or name in requests.cells)
    amounts = [pd.DataFrame({name: table.numbers(name, MOST) if name in table.cells else np.zeros(len(table))
                             for name in names}) for table in (hosts, requests)]
    capacity, need = (whole_amounts(table, names) for table in amounts)
    used = np.stack([np.bincount(host, need[:, d], len(hosts)) for d in range(len(names))], axis=1).astype(np.int64)
    for d, name in enumerate(names):
        is_over = used[:, d] > capacity[:, d]
        if is_over.any():
            at = int(np.argmax(is_over))
            raise ValueError(f"requests on a host must fit on it, got {amounts[1][name][host == at].sum():g} {name} on "
                             f"host {host_ids[at]!r}, which has {amounts[0][name][at]:g} ({hosts.at(at)})")
    uptime_s = requests.numbers("uptime_s", MAX_UPTIME_S)
    n = len(requests)
    is_fixed = ~requests.flags("migratable") if "migratable" in requests.cells else np.zeros(n, bool)
    lives = _lives(requests, uptime_s, predictor, now_s)
    breakpoints = np.concatenate([[0], edges_s()])
    total, overhang = _curves(lives, uptime_s, breakpoints)
    starts = np.arange(n) * len(breakpoints)
    view = PoolView(
        capacity, capacity - used, 0, np.ones(len(hosts), bool), np.bincount(host, minlength=len(hosts)),
        np.zeros(len(hosts), np.int64), host, need, np.zeros(n, np.int64), is_fixed,
        np.full(n, -1), np.full(n, -1), starts, starts + len(breakpoints), np.tile(breakpoints, n), total, overhang)

    def ended(position: int, after_s: float) -> float:
        return 1.0 - lives[position].survival(float(after_s), float(uptime_s[position]))

    told = (unread_words(hosts, (*HOST_COLUMNS, "gpu")),
            unread_words(requests, (*REQUEST_COLUMNS, "gpu", "migratable", *of_model)), _unknown_words(lives))
    return Snapshot(view, host_ids, request_ids, ended, tuple(filter(None, told)))


def _host_of(requests: SnapshotTable, hosts_file: str, host_ids: list[str]) -> np.ndarray:
    """Position of each request's host, int64 (n,)."""
    asked = requests.ids("host_id")
    place = {name: at for at, name in enumerate(host_ids)}
    for row, name in enumerate(asked):
        if name not in place:
            raise ValueError(f"{requests.at(row)}: host_id must be in {hosts_file}, got {name!r}")
    return np.array([place[name] for name in asked], np.int64)


def _lives(requests: SnapshotTable, uptime_s: np.ndarray, predictor: Predictor, now_s: int) -> list[Lifetime]:
    """Each request as the model predicts it at its admission."""
    columns: dict[str, list[Any]] = {}
    for name in predictor.encoder.numbers:
        if name in requests.cells:
            columns[name] = requests.optional_numbers(name, 0.0 if name.endswith(_NOT_BELOW_0) else -np.inf)
    for name in predictor.encoder.names:
        if name in requests.cells:
            columns[name] = requests.texts(name)
    lives = []
    for row, uptime in enumerate(uptime_s.tolist()):
        document = {name: values[row] for name, values in columns.items() if values[row] is not None}
        try:
            lives.append(predictor.predict(document, round(now_s - uptime)))
        except ValueError as error:
            raise ValueError(f"{requests.at(row)}: {error}") from error
    return lives


def _curves(lives: list[Lifetime], uptime_s: np.ndarray, breakpoints: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Predicted totals and overhangs counted from now, flat."""
    totals, overhangs = [], []
    for life, uptime in zip(lives, uptime_s.tolist(), strict=True):
        left = [max(life.remaining(uptime + float(after)), 1.0) for after in breakpoints]
        totals += [int(after + own) for after, own in zip(breakpoints.tolist(), left, strict=True)]
        overhangs += [round(own * life.survival(float(after), uptime))
                      for after, own in zip(breakpoints.tolist(), left, strict=True)]
    flat = np.array(overhangs, np.int64).reshape(-1, len(breakpoints))
    return np.array(totals, np.int64), np.minimum.accumulate(flat, axis=1).reshape(-1)


def _unknown_words(lives: list[Lifetime]) -> str:
    """What of the requests the model does not know, each name with the number of requests; empty where it knows all."""
    n_unknown = sum(bool(life.unknown) for life in lives)
    if n_unknown == 0:
        return ""
    lacks = [f"{words}: {_counted(names)}" for words, names in (
        ("not given", Counter(name for life in lives for name in life.not_given)),
        ("not seen in training", Counter(name for life in lives for name in life.not_seen))) if names]
    return f"of {n_unknown} of {len(lives)} requests the model does not know all that it reads; {'; '.join(lacks)}"


def _counted(names: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in sorted(names.items()))
