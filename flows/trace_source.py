"""Where a trace comes from: a file with its reader, or the synthetic generator."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

PARTS_ABOVE = 2_000_000
"""A synthetic trace of more requests than this is generated, kept and worked on in parts."""


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
