"""Where a trace comes from: a file with its reader, or the synthetic generator."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PARTS_ABOVE = 2_000_000
"""A synthetic trace of more requests than this is generated, kept and worked on in parts."""


@dataclass(frozen=True, slots=True)
class TraceSource:
    """All settings that decide which trace is read or made.

    file: the trace's file or folder; None = the synthetic trace. reader: a key of READERS, or `synthetic`.
    horizon_s: when observation ended, seconds on the trace's clock; None = what the reader finds in the file.
    n_requests, seed: of the generator. is_shrunk_allowed: a source that grows may hold less than at its last read.
    """

    file: Path | None
    reader: str
    horizon_s: int | None
    n_requests: int
    seed: int
    is_shrunk_allowed: bool = False

    @property
    def name(self) -> str:
        """The file's name, or `synthetic`."""
        return "synthetic" if self.file is None else self.file.name

    @property
    def is_in_parts(self) -> bool:
        """Whether the trace is too large to be held whole."""
        return self.file is None and self.n_requests > PARTS_ABOVE
