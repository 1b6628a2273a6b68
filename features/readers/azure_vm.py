"""Reads the VM table of the Azure public dataset, V1 (2017) and V2 (2019): `vmtable.csv(.gz)` without a header."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._ending import all_requests, cut_at, horizon_of, trace_of
from sojourn.features.readers._rows import MAX_TIME_S, TextRows, text_rows
from sojourn.features.readers.reader import Reader
from sojourn.features.trace import Roles, Trace

_COLUMNS = ("vm", "subscription", "deployment", "created_s", "deleted_s", "max_cpu", "mean_cpu", "p95_max_cpu",
            "vm_category", "cores", "mem_gib")
_OPEN_BUCKETS = {"cores": (">24", 32.0), "mem_gib": (">64", 128.0)}
"""V2's largest buckets, and the size that replaces them: the next power of two."""
_MAX_SIZE = 1e6
"""The most cores or GiB of one VM; more is a damaged cell."""
_AT_END = ("max_cpu", "mean_cpu", "p95_max_cpu")


def read_azure_vm(path: str | Path, *, category_as_feature: bool = False,
                  horizon_s: int | None = None) -> tuple[Trace, ReadReport]:
    """The trace of one VM table; path: the file, or the folder with `vmtable.csv(.gz)`.

    A VM created at time 0 ran before: start unknown. One deleted at the horizon still ran: censored. horizon_s: that
    time; by default the last deletion that enough VMs share. V2's sizes are buckets; 32 cores replace `>24` and 128 GiB
    `>64`. The readings beside the table are far larger than memory and not in this trace:
    `sojourn.features.usage.read_usage("azure-vm", folder)` streams them.

    Owners: subscription, deployment. The three CPU statistics are over the whole life and have no role. `vm_category`
    has none either: it was inferred from the usage of VMs that lived for days (Cortez et al., SOSP'17, section 3), so
    at creation it would reveal long lifetimes. category_as_feature: declare it nevertheless.

    Raises FileNotFoundError if the file is missing, ValueError if it has another format.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "vmtable.csv"
    >>> _ = path.write_text("v1,s,d,0,600,9,1,5,Unkown,2,3.5" + chr(10) + "v2,s,d,300,900,9,1,5,Interactive,>24,>64")
    >>> trace, report = read_azure_vm(path)
    >>> trace.requests[["arrival_s", "departure_s", "cpu_cores", "mem_gib"]].values.tolist()
    [[<NA>, 600, 2.0, 3.5], [300, <NA>, 32.0, 128.0]]
    """
    source = Path(path)
    table = _file_in(source) if source.is_dir() else source
    ledger = ReadLedger()
    ids: set[object] = set()
    chunks = [_vms(rows, ids) for rows in text_rows(table, ledger, separator=",", names=_COLUMNS, has_header=False)]
    last_s = max((int(chunk["departure_s"].max()) for chunk in chunks if len(chunk)), default=0)
    requests = all_requests(chunks, table, "VM deleted after time 0", ledger, last_s=last_s)
    horizon = horizon_of(requests["departure_s"].to_numpy(np.int64), horizon_s, is_shared=True)
    requests = cut_at(requests, horizon, ledger, table.name)
    requests["departure_s"] = requests["departure_s"].mask(requests["departure_s"] == horizon.time_s)
    categories = ("vm_category",) if category_as_feature else ()
    meta = {"source": f"Azure public dataset, {table.name}", "licence": "CC BY 4.0 (cite Cortez et al., SOSP'17)",
            "known_at_end": [*_AT_END, *([] if category_as_feature else ["vm_category"])]}
    return trace_of(requests, horizon.time_s, Roles(owners=("subscription", "deployment"), categories=categories),
                    ledger, meta, others=("vm_category",))


AZURE_VM = Reader(
    read_azure_vm,
    path="`vmtable.csv` of the Azure public dataset V1 or V2, or its folder",
    arrival="creation; none where it is 0",
    departure="deletion; none where it is the horizon",
    owners="`subscription`, `deployment`",
    categories="none; `vm_category` with `category_as_feature=True`",
    no_role="`vm_category`, `max_cpu`, `mean_cpu`, `p95_max_cpu`",
)


def _vms(rows: TextRows, ids: set[object]) -> pd.DataFrame:
    """The kept VMs of one block; VMs deleted at the horizon still have their departure."""
    created_s, deleted_s = rows.number("created_s"), rows.number("deleted_s")
    at_end = {name: rows.number(name, is_required=False) for name in _AT_END}
    cores, mem_gib = _size(rows, "cores"), _size(rows, "mem_gib")
    for times in (created_s, deleted_s):
        rows.refuse("time outside 0 .. 100 years", (times < 0) | (times > MAX_TIME_S))
    rows.refuse("negative size", (cores < 0) | (mem_gib < 0))
    rows.refuse("departure before arrival", deleted_s < created_s)
    name = rows.text("vm")
    rows.refuse("vm missing", name == "")
    rows.refuse_duplicates("duplicate vm", name, ids)
    category = rows.text("vm_category")
    rows.repair("category spelt Unkown", category == "Unkown")
    for column, (bucket, size) in _OPEN_BUCKETS.items():
        rows.repair(f"{column} {bucket}: {size:g} taken", rows.text(column) == bucket)
    is_kept = rows.is_kept
    created = pd.Series(created_s[is_kept].astype(np.int64), dtype="Int64")
    table = pd.DataFrame({
        "line": rows.line[is_kept],
        "request_id": pd.Series(name[is_kept], dtype="str"),
        "arrival_s": created.mask(created == 0),
        "departure_s": pd.Series(deleted_s[is_kept].astype(np.int64), dtype="Int64"),
        "cpu_cores": cores[is_kept],
        "mem_gib": mem_gib[is_kept],
    })
    for column, text in (("subscription", rows.text("subscription")), ("deployment", rows.text("deployment")),
                         ("vm_category", np.where(category == "Unkown", "Unknown", category))):
        table[column] = pd.Series(np.where(text[is_kept] == "", "missing", text[is_kept]), dtype="str")
    for column, values in at_end.items():
        table[column] = values[is_kept]
    return table


def _size(rows: TextRows, name: str) -> np.ndarray:
    """The column as float64 (n,); V2's open bucket counts as its replacement."""
    bucket, size = _OPEN_BUCKETS[name]
    text = rows.text(name)
    is_open = text == bucket
    values = np.asarray(pd.to_numeric(np.where(is_open, str(size), text), errors="coerce"), np.float64)
    rows.refuse(f"{name} neither a size nor {bucket}", ~np.isfinite(values) | (values > _MAX_SIZE))
    return np.where(np.isfinite(values), values, 0.0)


def _file_in(folder: Path) -> Path:
    for name in ("vmtable.csv", "vmtable.csv.gz"):
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"{folder} must hold vmtable.csv or vmtable.csv.gz")
