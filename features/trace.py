"""The one input format: three pandas tables, a horizon, and declared attribute roles."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sojourn.features.frame_requests import frame_requests
from sojourn.publishing import publish_folder

DAY_S = 86_400
FORMAT_VERSION = 2
"""2: times of a trace with dates are Unix seconds (1: seconds since its begin)."""
RESOURCES = ("cpu_cores", "mem_gib", "gpu")
"""Resource columns with fixed names, in order: cores, GiB, whole or fractional GPUs."""
SEEN_FROM, SEEN_TO = "seen_from_s", "seen_to_s"
"""Columns of requests that were not observed from their start, or not to the horizon (Int64,
missing = observed): the second from which a request is known and may be predicted, and the second
at which it left observation, still running."""
TIMES = ("arrival_s", "departure_s", "submit_s", SEEN_FROM, SEEN_TO)
"""Columns of requests that are times."""
TOLD_TIMES = ("creation_s", "ended_after_s", "ended_by_s")
"""More columns of times from readers, if they have no role."""
META_TIMES = ("test_from_s", "later_from_s")
"""Keys of `meta` that are times."""
_REQUIRED = ("request_id", "arrival_s", "departure_s", "cpu_cores", "mem_gib")


@dataclass(frozen=True, slots=True)
class Roles:
    """The role of each attribute column of `requests`; declared by the reader, never guessed.

    owners: columns with a history, coarsest first (subscription, user, app). categories: columns whose values are names
    (zone, priority class). numbers: columns whose values are quantities known at creation (requested time). resources:
    columns of further resources that a request takes from its host (disk_gib, network_gbps); the hosts' table has their
    capacity.
    """

    owners: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()

    def columns(self) -> tuple[str, ...]:
        """All declared attribute columns, owners first."""
        return self.owners + self.categories + self.numbers


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests, optional hosts and optional usage, between `begin_s` and `horizon_s`.

    All times are whole seconds on one clock: Unix seconds if the trace has dates (`meta["start_unix_s"]`, the second at
    which observation begins), else a clock whose 0 is the begin.

    requests: one row per request, ordered by arrival (unknown starts first), with `request_id` (str
        or int64, unique), `arrival_s` and `departure_s` (Int64; without a departure the request
        runs at the horizon, without an arrival it ran at the begin with unknown start, with an
        arrival before the begin it ran then), `cpu_cores`, `mem_gib`, optional `gpu` (float64, >=
        0), and the columns in `roles`. A trace of two files also has SEEN_FROM and SEEN_TO.
    hosts: `host_id`, `cpu_cores`, `mem_gib`, optional `gpu` and further resources; or None.
    usage: `request_id`, `time_s`, `cpu_frac`, optional `mem_frac`; or None.
    horizon_s: the trace's end.
    meta: source, licence, `start_unix_s` if the trace has dates, and every repair made.

    >>> table = pd.DataFrame({"request_id": [1, 2], "arrival_s": [0, 60], "departure_s": [30, None],
    ...                       "cpu_cores": [2.0, 4.0], "mem_gib": [8.0, 16.0], "user": ["a", "b"]})
    >>> trace = Trace(table, horizon_s=100, roles=Roles(owners=("user",)))
    >>> trace.lifetime_s().tolist(), trace.is_event().tolist()
    ([30, 40], [True, False])
    """

    requests: pd.DataFrame
    horizon_s: int
    roles: Roles = field(default_factory=Roles)
    hosts: pd.DataFrame | None = None
    usage: pd.DataFrame | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        start_unix_s = self.meta.get("start_unix_s")
        if start_unix_s is not None and (isinstance(start_unix_s, bool) or not isinstance(start_unix_s, int)):
            raise ValueError(f"meta's start_unix_s must be a whole number of seconds, got {start_unix_s!r}")
        object.__setattr__(self, "requests", _checked_requests(self.requests, self.roles, self.begin_s, self.horizon_s))
        if self.hosts is not None:
            object.__setattr__(self, "hosts", _checked_hosts(self.hosts, self.roles))

    def __len__(self) -> int:
        return len(self.requests)

    @property
    def resources(self) -> tuple[str, ...]:
        """The resource columns of the requests, those declared in `roles` last."""
        return (*(name for name in RESOURCES if name in self.requests), *self.roles.resources)

    @property
    def is_dated(self) -> bool:
        """True if the times are Unix seconds."""
        return self.meta.get("start_unix_s") is not None

    @property
    def begin_s(self) -> int:
        """The start of observation: a Unix second if the trace has dates, else 0."""
        return int(self.meta["start_unix_s"]) if self.is_dated else 0

    @property
    def span_s(self) -> int:
        """Seconds from the begin to the horizon."""
        return self.horizon_s - self.begin_s

    def start_s(self) -> np.ndarray:
        """Arrival of each request, int64 seconds; an unknown start counts as the begin."""
        return self.requests["arrival_s"].fillna(self.begin_s).to_numpy(np.int64)

    def end_s(self) -> np.ndarray:
        """Departure of each request, int64 seconds; the end of its observation if it still runs."""
        end_s = self.requests["departure_s"]
        if SEEN_TO in self.requests:
            end_s = end_s.fillna(self.requests[SEEN_TO])
        return end_s.fillna(self.horizon_s).to_numpy(np.int64)

    def is_lost(self) -> np.ndarray:
        """True where a request left observation before the horizon, still running, bool, shape (n,)."""
        if SEEN_TO not in self.requests:
            return np.zeros(len(self), bool)
        return (self.requests["departure_s"].isna() & self.requests[SEEN_TO].notna()).to_numpy(bool)

    def lifetime_s(self) -> np.ndarray:
        """Observed time from start to departure or horizon, int64 seconds, shape (n,)."""
        return self.end_s() - self.start_s()

    def is_event(self) -> np.ndarray:
        """True where the departure was observed, bool, shape (n,)."""
        return self.requests["departure_s"].notna().to_numpy(bool)

    def is_start_known(self) -> np.ndarray:
        """True where the arrival is known, bool, shape (n,)."""
        return self.requests["arrival_s"].notna().to_numpy(bool)

    def select(self, is_kept: np.ndarray) -> Trace:
        """The same trace with only the requests where `is_kept` (bool, shape (n,)) is True."""
        return Trace(self.requests.loc[is_kept].reset_index(drop=True), self.horizon_s, self.roles,
                     self.hosts, self.usage, self.meta)

    def moved(self, by_s: int, start_unix_s: int | None) -> Trace:
        """The same trace with `by_s` seconds added to every time. start_unix_s: of the new clock; None = no dates.

        >>> table = pd.DataFrame({"request_id": [1], "arrival_s": [5], "departure_s": [9], "cpu_cores": [2.0],
        ...                       "mem_gib": [8.0]})
        >>> dated = Trace(table, 10).moved(1_700_000_000, 1_700_000_000)
        >>> dated.requests["arrival_s"].tolist(), dated.begin_s, dated.span_s
        ([1700000005], 1700000000, 10)
        """
        requests = moved_times(self.requests, by_s, self.roles)
        usage = None if self.usage is None else self.usage.assign(time_s=self.usage["time_s"] + by_s)
        meta = {name: value + by_s if name in META_TIMES and value is not None else value
                for name, value in self.meta.items() if name != "start_unix_s"}
        if start_unix_s is not None:
            meta["start_unix_s"] = start_unix_s
        return Trace(requests, self.horizon_s + by_s, self.roles, self.hosts, usage, meta)

    def since_begin(self) -> Trace:
        """The same trace on a clock whose 0 is the begin, as in a replay; itself without dates."""
        return self.moved(-self.begin_s, None) if self.is_dated else self

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, *, arrival: str, departure: str | None = None, duration: str | None = None,
                   request_id: str | None = None, cpu_cores: str | float = 1.0, mem_gib: str | float = 0.0,
                   gpu: str | float | None = None, owners: Sequence[str] = (), categories: Sequence[str] = (),
                   numbers: Sequence[str] = (), resources: Sequence[str] = (), known_at_end: Sequence[str] = (),
                   horizon: Any = None, source: str = "frame") -> Trace:
        """The trace of a DataFrame with a row for each request.

        arrival, departure: columns of datetimes (UTC without a zone), of Unix stamps (s, ms, us or ns, by their size)
        or of seconds on another clock; duration, a column of timedeltas or seconds, may replace the departure. Without
        an end, a request runs at `horizon` (a datetime or a number, as the arrivals; default: the last time in the
        frame). request_id: default: the index. cpu_cores, mem_gib, gpu: a column, or one number for all. known_at_end:
        columns that are kept without a role.

        Raises ValueError with the column, the rule, the value and the row. A UserWarning names a
        column with a role whose name suggests that it is known only at a request's end.

        >>> frame = pd.DataFrame({"created": pd.to_datetime(["2026-11-01T00:00Z", "2026-11-01T01:00Z"]),
        ...                       "deleted": pd.to_datetime(["2026-11-01T02:00Z", None]), "user": ["ann", "bob"]})
        >>> trace = Trace.from_frame(frame, arrival="created", departure="deleted", owners=["user"])
        >>> trace.lifetime_s().tolist(), trace.is_event().tolist(), trace.begin_s, trace.horizon_s
        ([7200, 3600], [True, False], 1793491200, 1793498400)
        """
        roles = Roles(tuple(owners), tuple(categories), tuple(numbers), tuple(resources))
        amounts = {"cpu_cores": cpu_cores, "mem_gib": mem_gib, **({} if gpu is None else {"gpu": gpu}),
                   **{name: name for name in resources}}
        requests, horizon_s, start_unix_s = frame_requests(
            frame, arrival=arrival, departure=departure, duration=duration, request_id=request_id, amounts=amounts,
            kept=(*roles.columns(), *known_at_end), roles=roles.columns(), horizon=horizon)
        trace = cls(requests, horizon_s, roles, meta={"source": source, "known_at_end": list(known_at_end)})
        return trace if start_unix_s is None else trace.moved(start_unix_s, start_unix_s)

    def save(self, folder: str | Path) -> Path:
        """Write the trace as a folder of Parquet files and `trace.json`; replaces a whole older trace.

        Raises ValueError if the folder holds other files.
        """
        target = Path(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            for name in ("requests", "hosts", "usage"):
                table = getattr(self, name)
                if table is not None:
                    table.to_parquet(fresh / f"{name}.parquet", index=False)
            header = {
                "format_version": FORMAT_VERSION,
                "horizon_s": int(self.horizon_s),
                "roles": {"owners": self.roles.owners, "categories": self.roles.categories,
                          "numbers": self.roles.numbers, "resources": self.roles.resources},
                "meta": dict(self.meta),
            }
            (fresh / "trace.json").write_text(json.dumps(header, indent=2, sort_keys=True) + "\n")
            publish_folder(fresh, target, "trace.json")
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        return target

    @classmethod
    def load(cls, folder: str | Path, *, with_usage: bool = True) -> Trace:
        """Read a folder of `save`; with_usage=False skips the table of usage.

        Raises FileNotFoundError if `trace.json` is missing, and ValueError if it has another format.
        """
        source = Path(folder)
        path = source / "trace.json"
        if not path.is_file():
            raise FileNotFoundError(f"trace folder must hold trace.json, got {str(source)!r}")
        try:
            header = json.loads(path.read_text())
            version = header["format_version"]
        except (json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} must be a trace header, got {error}") from error
        if version != FORMAT_VERSION:
            raise ValueError(f"{path}: format_version must be {FORMAT_VERSION}, got {version!r}")
        tables = {name: _read_table(source / f"{name}.parquet") if with_usage or name != "usage" else None
                  for name in ("requests", "hosts", "usage")}
        if tables["requests"] is None:
            raise FileNotFoundError(f"trace folder must hold requests.parquet, got {str(source)!r}")
        roles = Roles(**{key: tuple(value) for key, value in header["roles"].items()})
        return cls(tables["requests"], int(header["horizon_s"]), roles, tables["hosts"], tables["usage"],
                   header["meta"])


def moved_times(requests: pd.DataFrame, by_s: int, roles: Roles) -> pd.DataFrame:
    """The table of a trace's requests with `by_s` seconds added to every time."""
    optional_times = [name for name in TOLD_TIMES if name not in roles.columns()]
    return requests.assign(**{name: requests[name] + by_s for name in (*TIMES, *optional_times) if name in requests})


def _read_table(path: Path) -> pd.DataFrame | None:
    if not path.is_file():
        return None
    try:
        return pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} must be a Parquet file, got {error}") from error


def _checked_requests(table: pd.DataFrame, roles: Roles, begin_s: int, horizon_s: int) -> pd.DataFrame:
    missing = [name for name in (*_REQUIRED, *roles.columns(), *roles.resources) if name not in table]
    if missing:
        raise ValueError(f"requests must have the columns {', '.join(missing)}; got {', '.join(map(str, table))}")
    twice = [name for name in roles.resources if name in (*RESOURCES, *roles.columns())]
    if twice:
        raise ValueError(f"roles must declare a resource once and as nothing else, got {twice[0]!r}")
    if horizon_s <= begin_s:
        raise ValueError(f"horizon_s, the end of observation in seconds, must be above {_begin(begin_s)}, got "
                         f"{horizon_s!r}")
    checked = table.copy(deep=False)
    for name in ("arrival_s", "departure_s"):
        checked[name] = checked[name].astype("Int64")
    for name in (*RESOURCES, *roles.resources):
        if name in checked:
            checked[name] = checked[name].astype(np.float64)
            values = checked[name].to_numpy()
            _refuse(~np.isfinite(values) | (values < 0), checked, name, "finite and >= 0")
    identifiers = checked["request_id"]
    if identifiers.isna().any() or identifiers.duplicated().any():
        bad = identifiers[identifiers.isna() | identifiers.duplicated()].iloc[0]
        raise ValueError(f"request_id must be present and unique, got {bad!r}")
    start = checked["arrival_s"].fillna(begin_s).to_numpy(np.int64)
    end = checked["departure_s"].fillna(horizon_s).to_numpy(np.int64)
    _refuse(end < start, checked, "departure_s", "at or after arrival_s")
    if (end > horizon_s).any():
        row = int(np.argmax(end > horizon_s))
        name = checked["request_id"].tolist()[row]
        raise ValueError("horizon_s must be the end of observation in seconds, at or after every departure_s, got "
                         f"{horizon_s!r}; departure_s is {int(end[row])} (request {name!r})")
    _refuse(end < begin_s, checked, "departure_s", f"at or after {_begin(begin_s)}")
    unknown_first = np.where(checked["arrival_s"].isna(), np.iinfo(np.int64).min, start)
    if (unknown_first[1:] < unknown_first[:-1]).any():  # a difference might overflow
        checked = checked.iloc[np.argsort(unknown_first, kind="stable")]
    return checked.reset_index(drop=True)


def _begin(begin_s: int) -> str:
    return "0" if begin_s == 0 else f"{begin_s}, the Unix second at which the trace begins"


def _checked_hosts(table: pd.DataFrame, roles: Roles) -> pd.DataFrame:
    missing = [name for name in ("host_id", "cpu_cores", "mem_gib") if name not in table]
    if missing:
        raise ValueError(f"hosts must have the columns {', '.join(missing)}; got {', '.join(map(str, table))}")
    checked = table.copy(deep=False)
    for name in (*RESOURCES, *roles.resources):
        if name in checked:
            checked[name] = checked[name].astype(np.float64)
            values = checked[name].to_numpy()
            is_bad = ~np.isfinite(values) | (values < 0)
            if is_bad.any():
                row = int(np.flatnonzero(is_bad)[0])
                raise ValueError(f"host {name} must be finite and >= 0, got {values[row]!r} in row {row}")
    if checked["host_id"].duplicated().any():
        bad = checked["host_id"][checked["host_id"].duplicated()].iloc[0]
        raise ValueError(f"host_id must be unique, got {bad!r} twice")
    return checked.reset_index(drop=True)


def _refuse(is_bad: np.ndarray, table: pd.DataFrame, name: str, rule: str) -> None:
    if is_bad.any():
        row = int(np.flatnonzero(is_bad)[0])
        value, request = (table[column].tolist()[row] for column in (name, "request_id"))
        raise ValueError(f"{name} must be {rule}, got {value!r} (request {request!r})")
