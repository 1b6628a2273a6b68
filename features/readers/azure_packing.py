"""Reads Azure Traces for Packing 2020: one SQLite file with the tables `vm` and `vmType`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._ending import all_requests, cut_at, horizon_of, trace_of
from sojourn.features.readers._rows import BLOCK_LINES, MAX_TIME_S, TextRows, value_rows
from sojourn.features.readers.reader import Reader
from sojourn.features.trace import DAY_S, Roles, Trace

_MAX_DAYS = MAX_TIME_S // DAY_S
_VM_COLUMNS = ("vmId", "tenantId", "vmTypeId", "priority", "starttime", "endtime")
_TYPE_COLUMNS = ("vmTypeId", "machineId", "core", "memory")
_NAMES = {"tenantId": "tenant", "vmTypeId": "vm_type", "priority": "priority"}


def read_azure_packing(path: str | Path, *, machine: str | None = None,
                       horizon_s: int | None = None) -> tuple[Trace, ReadReport]:
    """The trace of one SQLite file with the tables `vm` and `vmType`.

    Times are days, converted to whole seconds (truncated). A VM with a start below 0 ran at 0 and
    has a negative arrival. A VM without an end runs at the horizon, the last time in the file.

    A type has one row per machine generation that fits it, with its size as a share of that machine, so sizes can be
    compared on one machine only. machine: its `machineId`; by default the one that fits the most VMs (the smallest
    number on a tie). cpu_cores and mem_gib are shares of it (0-1), not cores and GiB; VMs whose type does not fit are
    refused. hosts: one row, that machine, of size 1.

    horizon_s: end of observation, seconds on the trace's clock; by default from the file, see docs/traces/readers.md.

    Owner: `tenant`; categories: `vm_type`, `priority`.

    Raises OSError if the file cannot be opened, ValueError if it has another format or no such `machine`.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "packing.sqlite"
    >>> with closing(sqlite3.connect(path)) as made:
    ...     _ = made.execute("create table vmType (id, vmTypeId, machineId, core, memory, hdd, ssd, nic)")
    ...     _ = made.execute("create table vm (vmId, tenantId, vmTypeId, priority, starttime, endtime)")
    ...     _ = made.execute("insert into vmType values (0, 7, 3, 0.5, 0.25, 0, 0, 0)")
    ...     _ = made.execute("insert into vm values (1, 9, 7, 0, -0.5, 0.25), (2, 9, 7, 1, 0.125, null)")
    ...     made.commit()
    >>> trace, report = read_azure_packing(path)
    >>> trace.requests[["arrival_s", "departure_s", "cpu_cores", "mem_gib"]].values.tolist()
    [[-43200, 21600, 0.5, 0.25], [10800, <NA>, 0.5, 0.25]]
    """
    source = Path(path)
    ledger = ReadLedger()
    with source.open("rb"), closing(_open(source)) as database:
        machine_id, core_of, memory_of, types = _sizes(source, database, machine)
        chunks = []
        ids: set[object] = set()
        last_s = 0
        for rows in _blocks(source, database, "vm", _VM_COLUMNS, ledger):
            chunk, latest_s = _vms(rows, core_of, memory_of, types, ids)
            chunks.append(chunk)
            last_s = max(last_s, latest_s)
    requests = all_requests(chunks, source, "VM with a time above 0", ledger, last_s=last_s)
    times = pd.concat([requests["arrival_s"], requests["departure_s"].dropna()])
    horizon = horizon_of(times.to_numpy(np.int64), horizon_s)
    requests = cut_at(requests, horizon, ledger, f"{source.name} vm")
    hosts = pd.DataFrame({"host_id": [f"machine-{machine_id}"], "cpu_cores": [1.0], "mem_gib": [1.0]})
    meta = {"source": f"Azure Traces for Packing 2020, {source.name}",
            "licence": "CC BY 4.0 (cite Hadary et al., OSDI'20)", "machine": machine_id,
            "units": "cpu_cores and mem_gib are shares of this machine (0-1)",
            "known_at_end": []}
    return trace_of(requests, horizon.time_s, Roles(owners=("tenant",), categories=("vm_type", "priority")), ledger,
                    meta, hosts=hosts)


AZURE_PACKING = Reader(
    read_azure_packing,
    path="SQLite file with the tables `vm` and `vmType`",
    arrival="start; negative where it ran at 0",
    departure="end; none where missing",
    owners="`tenant`",
    categories="`vm_type`, `priority`",
)


def _vms(rows: TextRows, core_of: dict[str, float], memory_of: dict[str, float], types: set[str],
         ids: set[object]) -> tuple[pd.DataFrame, int]:
    start_d = rows.number("starttime")
    end_d = rows.number("endtime", is_required=False)
    vm_type = rows.text("vmTypeId")
    rows.refuse("time above 100 years", (np.abs(start_d) > _MAX_DAYS) | (end_d > _MAX_DAYS))
    rows.refuse("departure before arrival", end_d < start_d)
    rows.refuse("departure before the trace", end_d < 0)
    rows.refuse("vmTypeId not in vmType", ~np.isin(vm_type, list(types)))
    rows.refuse("type does not fit the chosen machine", ~np.isin(vm_type, list(core_of)))
    name = rows.text("vmId")
    rows.refuse("vmId missing", name == "")
    rows.refuse_duplicates("duplicate vmId", name, ids)
    is_kept = rows.is_kept
    start_s, end_s = np.floor(start_d[is_kept] * DAY_S), np.floor(end_d[is_kept] * DAY_S)
    table = pd.DataFrame({
        "line": rows.line[is_kept],
        "request_id": pd.Series(name[is_kept], dtype="str"),
        "arrival_s": pd.Series(start_s, dtype="Float64").astype("Int64"),
        "departure_s": pd.Series(end_s, dtype="Float64").astype("Int64"),
        "cpu_cores": [core_of[code] for code in vm_type[is_kept]],
        "mem_gib": [memory_of[code] for code in vm_type[is_kept]],
    })
    for column, role in _NAMES.items():
        text = rows.text(column)[is_kept]
        table[role] = pd.Series(np.where(text == "", "missing", text), dtype="str")
    return table, int(max(start_s.max(initial=0), np.nan_to_num(end_s).max(initial=0)))


def _sizes(path: Path, database: sqlite3.Connection,
           machine: str | None) -> tuple[str, dict[str, float], dict[str, float], set[str]]:
    """The machine, each type's share of its cores and memory, and all types."""
    core: dict[str, dict[str, float]] = {}
    memory: dict[str, dict[str, float]] = {}
    types: set[str] = set()
    pairs: set[object] = set()
    ledger = ReadLedger()
    for rows in _blocks(path, database, "vmType", _TYPE_COLUMNS, ledger):
        cores, memories = rows.number("core"), rows.number("memory")
        rows.refuse("size outside 0 .. 1", (cores < 0) | (cores > 1) | (memories < 0) | (memories > 1))
        names, machines = rows.text("vmTypeId"), rows.text("machineId")
        rows.refuse("vmTypeId or machineId missing", (names == "") | (machines == ""))
        keys = np.empty(len(names), object)
        keys[:] = list(zip(names, machines, strict=True))
        rows.refuse_duplicates("duplicate vmTypeId and machineId", keys, pairs)
        for i in np.flatnonzero(rows.is_kept):
            core.setdefault(machines[i], {})[names[i]] = float(cores[i])
            memory.setdefault(machines[i], {})[names[i]] = float(memories[i])
            types.add(names[i])
    rejected = ledger.report(0).rejected
    if len(rejected):  # a missing row would refuse valid VMs
        line, rule, raw = rejected[["line", "rule", "raw"]].values.tolist()[0]
        raise ValueError(f"{path}: vmType row {line} must be good, got {rule}: {raw[:80]!r}")
    if not core:
        raise ValueError(f"{path}: vmType must hold at least one row, got none")
    if machine is not None and machine not in core:
        raise ValueError(f"machine must be one of {', '.join(sorted(core))}, got {machine!r} ({path})")
    machine_id = machine
    if machine_id is None:
        n_vms = dict.fromkeys(core, 0)
        for rows in _blocks(path, database, "vm", ("vmTypeId",), ReadLedger()):
            names, counts = np.unique(rows.text("vmTypeId").astype(str), return_counts=True)
            for where, sizes in core.items():
                n_vms[where] += int(counts[np.isin(names, list(sizes))].sum())
        machine_id = min(n_vms, key=lambda where: (-n_vms[where], len(where), where))
    return machine_id, core[machine_id], memory[machine_id], types


def _open(path: Path) -> sqlite3.Connection:
    """A read-only connection, so that a wrong path never creates a file."""
    database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    database.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return database


def _blocks(path: Path, database: sqlite3.Connection, table: str, columns: tuple[str, ...],
            ledger: ReadLedger) -> Iterator[TextRows]:
    try:
        # SQLite reads a double-quoted name that is no column as text.
        names = [str(row[1]) for row in database.execute(f"pragma table_info({table})")]
        missing = [name for name in columns if name not in names]
        if missing:
            raise sqlite3.DatabaseError(f"table {table} with the columns {', '.join(names) or 'none'}")
        cursor = database.execute(f"select {', '.join(columns)} from {table}")
        n_rows = 0
        while values := cursor.fetchmany(BLOCK_LINES):
            yield value_rows(f"{path.name} {table}", columns, n_rows + 1, values, ledger)
            n_rows += len(values)
            if n_rows > path.stat().st_size:  # damaged pages in a cycle have no last row
                raise sqlite3.DatabaseError(f"more rows than bytes in {table}")
    except (sqlite3.Error, OverflowError, MemoryError) as error:
        expected = f"a table {table} with the columns {', '.join(columns)}"
        raise ValueError(f"{path} must be an SQLite file with {expected}; got {error}") from error
