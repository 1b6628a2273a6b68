"""Rows of Nova's table `instances` as requests: which VMs ran, when they ended, and as what they began."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger
from sojourn.features.readers._cells import Cells, is_missing, numbers
from sojourn.features.readers._delimited_rows import delimited_rows
from sojourn.features.readers._stamps import StampForm, stamp_form, stamps_s
from sojourn.features.readers._text_rows import TextRows

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
    """What a dump's tables say together, and what is counted on the way.

    flavors: by the id that `instance_type_id` names. first_flavor: VM -> the id that it had before its first resize.
    domain_of: of projects. n_moved: VMs launched again an hour or more after they were made. n_restored: VMs that got
    the sizes of their first flavor. forms: of the columns of times.
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
        for known in _STATES:
            rows.refuse(f"never ran ({known}, not launched)", ~is_launched & (state == known))
        rows.refuse("never ran (not launched)", ~is_launched)
        flags = [_DELETED.get(cell.casefold(), cell.isdigit() or None) for cell in rows.text("deleted")]
        rows.refuse("deleted must be 0 or a number", np.array([flag is None for flag in flags], bool), "deleted")
        is_deleted = np.array([flag is True for flag in flags], bool)
        ended = terminated.values
        ended = np.where(np.isnan(ended) & is_deleted, deleted_at.values, ended)
        rows.refuse("deleted without a time", np.isnan(ended) & (is_deleted | (state == "deleted")))
        rows.refuse("end before created_at", ended < created.values)
        vcpus, memory_mb = self._size(rows, "vcpus"), self._size(rows, "memory_mb")
        disk_gib = self._size(rows, "root_gb") + self._size(rows, "ephemeral_gb")
        ids = rows.text("uuid")
        rows.refuse("uuid missing", is_missing(ids), "uuid")
        rows.refuse_duplicates("uuid twice", ids, self.seen)
        kept = rows.is_kept
        self.n_moved += int((launched.values > created.values + _MOVED_S)[kept].sum())
        self.states.update(np.where(np.isnan(ended), state, "")[kept].tolist())
        found = pd.DataFrame({
            "line": rows.line[kept],
            "file": rows.file,
            "request_id": pd.Series(ids[kept], dtype="str"),
            "arrival_s": np.floor(created.values[kept]),
            "departure_s": np.floor(ended[kept]),
            "last_s": np.floor(np.fmax.reduce([values[kept] for values in (
                created.values, ended, launched.values, updated.values)])),
            "cpu_cores": vcpus[kept], "mem_gib": memory_mb[kept] / 1024.0, "disk_gib": disk_gib[kept],
            **{name: pd.Series(values[kept], dtype="str") for name, values in names.items()},
        })
        if self.domain_of and "project_id" in found:
            found["domain_id"] = found["project_id"].map(self.domain_of).fillna("missing").astype("str")
        return self._as_they_began(found, rows)

    def _as_they_began(self, found: pd.DataFrame, rows: TextRows) -> pd.DataFrame:
        """With the flavor that each VM was made with, as far as the dump tells: its row has that of the last resize."""
        if not self.flavors:
            return found
        flavor_ids = rows.text("instance_type_id")[rows.is_kept] if "instance_type_id" in rows.names else np.full(
            len(found), "", object)
        first = found["request_id"].map(self.first_flavor).to_numpy(object)
        is_resized = np.array([one in self.flavors for one in first], bool)
        sizes = found[["cpu_cores", "mem_gib", "disk_gib"]].to_numpy(np.float64, copy=True)
        for idx in np.flatnonzero(is_resized):
            flavor = self.flavors[first[idx]]
            sizes[idx] = flavor.vcpus, flavor.mem_gib, flavor.disk_gib
        self.n_restored += int(is_resized.sum())
        ids = np.where(is_resized, first, flavor_ids)
        names = [self.flavors[one].name if one in self.flavors else "missing" for one in ids]
        return found.assign(cpu_cores=sizes[:, 0], mem_gib=sizes[:, 1], disk_gib=sizes[:, 2],
                            flavor=pd.Series(names, dtype="str", index=found.index))

    def _times(self, rows: TextRows, name: str, timezone: str | None) -> Cells:
        """A column of times; Nova writes UTC without saying so."""
        text = rows.text(name)
        if name not in self.forms:
            form = stamp_form(name, text)
            if form is not None:
                if not form.is_dated:
                    raise ValueError(f"{name} must be dates, got {str(text[~is_missing(text)][0])[:60]!r}")
                self.forms[name] = form
        if name not in self.forms:
            return Cells(np.full(len(text), np.nan), np.ones(len(text), bool), np.zeros(len(text), bool))
        found = stamps_s(text, self.forms[name], timezone)
        rows.refuse(f"{name} must be a time", found.is_bad, name)
        return found

    @staticmethod
    def _size(rows: TextRows, name: str) -> np.ndarray:
        if name not in rows.names:
            return np.zeros(len(rows.raw))
        found = numbers(rows.text(name))
        rows.refuse(f"{name} must be a number", found.is_bad, name)
        rows.refuse(f"{name} negative or above {_MAX_SIZE:g}", (found.values < 0) | (found.values > _MAX_SIZE), name)
        rows.repair(f"{name} missing: 0 taken", found.is_missing)
        return np.nan_to_num(found.values)


def read_flavors(file: Path | None) -> dict[str, Flavor]:
    """Flavors by id, of a dump of the table `flavors`."""
    found = {}
    for rows in _table(file, ("id", "name", "vcpus", "memory_mb")):
        sizes = [numbers(rows.text(name)).values if name in rows.names else np.zeros(len(rows.raw))
                 for name in ("vcpus", "memory_mb", "root_gb", "ephemeral_gb")]
        is_good = ~np.isnan(sizes[0]) & ~np.isnan(sizes[1])
        ids, names = rows.text("id"), rows.text("name")
        for idx in np.flatnonzero(is_good):
            vcpus, memory_mb, root, ephemeral = (float(np.nan_to_num(size[idx])) for size in sizes)
            found[str(ids[idx])] = Flavor(str(names[idx]), vcpus, memory_mb / 1024.0, root + ephemeral)
    return found


def read_first_flavors(file: Path | None) -> dict[str, str]:
    """VM -> id of the flavor before its first resize, of a dump of the table `migrations`."""
    first: dict[str, tuple[str, str]] = {}
    for rows in _table(file, ("instance_uuid", "old_instance_type_id", "new_instance_type_id", "created_at")):
        uuids, old, new, made = (rows.text(name) for name in (
            "instance_uuid", "old_instance_type_id", "new_instance_type_id", "created_at"))
        for vm, before, after, at in zip(uuids, old, new, made, strict=True):
            if before != after and before.isdigit() and (vm not in first or at < first[vm][0]):
                first[vm] = (at, before)
    return {vm: before for vm, (_, before) in first.items()}


def read_domains(file: Path | None) -> dict[str, str]:
    """Project -> domain, of a dump of Keystone's table `project`."""
    found: dict[str, str] = {}
    for rows in _table(file, ("id", "domain_id")):
        found |= dict(zip(rows.text("id").tolist(), rows.text("domain_id").tolist(), strict=True))
    return found


def _table(file: Path | None, needed: tuple[str, ...]) -> list[TextRows]:
    if file is None:
        return []
    blocks = list(delimited_rows(file, ReadLedger()))
    check_names(file, blocks[0].names, needed)
    return blocks


def check_names(file: Path, names: Sequence[str], needed: tuple[str, ...]) -> None:
    """ValueError where a table lacks a column, or has it twice."""
    given = list(names)
    twice = [name for name in needed if given.count(name) > 1]
    if twice:
        raise ValueError(f"{file}: line 1 must have each column once, got {twice[0]!r} twice")
    lacking = [name for name in needed if name not in given]
    if lacking:
        raise ValueError(f"{file}: line 1 must have the columns {', '.join(needed)}, got none of "
                         f"{', '.join(lacking)} in {', '.join(given)[:160]!r}")


def _names(rows: TextRows, name: str) -> np.ndarray:
    text = rows.text(name)
    return np.where(np.isin(np.char.lower(text.astype(str)), list(_NONE)), "missing", text)
