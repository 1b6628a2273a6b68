"""Reads the Alibaba GPU 2023 trace ("openb"): the pod list, and the node list beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._ending import all_requests, cut_at, horizon_of, trace_of
from sojourn.features.readers._rows import MAX_TIME_S, TextRows, text_rows
from sojourn.features.readers.reader import Reader
from sojourn.features.trace import Roles, Trace

_POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase",
                "creation_time", "deletion_time", "scheduled_time")
_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")


def read_openb(path: str | Path, *, pods: str = "default",
               nodes: str = "all_node", horizon_s: int | None = None) -> tuple[Trace, ReadReport]:
    """The trace of `openb_pod_list_<pods>.csv(.gz)`, with hosts from `openb_node_list_<nodes>.csv(.gz)`.

    path: the folder, or a pod list itself (then `pods` is not used); the node list is optional.

    Arrival is the time a pod was scheduled (it starts to use a node); its creation is `creation_s`. A pod deleted at
    the horizon still ran: censored. horizon_s: that time; by default the last deletion that enough pods share, also
    Pending ones. Pending pods never ran and are refused. `gpu` = whole GPUs x thousandths of a GPU. The trace has no
    users, so `shape` (cpu, memory and GPU as one name) is declared as the owner. `phase` is known only at the end and
    has no role; `creation_s` has none either.

    Raises FileNotFoundError if there is no pod list, ValueError if it has another format.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "pods.csv"
    >>> _ = path.write_text(",".join(_POD_COLUMNS) + chr(10) + chr(10).join([
    ...     "p-0,12000,16384,1,460,,LS,Running,0,900,30", "p-1,4000,8192,0,0,,BE,Pending,50,900,"]))
    >>> trace, report = read_openb(path)
    >>> trace.requests[["arrival_s", "cpu_cores", "gpu", "shape"]].values.tolist(), dict(report.refused)
    ([[30, 12.0, 0.46, '12c-16g-0.46gpu']], {'never ran (Pending)': 1})
    """
    source = Path(path)
    pod_list = _file_in(source, f"openb_pod_list_{pods}") if source.is_dir() else source
    ledger = ReadLedger()
    chunks = []
    ids: set[object] = set()
    deletions = []
    for rows in text_rows(pod_list, ledger, separator=",", names=_POD_COLUMNS, has_header=True):
        chunk, deletion_s = _pods(rows, ledger, ids)
        chunks.append(chunk)
        deletions.append(deletion_s)
    last_s = max((int(times.max(initial=0)) for times in deletions), default=0)
    requests = all_requests(chunks, pod_list, "pod that ran", ledger, last_s=last_s)
    horizon = horizon_of(np.concatenate(deletions), horizon_s, is_shared=True)
    requests = cut_at(requests, horizon, ledger, pod_list.name)
    requests["departure_s"] = requests["departure_s"].mask(requests["departure_s"] == horizon.time_s)
    categories = ["qos"]
    if (requests["gpu_spec"] != "any").any():
        categories.append("gpu_spec")
    else:
        requests = requests.drop(columns="gpu_spec")
    hosts = _hosts(pod_list.parent, nodes, ledger)
    meta = {"source": f"Alibaba cluster-trace-gpu-v2023, {pod_list.name}", "licence": "none stated",
            "known_at_end": ["phase"]}
    roles = Roles(owners=("shape",), categories=tuple(categories))
    return trace_of(requests, horizon.time_s, roles, ledger, meta, others=("phase",), hosts=hosts,
                    n_hosts=0 if hosts is None else len(hosts))


OPENB = Reader(
    read_openb,
    path="folder or pod list of Alibaba GPU 2023",
    arrival="time scheduled",
    departure="deletion; none where it is the horizon (34 pods)",
    owners="`shape` (cpu, memory and GPU as one name; the trace has no user)",
    categories="`qos`, `gpu_spec` where used",
    no_role="`creation_s`, `phase`",
    recipe="openb",
)


def _pods(rows: TextRows, ledger: ReadLedger, ids: set[object]) -> tuple[pd.DataFrame, np.ndarray]:
    """The kept pods of one block, and all its plausible deletions (whole seconds), also of Pending ones."""
    phase = rows.text("pod_phase")
    creation_s = rows.number("creation_time")
    deletion_s = rows.number("deletion_time")
    scheduled_s = rows.number("scheduled_time", is_required=False)
    cpu = rows.number("cpu_milli")
    memory = rows.number("memory_mib")
    gpus = rows.number("num_gpu")
    gpu_milli = rows.number("gpu_milli")
    for times in (creation_s, deletion_s, scheduled_s):
        rows.refuse("time outside 0 .. 100 years", (times < 0) | (times > MAX_TIME_S))
    rows.refuse("negative size", (cpu < 0) | (memory < 0) | (gpus < 0) | (gpu_milli < 0))
    deletions_s = deletion_s[rows.is_kept].astype(np.int64)
    is_unscheduled = np.isnan(scheduled_s)
    rows.refuse("never ran (Pending)", is_unscheduled & (phase == "Pending"))
    rows.refuse("scheduled_time missing", is_unscheduled)
    rows.refuse("scheduled before creation", scheduled_s < creation_s)
    rows.refuse("departure before arrival", deletion_s < scheduled_s)
    name = rows.text("name")
    rows.refuse("name missing", name == "")
    rows.refuse_duplicates("duplicate name", name, ids)
    is_kept = rows.is_kept
    gpu = (gpus * gpu_milli / 1000)[is_kept]
    cores, mem_gib = cpu[is_kept] / 1000, memory[is_kept] / 1024
    spec = rows.text("gpu_spec")[is_kept]
    return pd.DataFrame({
        "line": rows.line[is_kept],
        "request_id": pd.Series(name[is_kept], dtype="str"),
        "arrival_s": pd.Series(scheduled_s[is_kept].astype(np.int64), dtype="Int64"),
        "departure_s": pd.Series(deletion_s[is_kept].astype(np.int64), dtype="Int64"),
        "cpu_cores": cores,
        "mem_gib": mem_gib,
        "gpu": gpu,
        "shape": [f"{c:g}c-{m:g}g-{g:g}gpu" for c, m, g in zip(cores, mem_gib, gpu, strict=True)],
        "qos": np.where(rows.text("qos")[is_kept] == "", "missing", rows.text("qos")[is_kept]),
        "gpu_spec": np.where(spec == "", "any", spec),
        "creation_s": creation_s[is_kept].astype(np.int64),
        "phase": phase[is_kept],
    }), deletions_s


def _hosts(folder: Path, nodes: str, ledger: ReadLedger) -> pd.DataFrame | None:
    """The node list in `folder`, or None if there is none."""
    try:
        path = _file_in(folder, f"openb_node_list_{nodes}")
    except FileNotFoundError:
        return None
    chunks = []
    ids: set[object] = set()
    for rows in text_rows(path, ledger, separator=",", names=_NODE_COLUMNS, has_header=True):
        cpu, memory, gpu = (rows.number(name) for name in ("cpu_milli", "memory_mib", "gpu"))
        rows.refuse("negative size", (cpu < 0) | (memory < 0) | (gpu < 0))
        name, model = rows.text("sn"), rows.text("model")
        rows.refuse("name missing", name == "")
        rows.refuse_duplicates("duplicate name", name, ids)
        is_kept = rows.is_kept
        chunks.append(pd.DataFrame({
            "host_id": pd.Series(name[is_kept], dtype="str"), "cpu_cores": cpu[is_kept] / 1000,
            "mem_gib": memory[is_kept] / 1024, "gpu": gpu[is_kept],
            "model": pd.Series(np.where(model[is_kept] == "", "none", model[is_kept]), dtype="str")}))
    hosts = pd.concat(chunks, ignore_index=True)
    hosts["model"] = hosts["model"].astype("category")
    return hosts


def _file_in(folder: Path, stem: str) -> Path:
    for name in (f"{stem}.csv", f"{stem}.csv.gz"):
        if (folder / name).is_file():
            return folder / name
    names = sorted(path.name for path in folder.glob("openb_*"))
    got = ", ".join(names) or "no openb file"
    raise FileNotFoundError(f"{folder} must hold {stem}.csv or {stem}.csv.gz, got {got}")
