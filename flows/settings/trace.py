"""Settings of a trace: its file and reader, how a table's columns are read, where the training window begins.

A trace comes from a file with its reader, or from the synthetic generator.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from sojourn.flows.settings.store import Group, RetentionSettings

if TYPE_CHECKING:
    from sojourn.features.trace import Trace

PARTS_ABOVE = 2_000_000
"""A synthetic trace of more requests than this is generated, kept and worked on in parts."""
SYNTHETIC = "synthetic"
Start = Literal["cold", "warm"]
"""The whole trace by its recipe, from an empty pool; or its later part, with what was running by then."""
LOCAL = re.compile(r"local(?::([1-9]\d*))?")
"""A Dask cluster of this machine, with the number of its processes."""
_BY_NAME = {".swf": "swf", ".csv": "csv", ".parquet": "csv", ".json": "kubernetes", ".toml": "sql"}
"""Reader by the end of a file's name."""
_FORMS = "a number of days or hours before the trace's end (90d, 12h) or an ISO date (2026-09-01)"


class ReadSettings(Group):
    """How a trace's file is read."""

    trace: Path | None = None
    """The trace's file or folder; default: the synthetic trace."""
    reader: str = SYNTHETIC
    """How to read the trace: {readers}; default: by the file's name."""
    horizon_s: int | None = Field(None, ge=1)
    """When observation ended: seconds after the trace's begin, or a Unix second if it has dates; default: found in the
    file."""
    column_map: tuple[str, ...] = ()
    """Of a table (reader csv): what a column is, as OURS=THEIRS: id, arrival, departure, duration, submit, status,
    cpu_cores, mem_gib, gpu, requested_s, owner, category, number, resource, known_at_end; default: guessed by plain
    names."""
    map_file: Path | None = None
    """Of a table: TOML file that says what its columns are; default: TABLE.toml beside it, if there is one."""
    timezone: str | None = None
    """Of a table, or of Slurm's accounting: IANA name, for times without a zone; default: UTC."""

    @model_validator(mode="before")
    @classmethod
    def _reader_by_name(cls, given: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(given.get("trace"), str | Path) or given["trace"] == "" or given.get("reader") is not None:
            return given
        return {**given, "reader": reader_of(Path(given["trace"]))}

    @field_validator("column_map", "map_file", "timezone")
    @classmethod
    def _columns_of_a_table(cls, value: Any, info: ValidationInfo) -> Any:
        if not value:
            return value
        reader = info.data.get("reader", SYNTHETIC)
        is_zone = info.field_name == "timezone"
        if is_zone and not has_option(reader, "timezone"):
            raise ValueError(f"{info.field_name} must be given with a reader of times without a zone, such as csv or "
                             f"slurm, got reader {reader!r}")
        if not is_zone and not has_option(reader, "columns"):
            raise ValueError(f"{info.field_name} must be given with a reader that maps columns, such as csv, got "
                             f"reader {reader!r}")
        if info.field_name == "column_map":
            from sojourn.features.readers import check_pairs

            check_pairs(value)
        elif info.field_name == "map_file" and not value.is_file():
            raise ValueError(f"map_file must be a TOML file, got {str(value)!r}")
        elif is_zone:
            from sojourn.features.readers import checked_timezone

            checked_timezone(value)
        return value

    @property
    def columns(self) -> ColumnOptions:
        """How a table's columns are read."""
        return ColumnOptions(self.column_map, self.map_file, self.timezone)

    @property
    def reading(self) -> dict[str, Any]:
        """The keywords of the reader."""
        return {"horizon_s": self.horizon_s, **self.columns.keywords()}

    @property
    def own_recipe(self) -> str:
        """The simulator's recipe that suits the reader's traces.

        >>> ReadSettings(trace="a", reader="openb").own_recipe, ReadSettings(trace="a", reader="swf").own_recipe
        ('openb', 'trace')
        """
        from sojourn.features.readers import READERS

        return SYNTHETIC if self.trace is None else READERS[self.reader].recipe


class TraceSettings(ReadSettings, RetentionSettings):
    """A store and a trace."""

    @field_validator("reader")
    @classmethod
    def _known_reader(cls, value: str, info: ValidationInfo) -> str:
        if value != SYNTHETIC:  # the default must not load what reads traces: `pull` needs none of it
            known = cls._readers()
            if value not in known:
                raise ValueError(f"reader must be one of {', '.join((SYNTHETIC, *known))}, got {value!r}")
        trace = info.data.get("trace")
        if value == SYNTHETIC and trace is not None:
            raise ValueError(f"reader must be one of files with a trace, got {SYNTHETIC!r} with {str(trace)!r}")
        if value != SYNTHETIC and trace is None:
            raise ValueError(f"trace must be given with a reader: give the FILE, got reader {value!r} without one")
        return value

    @classmethod
    def _readers(cls) -> Collection[str]:
        """Names of the readers of files."""
        from sojourn.features.readers import READERS

        return READERS

    @field_validator("horizon_s")
    @classmethod
    def _horizon_of_a_file(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is not None and info.data.get("trace") is None:
            raise ValueError(f"horizon_s must be given with a trace file, got {value!r} for the synthetic trace")
        return value


class SharedSettings(TraceSettings):
    """Of work that can be shared out to a cluster."""

    dask: str | None = None
    """A Dask cluster for the work that can be shared out: `local`, `local:N` processes here, or a scheduler's address
    (`tcp://HOST:PORT`) whose workers see the store under the same path."""

    @field_validator("dask")
    @classmethod
    def _possible_dask(cls, value: str | None) -> str | None:
        return possible_dask(value) if value else None


@dataclass(frozen=True, slots=True)
class ColumnOptions:
    """How the columns of a table are read, for readers that map columns, and in which zone its times are.

    pairs: `OURS=THEIRS`. file: TOML file that says what the columns are; None = the one beside the table, if there is
    one. timezone: IANA name, of times without a zone; None = UTC, or as the file says; also for slurm.
    """

    pairs: tuple[str, ...] = ()
    file: Path | None = None
    timezone: str | None = None

    def keywords(self) -> dict[str, Any]:
        """The reader's keywords, of what is given.

        >>> ColumnOptions(("arrival=start",)).keywords()
        {'columns': ('arrival=start',)}
        """
        found = {"columns": self.pairs, "columns_file": self.file, "timezone": self.timezone}
        return {name: value for name, value in found.items() if value}

    def files(self, table: Path) -> list[Path]:
        """The files besides the table that decide how it is read."""
        if self.file is not None:
            return [self.file]
        beside = table.with_name(f"{table.name}.toml")
        return [beside] if beside.is_file() else []


@dataclass(frozen=True, slots=True)
class LaterFile:
    """A later file, on which what is fitted on a trace is judged; see `features.later_file`.

    offset_s: when it begins on the trace's clock; None if both files have dates. is_overlap_allowed: more
    than a few of its requests may have begun before the trace's end.
    """

    file: Path
    reader: str
    offset_s: int | None = None
    is_overlap_allowed: bool = False
    columns: ColumnOptions = field(default_factory=ColumnOptions)

    @property
    def source(self) -> TraceSource:
        """The file as a trace of its own."""
        return TraceSource(self.file, self.reader, None, 0, 0, columns=self.columns)


@dataclass(frozen=True, slots=True)
class TraceSource:
    """All settings that decide which trace is read or made.

    file: the trace's file or folder; None = the synthetic trace. reader: a key of READERS, or `synthetic`.
    horizon_s: when observation ended, see `read_trace`; None = what the reader finds in the file.
    n_requests, seed: of the generator. is_shrunk_allowed: a source that grows may hold less than at its last read.
    columns: how a table's columns are read. later: the file that judges; None = the trace's own later part does.
    """

    file: Path | None
    reader: str
    horizon_s: int | None
    n_requests: int
    seed: int
    is_shrunk_allowed: bool = False
    columns: ColumnOptions = field(default_factory=ColumnOptions)
    later: LaterFile | None = None

    @property
    def name(self) -> str:
        """The file's name and that of the later one, or `synthetic`."""
        own = "synthetic" if self.file is None else self.file.name
        return own if self.later is None else f"{own}+{self.later.file.name}"

    @property
    def alone(self) -> TraceSource:
        """The trace without the later file."""
        return replace(self, later=None)

    @property
    def is_in_parts(self) -> bool:
        """Whether the trace is too large to be held whole."""
        return self.file is None and self.n_requests > PARTS_ABOVE


def reader_of(path: Path) -> str:
    """The reader that a file's name says; ValueError if it says none.

    A folder that Sojourn wrote is `parquet`, one that holds JSON `kubernetes`.

    >>> reader_of(Path("a/jobs.SWF.gz")), reader_of(Path("pods.json")), reader_of(Path("vms.parquet"))
    ('swf', 'kubernetes', 'csv')
    >>> reader_of(Path("sacct.txt"))
    Traceback (most recent call last):
    ValueError: reader must be given with --reader NAME for the trace 'sacct.txt' (an ending .swf, .csv, .parquet, \
.json or .toml says it), got none
    """
    name = re.sub(r"\.(?:gz|xz|bz2|zst)$", "", path.name.lower())
    found = _BY_NAME.get(Path(name).suffix)
    with suppress(OSError, ValueError):  # a name that is too long or holds a NUL; the reader refuses it
        if path.is_dir():
            is_ours, is_json = (path / "requests.parquet").is_file(), any(path.glob("*.json*"))
            found = "parquet" if is_ours else "kubernetes" if is_json else None
    if found is None:
        *ends, last = _BY_NAME
        raise ValueError(f"reader must be given with --reader NAME for the trace {str(path)[-80:]!r} (an ending "
                         f"{', '.join(ends)} or {last} says it), got none")
    return found


def has_option(reader: str, option: str) -> bool:
    """Whether a reader takes an option: `columns`, or `timezone` of times that have none.

    >>> has_option("csv", "columns"), has_option("slurm", "columns"), has_option("slurm", "timezone")
    (True, False, True)
    """
    from sojourn.features.readers import READERS

    return reader in READERS and option in READERS[reader].options


@dataclass(frozen=True, slots=True)
class Since:
    """A setting as it was given. back_s: before the trace's end; unix_s: a date, UTC. One of them is None.

    >>> Since.parse("12h").back_s, Since.parse("2026-09-01").unix_s
    (43200, 1788220800)
    """

    text: str
    back_s: int | None
    unix_s: int | None

    @classmethod
    def parse(cls, text: str) -> Since:
        """ValueError where the text is neither."""
        from sojourn.features.readers import span_s

        try:
            return cls(text, span_s(text, "since"), None)
        except ValueError:
            pass
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(f"since must be {_FORMS}, got {text!r}") from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return cls(text, None, int(moment.timestamp()))


def since_s(text: str | None, trace: Trace) -> int:
    """The second of the trace's clock at which the training window begins, at or after the trace's begin.

    None: 0, which is before all of it.

    Of a trace of two files, its end is the first one's.

    ValueError where a date is given for a trace without a calendar, or the window would begin at or after its end.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"request_id": [1], "arrival_s": [0], "departure_s": [9], "cpu_cores": [2.0],
    ...                       "mem_gib": [8.0]})
    >>> from sojourn.features.trace import Trace
    >>> since_s("1d", Trace(table, 10 * 86_400))
    777600
    """
    if text is None:
        return 0
    from sojourn.features.later_file import TEST_FROM

    since, end_s = Since.parse(text), int(trace.meta.get(TEST_FROM, trace.horizon_s))
    if since.back_s is not None:
        return max(end_s - since.back_s, trace.begin_s)
    if not trace.is_dated or since.unix_s is None:
        raise ValueError(f"since must be a number of days or hours (90d, 12h), for the trace has no calendar, got "
                         f"{text!r}")
    if since.unix_s >= end_s:
        end = datetime.fromtimestamp(end_s, UTC)
        raise ValueError(f"since must lie before the trace's end, {end:%Y-%m-%d %H:%M} UTC, got {text!r}")
    return max(since.unix_s, trace.begin_s)


def possible_dask(text: str) -> str:
    """The text, which names a cluster; ValueError else.

    >>> possible_dask("local:2"), possible_dask("tcp://10.0.0.1:8786")
    ('local:2', 'tcp://10.0.0.1:8786')
    >>> possible_dask("yes")
    Traceback (most recent call last):
    ValueError: dask must be local, local:N or the address of a scheduler such as tcp://HOST:PORT, got 'yes'
    """
    if "@" in text:  # Dask knows no users; it would log and show what stands there
        raise ValueError("dask must be the address of a scheduler without a user and a password, got "
                         f"{len(text)} characters with an @")
    if not (LOCAL.fullmatch(text) or re.fullmatch(r"[a-z]+://\S+", text)):
        raise ValueError("dask must be local, local:N or the address of a scheduler such as tcp://HOST:PORT, "
                         f"got {text!r}")
    return text
