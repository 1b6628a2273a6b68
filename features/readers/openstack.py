"""Reads dumps of Nova's database: the table `instances`, with `flavors`, `migrations` and Keystone's `project`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger, ReadReport
from sojourn.features.readers._delimited_rows import delimited_rows, is_parquet
from sojourn.features.readers._ending import all_requests, trace_of
from sojourn.features.readers._horizon import cut_at, horizon_of, second_zero, since_start, without_ended
from sojourn.features.readers._nova_rows import (
    NEEDED,
    NovaDump,
    check_names,
    read_domains,
    read_first_flavors,
    read_flavors,
)
from sojourn.features.readers._stamps import checked_timezone, moment
from sojourn.features.readers._text_rows import TextRows
from sojourn.features.readers.reader import Reader
from sojourn.features.trace import Roles, Trace

COMMAND = ("mysql --batch nova_cell1 -e 'SELECT uuid, created_at, launched_at, terminated_at, deleted_at, updated_at, "
           "deleted, project_id, user_id, availability_zone, vm_state, vcpus, memory_mb, root_gb, ephemeral_gb, "
           "instance_type_id FROM instances' > instances.tsv")
"""What to type for a dump with all that is read."""
_TABLES = ("instances", "shadow_instances", "flavors", "migrations", "project")
_OWNERS = ("domain_id", "project_id", "user_id")
_CATEGORIES = ("availability_zone", "flavor")


def read_openstack(path: str | Path, *, timezone: str | None = None,
                   horizon_s: int | None = None) -> tuple[Trace, ReadReport]:
    """The trace of a dump of `instances`, or of a folder of dumps named by their tables; a VM is a request.

    Text with a header, as `mysql --batch` and PostgreSQL's `COPY ... CSV HEADER` write it, plain or gzipped. Arrival is
    `created_at`: `launched_at` is written again by a resize, a rescue and a revert. Departure is `terminated_at`, else
    `deleted_at` of a deleted row. What was not launched never ran. Time 0 is the first end, since deleted rows of
    before may have been archived. docs/traces.md says the rest.

    timezone: IANA name; None = UTC, as Nova writes it. horizon_s: when observation ended, seconds on the trace's clock.

    Raises OSError where a file cannot be opened and ValueError where it is no such dump, with what to type.

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
    others = [name for name in ("vm_state",) if name in requests]
    meta = {"source": f"OpenStack Nova, {source.name}", "licence": "the user's own", "start_unix_s": origin_s,
            "known_at_end": others}
    return trace_of(requests, horizon.time_s, roles, ledger, meta, others=others)


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
    """The file of each table."""
    if not source.is_dir():
        return {"instances": source}
    found: dict[str, Path] = {}
    for file in sorted(source.iterdir()):
        table = {"projects": "project"}.get(found_name := file.name.split(".")[0], found_name)
        if file.is_file() and table in _TABLES and not file.name.endswith(".parquet"):
            if table in found:
                raise ValueError(f"{source} must hold one dump of each table, got {found[table].name} and {file.name}")
            found[table] = file
    if "instances" not in found:
        raise ValueError(f"{source} must hold a dump of the table instances (instances.tsv, instances.csv), got none; "
                         f"write one with: {COMMAND}")
    return found


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
    """The VMs on the trace's clock, and its second 0: the first end, or the first start where no time is later."""
    origin_s = second_zero(requests)
    for name in ("arrival_s", "departure_s", "last_s"):
        requests[name] = pd.Series(requests[name] - origin_s, dtype="Float64").astype("Int64")
    return without_ended(requests, "request_id", ledger), origin_s


def _roles(requests: pd.DataFrame) -> Roles:
    """The roles of what is told; columns that tell nothing are dropped in place."""
    for name in ("domain_id", *_CATEGORIES):
        if name in requests and requests[name].nunique() < 2:
            del requests[name]
    return Roles(owners=tuple(name for name in _OWNERS if name in requests),
                 categories=tuple(name for name in _CATEGORIES if name in requests), numbers=("disk_gib",))


def _tell(dump: NovaDump, requests: pd.DataFrame, horizon_s: int, origin_s: int, ledger: ReadLedger) -> None:
    """What a reader of the report should know."""
    ledger.note(f"second 0 is {moment(origin_s)}; {int((requests['arrival_s'] < 0).sum()):,} VMs began before it; the "
                f"last time is {moment(origin_s + horizon_s)}")
    ledger.note(f"{int(requests['departure_s'].isna().sum()):,} of {len(requests):,} VMs have no end and still run at "
                "the horizon")
    if dump.n_moved:
        known = (f"; {dump.n_restored:,} VMs have the sizes of their first flavor, by the table migrations"
                 if dump.n_restored else "")
        ledger.note(f"check: {dump.n_moved:,} VMs were launched again an hour or more after they were made (resized, "
                    "rescued or unshelved). The sizes of a resized one are those of later, which nobody knew when it "
                    f"was made; dumps of migrations and flavors in one folder tell the first{known}")
    for state in ("error", "soft-delete", "shelved_offloaded"):
        if n := dump.states[state]:
            ledger.note(f"check: {n:,} VMs without an end are in the state {state} and taken as running"
                        + (", though they hold no host" if state == "shelved_offloaded" else ""))
