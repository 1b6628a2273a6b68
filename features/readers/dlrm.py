"""Reads the Alibaba GPU 2025 trace ("dlrm"): instances of recommendation-model inference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._ending import all_requests, cut_at, horizon_of, trace_of
from sojourn.features.readers._rows import MAX_TIME_S, TextRows, text_rows
from sojourn.features.readers.reader import Reader
from sojourn.features.trace import Roles, Trace

_FILE = "disaggregated_DLRM_trace"
_COLUMNS = ("instance_sn", "role", "app_name", "cpu_request", "gpu_request", "rdma_request", "memory_request",
            "disk_request", "max_instance_per_node", "creation_time", "scheduled_time", "deletion_time")
_NO_LIMIT = -1


def read_dlrm(path: str | Path, *, horizon_s: int | None = None) -> tuple[Trace, ReadReport]:
    """The trace of `disaggregated_DLRM_trace.csv(.gz)`; path: its folder or the file itself.

    Arrival is the time an instance was scheduled (it starts to use a node, as in `openb`); its creation is
    `creation_s`, without a role. Without scheduled and creation time it started before the trace, start unknown.
    Without deletion it runs at the horizon, the last time in the file. Times are rounded to whole seconds. horizon_s:
    end of observation, seconds on the trace's clock; by default from the file, see docs/traces/readers.md.

    cpu_cores, mem_gib, gpu: requested amounts. Owner: `app_name`; category: `role` (CN without GPU, HN with one).
    Numbers: `rdma_percent` (of one card's bandwidth), `disk_gib`, `max_per_node` (NaN = no limit).

    Raises FileNotFoundError if the file is missing, ValueError if it has another format.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "dlrm.csv"
    >>> _ = path.write_text(",".join(_COLUMNS) + chr(10) + chr(10).join([
    ...     "i-0,HN,app_0,12,1,25,120,640,8,,,400", "i-1,CN,app_0,64,0,1,320,255,-1,90,100,"]))
    >>> trace, report = read_dlrm(path)
    >>> trace.requests[["request_id", "arrival_s", "departure_s", "max_per_node"]].values.tolist()
    [['i-0', <NA>, 400, 8.0], ['i-1', 100, <NA>, nan]]
    """
    source = Path(path)
    table = _file_in(source) if source.is_dir() else source
    ledger = ReadLedger()
    chunks = []
    ids: set[object] = set()
    last_s = 0
    for rows in text_rows(table, ledger, separator=",", names=_COLUMNS, has_header=True):
        chunk, latest_s = _instances(rows, ids)
        chunks.append(chunk)
        last_s = max(last_s, latest_s)
    requests = all_requests(chunks, table, "instance with a time above 0", ledger, last_s=last_s)
    times = pd.concat([requests[name].dropna() for name in ("creation_s", "arrival_s", "departure_s")])
    horizon = horizon_of(times.to_numpy(np.int64), horizon_s)
    requests = cut_at(requests, horizon, ledger, table.name)
    meta = {"source": f"Alibaba cluster-trace-gpu-v2025, {table.name}", "licence": "none stated",
            "known_at_end": []}
    roles = Roles(owners=("app_name",), categories=("role",), numbers=("rdma_percent", "disk_gib", "max_per_node"))
    return trace_of(requests, horizon.time_s, roles, ledger, meta)


DLRM = Reader(
    read_dlrm,
    path="folder or file of Alibaba GPU 2025",
    arrival="time scheduled; none where it and the creation are missing",
    departure="deletion; none where missing",
    owners="`app_name`",
    categories="`role`",
    numbers="`rdma_percent`, `disk_gib`, `max_per_node`",
    no_role="`creation_s`",
    recipe="dlrm",
)


def _instances(rows: TextRows, ids: set[object]) -> tuple[pd.DataFrame, int]:
    """The kept instances of one block, and the last time among them (whole seconds)."""
    cpu, gpu, rdma, memory, disk, most = (rows.number(name) for name in (
        "cpu_request", "gpu_request", "rdma_request", "memory_request", "disk_request", "max_instance_per_node"))
    creation_s, scheduled_s, deletion_s = (
        np.rint(rows.number(name, is_required=False)) for name in _COLUMNS[-3:])
    for times in (creation_s, scheduled_s, deletion_s):
        rows.refuse("time outside 0 .. 100 years", (times < 0) | (times > MAX_TIME_S))
    rows.refuse("negative size", np.any([size < 0 for size in (cpu, gpu, rdma, memory, disk)], axis=0))
    rows.refuse("max_instance_per_node neither -1 nor above 0", (most != _NO_LIMIT) & (most <= 0))
    rows.refuse("never ran (created, not scheduled)", np.isnan(scheduled_s) & ~np.isnan(creation_s))
    rows.refuse("scheduled before creation", scheduled_s < creation_s)
    rows.refuse("departure before arrival", deletion_s < scheduled_s)
    name = rows.text("instance_sn")
    rows.refuse("name missing", name == "")
    rows.refuse_duplicates("duplicate name", name, ids)
    is_kept = rows.is_kept
    times = np.array([creation_s[is_kept], scheduled_s[is_kept], deletion_s[is_kept]])
    latest_s = int(np.nan_to_num(times).max(initial=0))
    table = pd.DataFrame({
        "line": rows.line[is_kept],
        "request_id": pd.Series(name[is_kept], dtype="str"),
        "arrival_s": _whole(scheduled_s[is_kept]),
        "departure_s": _whole(deletion_s[is_kept]),
        "cpu_cores": cpu[is_kept],
        "mem_gib": memory[is_kept],
        "gpu": gpu[is_kept],
    })
    for column in ("app_name", "role"):
        text = rows.text(column)[is_kept]
        table[column] = pd.Series(np.where(text == "", "missing", text), dtype="str")
    return table.assign(
        rdma_percent=rdma[is_kept], disk_gib=disk[is_kept], creation_s=_whole(creation_s[is_kept]),
        max_per_node=np.where(most[is_kept] == _NO_LIMIT, np.nan, most[is_kept])), latest_s


def _whole(values: np.ndarray) -> pd.Series:
    return pd.Series(values, dtype="Float64").astype("Int64")


def _file_in(folder: Path) -> Path:
    for name in (f"{_FILE}.csv", f"{_FILE}.csv.gz"):
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"{folder} must hold {_FILE}.csv or {_FILE}.csv.gz")
