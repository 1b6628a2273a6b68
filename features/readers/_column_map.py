"""The meanings of a table's columns: from a TOML file or options, or guessed from plain names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sojourn.features.frame_requests import is_end_name, plain_name
from sojourn.features.readers._cells import CPU_UNITS, SIZE_UNITS, TIME_UNITS
from sojourn.features.readers._stamps import checked_timezone
from sojourn.inflated import toml_of

SINGLE = ("request_id", "arrival", "departure", "duration", "submit", "status", "cpu_cores", "mem_gib", "gpu",
          "requested_s")
"""Meanings with a single column, in `[columns]`."""
LISTED = MappingProxyType({"owner": "owners", "category": "categories", "number": "numbers", "resource": "resources",
                           "known_at_end": "known_at_end"})
"""Option -> key of the TOML file, for meanings with several columns."""
_SAME = MappingProxyType({"id": "request_id", "cpu": "cpu_cores", "mem": "mem_gib",
                          **{key: option for option, key in LISTED.items()}})
AT_EDGE = ("auto", "running", "seen")
_KEYS = (*LISTED.values(), "timezone", "origin", "at_horizon", "at_start", "never_ran", "columns", "units")

_GUESSES: Mapping[str, str] = MappingProxyType({
    "request_id": "id vm_id vmid request_id job_id jobid task_id pod_id pod_uid instance_id server_id uuid uid vm job "
                  "pod instance server vm_name pod_name instance_name server_name name",
    "arrival": "arrival arrival_s arrival_time start started started_at start_time starttime launched_at launch_time "
               "scheduled_time scheduled_at created created_at creation_time create_time creation_timestamp "
               "created_time date_created",
    "departure": "departure departure_s departure_time end ended ended_at end_time endtime finish finished finished_at "
                 "finish_time stop stopped stopped_at stop_time deleted deleted_at deletion_time deletion_timestamp "
                 "terminated terminated_at termination_time completed completed_at completion_time",
    "duration": "duration lifetime elapsed runtime run_time",
    "submit": "submit submitted submitted_at submit_time submission_time queued_at",
    "status": "status state phase vm_state job_state pod_phase",
    "cpu_cores": "cpu_cores cpu cpus cores core vcpu vcpus n_cpus ncpus num_cpus n_cores num_cores vm_cores "
                 "core_count cpu_count cpu_request cpu_requests requested_cpu req_cpus",
    "mem_gib": "mem memory ram mem_size memory_size mem_request memory_request memory_requests requested_memory "
               "req_mem vm_memory",
    "gpu": "gpu gpus n_gpus num_gpus gpu_count ngpus",
    "requested_s": "requested_s time_limit timelimit requested_time max_runtime",
})  # fmt: skip
"""Meaning -> plain names, the most likely first; a unit may follow."""
_NAMES_OF_ONE = frozenset(["vm", "job", "pod", "instance", "server", "vmname", "podname", "instancename", "servername",
                           "name"])
"""Keys of columns that are guessed as the id only if nearly all rows have distinct names."""
_OWNERS = ("organization organisation org tenant tenant_id account account_id subscription subscription_id customer",
           "project project_id project_name namespace group team department",
           "user user_id username user_name owner uname submitted_by",
           "deployment deployment_id app app_name application service workload job_name")
_CATEGORIES = ("zone region availability_zone az flavor flavour flavor_name flavor_id instance_type vm_type "
               "machine_type sku image image_name queue partition priority priority_class qos os os_type job_type "
               "cluster")
_UNIT_ENDINGS: Mapping[str, Mapping[str, str]] = MappingProxyType({
    "time": {"s": "s", "sec": "s", "secs": "s", "seconds": "s", "ms": "ms", "millis": "ms", "us": "us", "ns": "ns",
             "min": "min", "mins": "min", "minutes": "min", "h": "h", "hours": "h", "hrs": "h", "d": "d", "days": "d"},
    "size": {"b": "B", "bytes": "B", "kb": "KiB", "kib": "KiB", "mb": "MiB", "mib": "MiB", "gb": "GiB", "gib": "GiB",
             "tb": "TiB", "tib": "TiB"},
    "cpu": {"milli": "millicores", "millicores": "millicores", "m": "millicores", "percent": "percent",
            "pct": "percent"},
})  # fmt: skip
_KIND = MappingProxyType({"arrival": "time", "departure": "time", "duration": "time", "submit": "time",
                          "requested_s": "time", "mem_gib": "size", "cpu_cores": "cpu"})
_UNITS_OF: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {"time": TIME_UNITS, "size": SIZE_UNITS, "cpu": CPU_UNITS})


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """The meaning of each column of a table.

    columns: a name of SINGLE -> the table's column. owners (coarsest first), categories, numbers, resources,
    known_at_end: columns with these roles; the last ones have no role. units: column -> unit of its plain numbers.
    timezone: of times without one; None = UTC. origin_s: Unix second of second 0 of the trace's clock; None = the first
    arrival. at_horizon, at_start: meaning of a time at the end or start of the file: `running` (after, or before),
    `seen` (it ended or began then), `auto`. never_ran: further states of requests that never ran. guessed: meanings
    from names alone.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    owners: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    known_at_end: tuple[str, ...] = ()
    units: Mapping[str, str] = field(default_factory=dict)
    timezone: str | None = None
    origin_s: int | None = None
    at_horizon: str = "auto"
    at_start: str = "auto"
    never_ran: tuple[str, ...] = ()
    guessed: tuple[str, ...] = ()

    def read(self) -> tuple[str, ...]:
        """All columns with a meaning."""
        listed = (getattr(self, key) for key in LISTED.values())
        return (*self.columns.values(), *(name for names in listed for name in names))

    def pairs(self) -> str:
        """One line: our name = the table's column.

        >>> ColumnMap({"arrival": "start"}, owners=("user",)).pairs()
        'arrival=start, owner=user'
        """
        entries = [*self.columns.items(), *((option, name) for option, key in LISTED.items()
                                            for name in getattr(self, key))]
        return ", ".join(f"{ours}={theirs}" for ours, theirs in entries)

    def unit_of(self, meaning: str) -> str | None:
        """The unit of plain numbers of a meaning's column, from `units` or the ending of its name; None = unknown."""
        column = self.columns[meaning]
        declared = self.units.get(column)
        if declared is not None:
            return declared
        endings = _UNIT_ENDINGS[_KIND[meaning]]
        plain = plain_name(column)
        return next((unit for ending, unit in endings.items() if plain.endswith(f"_{ending}")), None)

    def toml(self, unread: Sequence[str] = ()) -> str:
        """The map as a TOML file for the same map, with comments on changes. unread: other columns."""
        lines = ["# What each column of the table is. Edit it; `sojourn check` says what would be read.",
                 "# owners: coarsest first. known_at_end: kept, but never seen by a model."]
        lines += [f"{key} = {json.dumps(list(getattr(self, key)), ensure_ascii=False)}" for key in LISTED.values()]
        lines += [f'timezone = "{self.timezone or "UTC"}" # of times without a zone',
                  f'at_horizon = "{self.at_horizon}" # an end at the last second: running, seen (it ended) or auto',
                  f'at_start = "{self.at_start}" # a start at the first second: running (before), seen or auto']
        if self.never_ran:
            lines.append(f"never_ran = {json.dumps(list(self.never_ran), ensure_ascii=False)}")
        if self.origin_s is not None:
            lines.append(f"origin = {datetime.fromtimestamp(self.origin_s, UTC):%Y-%m-%dT%H:%M:%SZ}")
        if unread:
            lines.append(f"# not read: {', '.join(unread)}".replace("\n", " "))
        lines += ["", f"[columns] # {', '.join(SINGLE)}"]
        lines += [f"{ours} = {json.dumps(theirs, ensure_ascii=False)}" for ours, theirs in self.columns.items()]
        lines += ["", f"[units] # of plain numbers: {', '.join(TIME_UNITS)}; {', '.join(SIZE_UNITS)}; "
                      f"{', '.join(CPU_UNITS)}"]
        lines += [f"{json.dumps(column, ensure_ascii=False)} = {json.dumps(unit)}" for column, unit in
                  self.units.items()]
        return "\n".join(lines) + "\n"


def column_map(names: Sequence[str], pairs: Iterable[str] = (), file: Path | None = None,
               timezone: str | None = None) -> ColumnMap:
    """The map of a table with the columns `names`.

    pairs: `OURS=THEIRS`, which replace entries of the file. Without a file, other meanings are guessed; `OURS=` means
    no column. Columns match by their exact name, else without case, spaces and signs.

    ValueError if a pair or a key is unknown, a column is absent (with a list of columns), occurs
    twice in the table (also for a guess) or has two meanings, and without a column for the arrival.

    >>> column_map(["VM ID", "Created", "Deleted", "vCPUs", "Memory_MB", "Project"]).pairs()
    'request_id=VM ID, arrival=Created, departure=Deleted, cpu_cores=vCPUs, mem_gib=Memory_MB, owner=Project'
    >>> column_map(["start", "end"], ["arrival=begin"])
    Traceback (most recent call last):
    ValueError: the column of arrival must be one of start, end, got 'begin'
    """
    of_pairs = _of_pairs(pairs)
    base = ColumnMap() if file is None else read_map(file)
    columns = {**base.columns, **{ours: theirs[0] for ours, theirs in of_pairs.items() if ours in SINGLE}}
    lists: dict[str, tuple[str, ...]] = {key: of_pairs[option] if option in of_pairs else getattr(base, key)
                                         for option, key in LISTED.items()}
    column_of = {ours: _column_of(names, theirs, ours) for ours, theirs in columns.items() if theirs}
    listed = {key: tuple(_column_of(names, theirs, key) for theirs in theirs_of if theirs)
              for key, theirs_of in lists.items()}
    guessed: list[str] = []
    if file is None:
        guessed = _guess(names, column_of, listed, frozenset(of_pairs))
    if "arrival" not in column_of:
        twice = next((f" ({name!r} stands twice)" for name in names if names.count(name) > 1), "")
        raise ValueError(f"the column of arrival must be given (--column-map arrival=COLUMN), one of {_shown(names)}; "
                         f"got none{twice}")
    units = {_column_of(names, column, "units"): unit for column, unit in base.units.items()}
    with_unit = {column_of[ours] for ours in _KIND if ours in column_of}
    if of_pairs:  # a pair may have given the column another meaning
        units = {column: unit for column, unit in units.items() if column in with_unit}
    result = ColumnMap({ours: column_of[ours] for ours in SINGLE if ours in column_of}, **listed, units=units,
                       timezone=base.timezone if timezone is None else checked_timezone(timezone),
                       origin_s=base.origin_s, at_horizon=base.at_horizon, at_start=base.at_start,
                       never_ran=base.never_ran, guessed=tuple(guessed))
    _check_meanings(result, "" if file is None else f" (also as {file.name} says)")
    return result


def read_map(file: Path) -> ColumnMap:
    """The map in a TOML file, before a match of columns; ValueError with an unknown key or one of a wrong type."""
    document = toml_of(file)
    _refuse_unknown(file, "", document, _KEYS)
    lists = {key: _names(file, key, document.get(key, [])) for key in (*LISTED.values(), "never_ran")}
    tables: dict[str, dict[str, str]] = {}
    for key in ("columns", "units"):
        table = document.get(key, {})
        if not isinstance(table, dict) or not all(isinstance(value, str) and value for value in table.values()):
            raise ValueError(f"{file}: {key} must be a table of texts, got {table!r}")
        tables[key] = table
    _refuse_unknown(file, "columns.", tables["columns"], SINGLE)
    for key in ("at_horizon", "at_start"):
        if document.get(key, "auto") not in AT_EDGE:
            raise ValueError(f"{file}: {key} must be one of {', '.join(AT_EDGE)}, got {document[key]!r}")
    zone = document.get("timezone")
    if zone is not None and not isinstance(zone, str):
        raise ValueError(f"{file}: timezone must be a text, got {zone!r}")
    return ColumnMap(tables["columns"], **lists, units=tables["units"],
                     timezone=None if zone is None else checked_timezone(zone),
                     origin_s=_origin_s(file, document.get("origin")), at_horizon=document.get("at_horizon", "auto"),
                     at_start=document.get("at_start", "auto"))


def check_pairs(pairs: Iterable[str]) -> tuple[str, ...]:
    """The pairs; ValueError with one that is not OURS=THEIRS.

    >>> check_pairs(["arrival=start", "end=stop"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: a column must be mapped as OURS=THEIRS, OURS one of request_id, ..., known_at_end; got 'end=stop'
    """
    checked = tuple(pairs)
    _of_pairs(checked)
    return checked


def duration_named(names: Sequence[str]) -> str | None:
    """The column whose name means the time from start to end; None = none.

    >>> duration_named(["start", "Elapsed", "user"])
    'Elapsed'
    """
    endings = ("", *_UNIT_ENDINGS["time"])
    keys = {_key(each + ending) for each in _GUESSES["duration"].split() for ending in endings}
    return next((name for name in names if _key(name) in keys), None)


def is_name_of_one(column: str) -> bool:
    """Whether the column is guessed as the id only if nearly all rows have distinct names.

    >>> is_name_of_one("VM Name"), is_name_of_one("vm_id")
    (True, False)
    """
    return _key(column) in _NAMES_OF_ONE


def _guess(names: Sequence[str], column_of: dict[str, str], listed: dict[str, tuple[str, ...]],
           fixed: frozenset[str]) -> list[str]:
    """Add meanings from plain names; returns the added meanings."""
    used_names = {*column_of.values(), *(name for listed_names in listed.values() for name in listed_names)}
    free = {_key(name): name for name in reversed(names) if name and name not in used_names and names.count(name) == 1}
    guessed: list[str] = []
    ends = {"departure", "duration"}
    once = {_key(name) for name in names if names.count(name) == 1}
    twice = {_key(name): name for name in names if name and _key(name) not in once}
    for ours, plain in _GUESSES.items():
        if ours in fixed or (ours in ends and ends & (fixed | {*column_of})):
            continue
        endings = _UNIT_ENDINGS.get(_KIND.get(ours, ""), {})
        candidates = (_key(name) for each in plain.split()
                      for name in (each, *(f"{each}_{ending}" for ending in endings)))
        key = next((key for key in candidates if key in free or key in twice), None)
        if key in twice:
            raise ValueError(f"the column of {ours} must stand once in the table, got {twice[key]!r} "
                             f"{names.count(twice[key])} times (rename one, or --column-map {ours}=COLUMN)")
        if key is not None:
            column_of[ours] = free.pop(key)
            guessed.append(ours)
    for option, is_it in (("owner", None), ("category", lambda name: _key(name) in _keys(_CATEGORIES)),
                          ("known_at_end", is_end_name)):
        if option in fixed:
            continue
        if is_it is None:
            keys = [next((key for key in _keys(names_of) if key in free or key in twice), None)
                    for names_of in _OWNERS]
            again = next((key for key in keys if key in twice), None)
            if again is not None:
                raise ValueError(f"the column of owners must stand once in the table, got {twice[again]!r} "
                                 f"{names.count(twice[again])} times (rename one, or --column-map owner=COLUMN)")
            matches = tuple(free[key] for key in keys if key is not None)
        else:
            matches = tuple(sorted(filter(is_it, free.values()), key=names.index))
        if matches:
            listed[LISTED[option]] = matches
            guessed.append(option)
            for name in matches:
                del free[_key(name)]
    return guessed


def _key(name: str) -> str:
    return plain_name(name).replace("_", "")


def _keys(names: str) -> list[str]:
    return [_key(name) for name in names.split()]


def _of_pairs(pairs: Iterable[str]) -> dict[str, tuple[str, ...]]:
    columns: dict[str, tuple[str, ...]] = {}
    for pair in pairs:
        ours, sign, theirs = pair.partition("=")
        ours = _SAME.get(ours.strip(), ours.strip())
        if not sign or ours not in (*SINGLE, *LISTED):
            options = ", ".join((*SINGLE, *LISTED))
            raise ValueError(f"a column must be mapped as OURS=THEIRS, OURS one of {options}; got {pair!r}")
        if ours in SINGLE and ours in columns:
            raise ValueError(f"{ours} must be mapped once, got {columns[ours][0]!r} and {theirs!r}")
        columns[ours] = (*columns.get(ours, ()), theirs.strip())
    return columns


def _column_of(names: Sequence[str], column: str, what: str) -> str:
    exact = [name for name in names if name == column]
    matches = exact or [name for name in names if plain_name(name) == plain_name(column) and plain_name(column)]
    if not matches:
        raise ValueError(f"the column of {what} must be one of {_shown(names)}, got {column!r}")
    if len(matches) > 1:
        raise ValueError(f"the column of {what} must stand once in the table, got {column!r} {len(matches)} times")
    return matches[0]


def _shown(names: Sequence[str]) -> str:
    return ", ".join(name[:60] for name in names[:40]) + (f" and {len(names) - 40} more" if len(names) > 40 else "")


def _check_meanings(columns: ColumnMap, source: str) -> None:
    names_read = columns.read()
    twice = next((name for name in names_read if names_read.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"a column must have one meaning, got {twice!r} twice: {columns.pairs()}{source}")
    reserved = {"request_id", "arrival_s", "departure_s", "cpu_cores", "mem_gib", "gpu", "submit_s", "lifetime_s"}
    reserved |= {"requested_s"} & {*columns.columns}
    roles = [name for key in LISTED.values() for name in getattr(columns, key)]
    clash = next((name for name in roles if name in reserved), None)
    if clash is not None:
        raise ValueError(f"the column {clash!r} must be renamed in the table: its name has a meaning of its own")
    kind_of = {columns.columns[ours]: kind for ours, kind in _KIND.items() if ours in columns.columns}
    for column, unit in columns.units.items():
        units = _UNITS_OF.get(kind_of.get(column, ""), {})
        if unit not in units:
            units_text = ", ".join(units) if units else "none (its numbers have no unit)"
            raise ValueError(f"the unit of {column!r} must be one of {units_text}, got {unit!r}")


def _origin_s(file: Path, value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(f"{file}: origin must be a date such as 2026-01-01, got {value!r}") from None
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    elif isinstance(value, date):
        moment = datetime.combine(value, time(), UTC)
    else:
        raise ValueError(f"{file}: origin must be a date such as 2026-01-01, got {value!r}")
    return int(moment.timestamp())


def _names(file: Path, key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise ValueError(f"{file}: {key} must be a list of texts, got {value!r}")
    return tuple(value)


def _refuse_unknown(file: Path, where: str, keys: Mapping[str, Any], known_keys: Sequence[str]) -> None:
    unknown = next((name for name in keys if name not in known_keys), None)
    if unknown is not None:
        raise ValueError(f"{file}: a key must be one of {', '.join(known_keys)}, got {where}{unknown}")
