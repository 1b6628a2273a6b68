"""Reads the containers of the Alibaba cluster trace of 2018: `container_meta.csv(.gz)`, on request their CPU usage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._ending import trace_of
from sojourn.features.readers._horizon import cut_at, horizon_of
from sojourn.features.readers._text_rows import MAX_TIME_S, TextRows, text_rows
from sojourn.features.readers.reader import Reader
from sojourn.features.trace import Roles, Trace

_META = ("container_id", "machine", "time", "app_du", "status", "cpu_request", "cpu_limit", "mem_size")
_USAGE = ("container_id", "machine", "time", "cpu_util", "mem_util", "cpi", "mem_gps", "mpki", "net_in", "net_out",
          "disk_io")
_HEADER = "container_id,"
"""How a header line begins, where a copy of the file has one; the publisher's files have none."""
_PLACED = ("started", "allocated")
_STATUSES = (*_PLACED, "stopped", "unknown")
_CORE = 100
"""cpu_request of one core."""
_MAX_CPU = 1e9
MAX_USAGE_BYTES = 200_000_000
"""Size up to which a usage file is read unasked: about five million samples; the publisher's is far larger."""
MAX_SERIES = 1000
"""Containers whose usage is kept: 8 days of 300 s means are 2.3 M rows, 75 MB."""
STEP_S = 300
_MAX_PENDING = 1_000_000
"""Samples that wait to be added up by step."""


def read_alibaba_2018_containers(path: str | Path, *, usage: bool | None = None,
                                 max_series: int = MAX_SERIES,
                                 horizon_s: int | None = None) -> tuple[Trace, ReadReport]:
    """The trace of one table of containers; path: the file, or the folder that holds `container_meta.csv(.gz)`.

    A row is the state of a container at a time; a container has about five rows in the 8 days. One container is one
    request, from the first row that places it (started or allocated) to the first `stopped` row after which none
    places it again. Placed, or of unknown state, in its first row at time 0: it ran before, start unknown. No such
    stop: censored at the horizon, the last time in the file. Containers that no row places are no requests (joined).

    `cpu_limit_cores` and the sizes are those of the first row that places it. `mem_gib` is a share of the largest
    machine (0-100), no GiB. Owner: `app_du`, the deploy unit. `machine` and `status` (the last seen) have no role.

    horizon_s: when observation ended, seconds on the trace's clock, where that is known; else it is found in the file
    as docs/traces.md says.

    `Trace.usage`: means of cpu_util_percent / 100 and mem_util_percent / 100 over steps of 300 s, at each step's
    start, for the first `max_series` containers of the table, from `container_usage.csv(.gz)` beside it. usage: None =
    where that file has at most 200 MB, True = whatever its size, False = not.

    Raises FileNotFoundError where a file is missing, ValueError where one is not the format.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "container_meta.csv"
    >>> _ = path.write_text("c_1,m_1,0,app_1,started,400,400,1.5" + chr(10) + "c_2,m_1,60,app_1,started,50,100,3" +
    ...     chr(10) + "c_2,m_1,90,app_1,stopped,50,100,3" + chr(10) + "c_1,m_1,120,app_1,started,400,400,1.5")
    >>> trace, report = read_alibaba_2018_containers(path)
    >>> trace.requests[["request_id", "arrival_s", "departure_s", "cpu_cores", "mem_gib"]].values.tolist()
    [['c_1', <NA>, <NA>, 4.0, 1.5], ['c_2', 60, 90, 0.5, 3.0]]
    """
    if max_series < 1:
        raise ValueError(f"max_series must be at least 1, got {max_series!r}")
    source = Path(path)
    table = _found(source) if source.is_dir() else source
    ledger = ReadLedger()
    first_rows: dict[str, tuple[str, str]] = {}
    seen: set[object] = set()
    states = pd.concat([_states(rows, first_rows, seen) for rows in text_rows(
        table, ledger, separator=",", names=_META, has_header=False, comment=_HEADER)], ignore_index=True)
    last_s = int(states["time"].max()) if len(states) else 0
    requests = _requests(states, ledger) if len(states) else states
    if requests.empty or last_s <= 0:
        raise ValueError(f"{table}: must hold at least one started or allocated container and a time after 0, got "
                         f"none; refused: {dict(ledger.report(0).refused)}")
    n_placed = len(requests)
    horizon = horizon_of(states["time"].to_numpy(np.int64), horizon_s)
    requests = cut_at(requests, horizon, ledger, table.name)
    usage_file = next((file for file in _beside(table, "container_usage") if file.is_file()), None)
    if usage is True and usage_file is None:
        raise FileNotFoundError(f"{table.parent} must hold container_usage.csv or container_usage.csv.gz for usage")
    series = None
    if usage_file is not None and usage is not False and (usage or usage_file.stat().st_size <= MAX_USAGE_BYTES):
        series = _usage(usage_file, requests.head(max_series), pd.Index(list(first_rows)), horizon.time_s, ledger)
    meta = {"source": f"Alibaba cluster trace 2018, {table.name}", "licence": "none stated",
            "units": "mem_gib is a share of the largest machine (0-100)",
            "n_never_placed": len(first_rows) - n_placed, "known_at_end": ["status"],
            "usage": "not read" if series is None else f"means over {STEP_S} s of the first {max_series} containers"}
    return trace_of(requests, horizon.time_s, Roles(owners=("app_du",), numbers=("cpu_limit_cores",)), ledger, meta,
                    usage=series, is_event_log=True)


ALIBABA_2018_CONTAINERS = Reader(
    read_alibaba_2018_containers,
    path="`container_meta.csv` of the Alibaba cluster trace of 2018, or its folder",
    arrival="first state that places it (started or allocated); none where it was placed at 0",
    departure="first `stopped` after which none places it; none without",
    owners="`app_du`",
    numbers="`cpu_limit_cores`",
    no_role="`machine`, `status`",
)


def _states(rows: TextRows, first_rows: dict[str, tuple[str, str]], seen: set[object]) -> pd.DataFrame:
    """The kept states of one block; `first_rows` (container -> machine, app_du) gains its containers."""
    container, status = rows.text("container_id"), rows.text("status")
    time, cpu, limit, mem = (rows.number(name, is_required=name == "time") for name in (
        "time", "cpu_request", "cpu_limit", "mem_size"))
    machine, app = (np.where(rows.text(name) == "", "missing", rows.text(name)) for name in ("machine", "app_du"))
    rows.refuse("container_id missing", container == "")
    rows.refuse("status not started, allocated, stopped or unknown", ~np.isin(status, _STATUSES))
    rows.refuse("time not a whole number in 0 .. 100 years", (time < 0) | (time > MAX_TIME_S) | (time % 1 != 0))
    rows.refuse("negative size", (cpu < 0) | (limit < 0) | (mem < 0))
    rows.refuse(f"cpu above {_MAX_CPU:g}", (cpu > _MAX_CPU) | (limit > _MAX_CPU))
    rows.refuse("mem_size above 100", mem > 100)
    is_other = np.zeros(len(time), bool)
    for i in np.flatnonzero(rows.is_kept).tolist():
        is_other[i] = first_rows.setdefault(container[i], (machine[i], app[i])) != (machine[i], app[i])
    rows.refuse("machine or app_du not that of the container's first row", is_other)
    keys = np.array([f"{c} {t:.0f} {s}" for c, t, s in zip(container, time, status, strict=True)], object)
    rows.refuse_duplicates("duplicate state", keys, seen)
    rows.repair("cpu_request, cpu_limit or mem_size missing: 0 taken", np.isnan(cpu) | np.isnan(limit) | np.isnan(mem))
    kept = rows.is_kept
    return pd.DataFrame({
        "container": pd.Series(container[kept], dtype="str"), "time": time[kept].astype(np.int64),
        "status": pd.Series(status[kept], dtype="str"), "app_du": pd.Series(app[kept], dtype="str"),
        "machine": pd.Series(machine[kept], dtype="str"), "cpu_cores": np.nan_to_num(cpu[kept]) / _CORE,
        "cpu_limit_cores": np.nan_to_num(limit[kept]) / _CORE, "mem_gib": np.nan_to_num(mem[kept])})


def _requests(states: pd.DataFrame, ledger: ReadLedger) -> pd.DataFrame:
    """One request for each container that a state places, in the order of their first rows.

    states: kept rows in file order; rows of one container are brought into the order of their times.
    """
    code, _ = pd.factorize(states["container"])
    time = states["time"].to_numpy()
    order = np.lexsort((time, code))  # stable: states of the same second stay in file order
    ledger.repair("time before the container's row above: sorted",
                  int(((np.diff(order) < 0) & (np.diff(code[order]) == 0)).sum()))
    states, code, time = states.iloc[order].reset_index(drop=True), code[order], time[order]
    status = states["status"].to_numpy()
    row = np.arange(len(states))
    n = int(code[-1]) + 1 if len(code) else 0
    is_placed, is_stop = np.isin(status, _PLACED), status == "stopped"
    first, last = np.full(n, len(row)), np.full(n, -1)
    np.minimum.at(first, code[is_placed], row[is_placed])
    np.maximum.at(last, code[is_placed], row[is_placed])
    stop = np.full(n, len(row))
    is_end = is_stop & (row > last[code])
    np.minimum.at(stop, code[is_end], row[is_end])
    is_restart = np.zeros(n, bool)
    is_restart[code[is_stop & (row > first[code]) & (row < last[code])]] = True
    opening, closing = np.searchsorted(code, np.arange(n)), np.searchsorted(code, np.arange(n), "right") - 1
    is_request = last >= 0
    ledger.repair("stopped and placed again on its machine: taken as running through", int(is_restart.sum()))
    first, stop, opening, closing = (index[is_request] for index in (first, stop, opening, closing))
    has_stop = stop < len(row)
    made = states.iloc[first][["container", "app_du", "machine", "cpu_cores", "cpu_limit_cores", "mem_gib"]]
    made = made.reset_index(drop=True).rename(columns={"container": "request_id"})
    made["status"] = status[closing]
    for name in ("app_du", "machine", "status"):
        made[name] = made[name].astype("category")
    is_before = (time[opening] == 0) & (status[opening] != "stopped")
    made["arrival_s"] = pd.Series(time[first], dtype="Int64").mask(is_before)
    made["departure_s"] = pd.Series(time[np.where(has_stop, stop, 0)], dtype="Int64").mask(~has_stop)
    return made


def _usage(path: Path, requests: pd.DataFrame, known: pd.Index, horizon_s: int, ledger: ReadLedger) -> pd.DataFrame:
    """Means over each step as `request_id`, `time_s` (int64), `cpu_frac`, `mem_frac` (NaN where none), float64.

    requests: those with a series. known: every container of the table of states; samples of the others are refused,
    those of known ones without a series count as joined.
    """
    index = pd.Index(requests["request_id"])
    begin = requests["arrival_s"].fillna(0).to_numpy(np.int64)
    end = requests["departure_s"].fillna(horizon_s).to_numpy(np.int64)
    n_steps = horizon_s // STEP_S + 1
    sums: list[pd.DataFrame] = []
    for rows in text_rows(path, ledger, separator=",", names=_USAGE, has_header=False, comment=_HEADER):
        container = pd.Index(rows.text("container_id"))
        place = index.get_indexer(container)
        rows.refuse("sample of a container that is not in container_meta", known.get_indexer(container) < 0)
        rows.is_kept &= place >= 0
        time, cpu, mem = (rows.number(name, is_required=name != "mem_util") for name in (
            "time", "cpu_util", "mem_util"))
        rows.refuse("sample outside its container's arrival .. departure", (time < begin[place]) | (time > end[place]))
        rows.refuse("cpu_util_percent or mem_util_percent outside 0 .. 100",
                    (cpu < 0) | (cpu > 100) | (mem < 0) | (mem > 100))
        kept = rows.is_kept
        sums.append(pd.DataFrame({
            "cell": place[kept] * n_steps + (time[kept] // STEP_S).astype(np.int64), "cpu": cpu[kept],
            "n_cpu": 1, "mem": np.nan_to_num(mem[kept]), "n_mem": np.isfinite(mem[kept]).astype(np.int64)}))
        if sum(map(len, sums[1:])) > _MAX_PENDING:
            sums = [_added(sums)]
    total = _added(sums)
    cell = total["cell"].to_numpy()
    return pd.DataFrame({
        "request_id": pd.Series(index.to_numpy()[cell // n_steps], dtype="str"), "time_s": cell % n_steps * STEP_S,
        "cpu_frac": total["cpu"] / total["n_cpu"] / 100,
        "mem_frac": total["mem"] / total["n_mem"].where(total["n_mem"] > 0) / 100})


def _added(sums: list[pd.DataFrame]) -> pd.DataFrame:
    """One row for each cell, ordered by cell: memory grows with the steps kept, not with the samples read."""
    return pd.concat(sums, ignore_index=True).groupby("cell", as_index=False).sum()


def _beside(table: Path, name: str) -> tuple[Path, Path]:
    return table.with_name(f"{name}.csv"), table.with_name(f"{name}.csv.gz")


def _found(folder: Path) -> Path:
    for name in ("container_meta.csv", "container_meta.csv.gz"):
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"{folder} must hold container_meta.csv or container_meta.csv.gz")
