"""Reads dumps of Nova's database: the table `instances`, with `flavors`, `migrations` and Keystone's `project`.

`NovaDump` turns rows of Nova's table `instances` into requests: VMs that ran, their ends, and first flavors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._cells import Cells, is_missing, numbers
from sojourn.features.readers._ending import (
    all_requests,
    cut_at,
    horizon_of,
    second_zero,
    since_start,
    trace_of,
    without_ended,
)
from sojourn.features.readers._rows import TextRows, delimited_rows, is_parquet
from sojourn.features.readers._stamps import StampForm, checked_timezone, moment, stamp_form, stamps_s
from sojourn.features.readers.reader import Reader
from sojourn.features.trace import Roles, Trace

COMMAND = ("mysql --batch nova_cell1 -e 'SELECT uuid, created_at, launched_at, terminated_at, deleted_at, updated_at, "
           "deleted, project_id, user_id, availability_zone, vm_state, vcpus, memory_mb, root_gb, ephemeral_gb, "
           "instance_type_id FROM instances' > instances.tsv")
"""The commands for a dump with all columns."""
_TABLES = ("instances", "shadow_instances", "flavors", "migrations", "project")
_OWNERS = ("domain_id", "project_id", "user_id")
_CATEGORIES = ("availability_zone", "flavor")


def read_openstack(path: str | Path, *, timezone: str | None = None,
                   horizon_s: int | None = None) -> tuple[Trace, ReadReport]:
    """The trace of a dump of `instances`, or of a folder of dumps named by their tables; a VM is a request.

    Text with a header, from `mysql --batch` or PostgreSQL's `COPY ... CSV HEADER`, plain or gzipped. Arrival is
    `created_at`, since a resize, a rescue and a revert change `launched_at`. Departure is `terminated_at`, else
    `deleted_at` of a deleted row. A VM that was not launched never ran. Time 0 is the first end, since earlier deleted
    rows may have been archived. See docs/traces/openstack.md for details.

    timezone: IANA name; None = UTC, as in Nova. horizon_s: end of observation, seconds on the trace's clock.

    Raises OSError if a file cannot be opened, and ValueError with the commands to type if it is no such dump.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "instances.tsv"
    >>> _ = file.write_text("uuid\\tcreated_at\\tlaunched_at\\tterminated_at\\tdeleted\\tvcpus\\tmemory_mb\\n"
    ...     "a\\t2026-01-05 03:00:00\\t2026-01-05 03:00:20\\t2026-01-05 04:00:00\\t7\\t2\\t4096\\n"
    ...     "b\\t2026-01-05 03:30:00\\t2026-01-05 04:30:00\\tNULL\\t0\\t1\\t2048\\n"
    ...     "c\\t2026-01-05 03:40:00\\tNULL\\tNULL\\t0\\t1\\t2048\\n")
    >>> trace, report = read_openstack(file)
    >>> trace.requests[["request_id", "arrival_s", "departure_s", "cpu_cores", "mem_gib"]].values.tolist()
    [['a', 1767582000, 1767585600, 2.0, 4.0], ['b', 1767583800, <NA>, 1.0, 2.0]]
    >>> trace.span_s, dict(report.refused)
    (1800, {'never ran (not launched)': 1})
    """
    source, ledger = Path(path), ReadLedger()
    zone = checked_timezone(timezone) if timezone else None
    files = _files(source)
    dump = NovaDump(read_flavors(files.get("flavors")), read_first_flavors(files.get("migrations")),
                    read_domains(files.get("project")))
    chunks = []
    for name in ("instances", "shadow_instances"):
        if name in files:
            for rows in _blocks(files[name], ledger):
                try:
                    chunks.append(dump.requests(rows, zone))
                except ValueError as error:
                    raise ValueError(f"{files[name]}: {error}") from error
    requests = all_requests([chunk for chunk in chunks if len(chunk)], source, "VM that ran", ledger)
    requests, origin_s = _on_clock(requests, ledger)
    last_s = requests.pop("last_s").to_numpy(np.int64)
    if horizon_s is None and int(last_s.max()) <= 0:
        raise ValueError(f"{source}: the last time must lie after the first, got one moment alone")
    horizon = horizon_of(last_s, since_start(horizon_s, origin_s, int(last_s.max(initial=0))))
    requests = cut_at(requests.drop(columns="file"), horizon, ledger, source.name)
    roles = _roles(requests)
    _tell(dump, requests, horizon.time_s, origin_s, ledger)
    extra_names = [name for name in ("vm_state",) if name in requests]
    meta = {"source": f"OpenStack Nova, {source.name}", "licence": "the user's own", "start_unix_s": origin_s,
            "known_at_end": extra_names}
    return trace_of(requests, horizon.time_s, roles, ledger, meta, others=extra_names)


OPENSTACK = Reader(
    read_openstack,
    path="a dump of Nova's table `instances` as text, or a folder with it, `flavors`, `migrations` and `project`",
    arrival="`created_at`",
    departure="`terminated_at`, else `deleted_at` of a deleted row; none where it still runs",
    owners="`domain_id` where known, `project_id`, `user_id`",
    categories="`availability_zone`, `flavor` where known",
    numbers="`disk_gib`",
    no_role="`vm_state`",
)


def _files(source: Path) -> Mapping[str, Path]:
    if not source.is_dir():
        return {"instances": source}
    files: dict[str, Path] = {}
    for file in sorted(source.iterdir()):
        table = {"projects": "project"}.get(found_name := file.name.split(".")[0], found_name)
        if file.is_file() and table in _TABLES and not file.name.endswith(".parquet"):
            if table in files:
                raise ValueError(f"{source} must hold one dump of each table, got {files[table].name} and {file.name}")
            files[table] = file
    if "instances" not in files:
        raise ValueError(f"{source} must hold a dump of the table instances (instances.tsv, instances.csv), got none; "
                         f"write one with: {COMMAND}")
    return files


def _blocks(file: Path, ledger: ReadLedger) -> Iterator[TextRows]:
    if is_parquet(file):
        raise ValueError(f"{file} must be text with a header, got Parquet: read it with --reader csv")
    for idx, rows in enumerate(delimited_rows(file, ledger)):
        if idx == 0:
            try:
                check_names(file, rows.names, NEEDED)
            except ValueError as error:
                raise ValueError(f"{error}; write a dump with: {COMMAND}") from error
        yield rows


def _on_clock(requests: pd.DataFrame, ledger: ReadLedger) -> tuple[pd.DataFrame, int]:
    """The VMs on the trace's clock, and its second 0: the first end, or the first start if no time is later."""
    origin_s = second_zero(requests)
    for name in ("arrival_s", "departure_s", "last_s"):
        requests[name] = pd.Series(requests[name] - origin_s, dtype="Float64").astype("Int64")
    return without_ended(requests, "request_id", ledger), origin_s


def _roles(requests: pd.DataFrame) -> Roles:
    """The roles of columns with values; other columns are dropped in place."""
    for name in ("domain_id", *_CATEGORIES):
        if name in requests and requests[name].nunique() < 2:
            del requests[name]
    return Roles(owners=tuple(name for name in _OWNERS if name in requests),
                 categories=tuple(name for name in _CATEGORIES if name in requests), numbers=("disk_gib",))


def _tell(dump: NovaDump, requests: pd.DataFrame, horizon_s: int, origin_s: int, ledger: ReadLedger) -> None:
    ledger.note(f"second 0 is {moment(origin_s)}; {int((requests['arrival_s'] < 0).sum()):,} VMs began before it; the "
                f"last time is {moment(origin_s + horizon_s)}")
    ledger.note(f"{int(requests['departure_s'].isna().sum()):,} of {len(requests):,} VMs have no end and still run at "
                "the horizon")
    if dump.n_moved:
        restored = (f"; {dump.n_restored:,} VMs have the sizes of their first flavor, by the table migrations"
                    if dump.n_restored else "")
        ledger.note(f"check: {dump.n_moved:,} VMs were launched again an hour or more after they were made (resized, "
                    "rescued or unshelved). The sizes of a resized one are those of later, which nobody knew when it "
                    f"was made; dumps of migrations and flavors in one folder tell the first{restored}")
    for state in ("error", "soft-delete", "shelved_offloaded"):
        if n := dump.states[state]:
            ledger.note(f"check: {n:,} VMs without an end are in the state {state} and taken as running"
                        + (", though they hold no host" if state == "shelved_offloaded" else ""))


NEEDED = ("uuid", "created_at", "deleted", "vcpus", "memory_mb")
_TIMES = ("created_at", "launched_at", "terminated_at", "deleted_at", "updated_at")
_NAMES = ("project_id", "user_id", "availability_zone", "vm_state")
_UNLAUNCHED = frozenset(("building", "error"))
_STATES = ("error", "building", "deleted")
_MOVED_S = 3_600
_MAX_SIZE = 1e9
_NONE = frozenset(("", "null", "\\n", "none"))
_DELETED = {**dict.fromkeys(("0", "f", "false", *_NONE), False), **dict.fromkeys(("t", "true"), True)}


@dataclass(frozen=True, slots=True)
class Flavor:
    """A flavor: its name, cores, GiB of memory and of disk."""

    name: str
    vcpus: float
    mem_gib: float
    disk_gib: float


@dataclass(slots=True)
class NovaDump:
    """The joined tables of a dump, and counts. flavors: by the id in `instance_type_id`.
    first_flavor: VM -> its id before its first resize. domain_of: of projects. n_moved: VMs launched again an hour or
    more after their creation. n_restored: VMs with the sizes of their first flavor. forms: of the columns of times.
    """

    flavors: Mapping[str, Flavor]
    first_flavor: Mapping[str, str]
    domain_of: Mapping[str, str]
    states: Counter[str] = field(default_factory=Counter)
    forms: dict[str, StampForm] = field(default_factory=dict)
    seen: set[object] = field(default_factory=set)
    n_moved: int = 0
    n_restored: int = 0
    n_local: int = 0

    def requests(self, rows: TextRows, timezone: str | None) -> pd.DataFrame:
        """The VMs of a block that ran, times in Unix seconds."""
        times = {name: self._times(rows, name, timezone) for name in _TIMES if name in rows.names}
        missing = Cells(np.full(len(rows.raw), np.nan), np.ones(len(rows.raw), bool), np.zeros(len(rows.raw), bool))
        created, launched, terminated, deleted_at, updated = (times.get(name, missing) for name in _TIMES)
        names = {name: _names(rows, name) for name in _NAMES if name in rows.names}
        state = names.get("vm_state", np.full(len(rows.raw), "missing", object))
        rows.refuse("created_at missing", created.is_missing, "created_at")
        is_launched = ~launched.is_missing if "launched_at" in times else ~np.isin(state, list(_UNLAUNCHED))
        for unlaunched in _STATES:
            rows.refuse(f"never ran ({unlaunched}, not launched)", ~is_launched & (state == unlaunched))
        rows.refuse("never ran (not launched)", ~is_launched)
        flags = [_DELETED.get(cell.casefold(), cell.isdigit() or None) for cell in rows.text("deleted")]
        rows.refuse("deleted must be 0 or a number", np.array([flag is None for flag in flags], bool), "deleted")
        is_deleted = np.array([flag is True for flag in flags], bool)
        ended_s = terminated.values
        ended_s = np.where(np.isnan(ended_s) & is_deleted, deleted_at.values, ended_s)
        rows.refuse("deleted without a time", np.isnan(ended_s) & (is_deleted | (state == "deleted")))
        rows.refuse("end before created_at", ended_s < created.values)
        vcpus, memory_mb = self._size(rows, "vcpus"), self._size(rows, "memory_mb")
        disk_gib = self._size(rows, "root_gb") + self._size(rows, "ephemeral_gb")
        ids = rows.text("uuid")
        rows.refuse("uuid missing", is_missing(ids), "uuid")
        rows.refuse_duplicates("uuid twice", ids, self.seen)
        is_kept = rows.is_kept
        self.n_moved += int((launched.values > created.values + _MOVED_S)[is_kept].sum())
        self.states.update(np.where(np.isnan(ended_s), state, "")[is_kept].tolist())
        vms = pd.DataFrame({
            "line": rows.line[is_kept],
            "file": rows.file,
            "request_id": pd.Series(ids[is_kept], dtype="str"),
            "arrival_s": np.floor(created.values[is_kept]),
            "departure_s": np.floor(ended_s[is_kept]),
            "last_s": np.floor(np.fmax.reduce([values[is_kept] for values in (
                created.values, ended_s, launched.values, updated.values)])),
            "cpu_cores": vcpus[is_kept], "mem_gib": memory_mb[is_kept] / 1024.0, "disk_gib": disk_gib[is_kept],
            **{name: pd.Series(values[is_kept], dtype="str") for name, values in names.items()},
        })
        if self.domain_of and "project_id" in vms:
            vms["domain_id"] = vms["project_id"].map(self.domain_of).fillna("missing").astype("str")
        return self._as_they_began(vms, rows)

    def _as_they_began(self, vms: pd.DataFrame, rows: TextRows) -> pd.DataFrame:
        """The VMs with their first flavor, if the dump has it: a row has the flavor of the last resize."""
        if not self.flavors:
            return vms
        flavor_ids = rows.text("instance_type_id")[rows.is_kept] if "instance_type_id" in rows.names else np.full(
            len(vms), "", object)
        first = vms["request_id"].map(self.first_flavor).to_numpy(object)
        is_resized = np.array([one in self.flavors for one in first], bool)
        sizes = vms[["cpu_cores", "mem_gib", "disk_gib"]].to_numpy(np.float64, copy=True)
        for idx in np.flatnonzero(is_resized):
            flavor = self.flavors[first[idx]]
            sizes[idx] = flavor.vcpus, flavor.mem_gib, flavor.disk_gib
        self.n_restored += int(is_resized.sum())
        ids = np.where(is_resized, first, flavor_ids)
        names = [self.flavors[one].name if one in self.flavors else "missing" for one in ids]
        return vms.assign(cpu_cores=sizes[:, 0], mem_gib=sizes[:, 1], disk_gib=sizes[:, 2],
                          flavor=pd.Series(names, dtype="str", index=vms.index))

    def _times(self, rows: TextRows, name: str, timezone: str | None) -> Cells:
        """A column of times; Nova writes UTC without a zone."""
        text = rows.text(name)
        if name not in self.forms:
            form = stamp_form(name, text)
            if form is not None:
                if not form.is_dated:
                    raise ValueError(f"{name} must be dates, got {str(text[~is_missing(text)][0])[:60]!r}")
                self.forms[name] = form
        if name not in self.forms:
            return Cells(np.full(len(text), np.nan), np.ones(len(text), bool), np.zeros(len(text), bool))
        stamps = stamps_s(text, self.forms[name], timezone)
        rows.refuse(f"{name} must be a time", stamps.is_bad, name)
        return stamps

    @staticmethod
    def _size(rows: TextRows, name: str) -> np.ndarray:
        if name not in rows.names:
            return np.zeros(len(rows.raw))
        sizes = numbers(rows.text(name))
        rows.refuse(f"{name} must be a number", sizes.is_bad, name)
        rows.refuse(f"{name} negative or above {_MAX_SIZE:g}", (sizes.values < 0) | (sizes.values > _MAX_SIZE), name)
        rows.repair(f"{name} missing: 0 taken", sizes.is_missing)
        return np.nan_to_num(sizes.values)


def read_flavors(file: Path | None) -> dict[str, Flavor]:
    """Flavors by id, from a dump of the table `flavors`."""
    flavors = {}
    for rows in _table(file, ("id", "name", "vcpus", "memory_mb")):
        sizes = [numbers(rows.text(name)).values if name in rows.names else np.zeros(len(rows.raw))
                 for name in ("vcpus", "memory_mb", "root_gb", "ephemeral_gb")]
        is_good = ~np.isnan(sizes[0]) & ~np.isnan(sizes[1])
        ids, names = rows.text("id"), rows.text("name")
        for idx in np.flatnonzero(is_good):
            vcpus, memory_mb, root, ephemeral = (float(np.nan_to_num(size[idx])) for size in sizes)
            flavors[str(ids[idx])] = Flavor(str(names[idx]), vcpus, memory_mb / 1024.0, root + ephemeral)
    return flavors


def read_first_flavors(file: Path | None) -> dict[str, str]:
    """VM -> id of the flavor before its first resize, from a dump of the table `migrations`."""
    first: dict[str, tuple[str, str]] = {}
    for rows in _table(file, ("instance_uuid", "old_instance_type_id", "new_instance_type_id", "created_at")):
        uuids, old, new, created = (rows.text(name) for name in (
            "instance_uuid", "old_instance_type_id", "new_instance_type_id", "created_at"))
        for vm, before, after, at in zip(uuids, old, new, created, strict=True):
            if before != after and before.isdigit() and (vm not in first or at < first[vm][0]):
                first[vm] = (at, before)
    return {vm: before for vm, (_, before) in first.items()}


def read_domains(file: Path | None) -> dict[str, str]:
    """Project -> domain, from a dump of Keystone's table `project`."""
    domain_of: dict[str, str] = {}
    for rows in _table(file, ("id", "domain_id")):
        domain_of |= dict(zip(rows.text("id").tolist(), rows.text("domain_id").tolist(), strict=True))
    return domain_of


def _table(file: Path | None, needed: tuple[str, ...]) -> list[TextRows]:
    if file is None:
        return []
    blocks = list(delimited_rows(file, ReadLedger()))
    check_names(file, blocks[0].names, needed)
    return blocks


def check_names(file: Path, names: Sequence[str], needed: tuple[str, ...]) -> None:
    """ValueError if a table lacks a column, or has it twice."""
    columns = list(names)
    twice = [name for name in needed if columns.count(name) > 1]
    if twice:
        raise ValueError(f"{file}: line 1 must have each column once, got {twice[0]!r} twice")
    lacking = [name for name in needed if name not in columns]
    if lacking:
        raise ValueError(f"{file}: line 1 must have the columns {', '.join(needed)}, got none of "
                         f"{', '.join(lacking)} in {', '.join(columns)[:160]!r}")


def _names(rows: TextRows, name: str) -> np.ndarray:
    text = rows.text(name)
    return np.where(np.isin(np.char.lower(text.astype(str)), list(_NONE)), "missing", text)
