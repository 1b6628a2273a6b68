"""The trace that a configuration names, made or read."""

from __future__ import annotations

from pathlib import Path

from sojourn.features.later_file import with_later
from sojourn.features.read_report import ReadReport
from sojourn.features.readers import READERS, KeptParts, read_trace
from sojourn.features.synthetic import synthesize
from sojourn.features.trace import Trace
from sojourn.flows.settings.trace import LaterFile, TraceSource
from sojourn.flows.store.code_version import source_hash

ROOMS = ("features", "serving", "flows/stages/configured_trace.py")
"""What decides a trace."""


def configured_trace(source: TraceSource, kept: Path | None = None) -> tuple[Trace, ReadReport | None]:
    """The trace, and what was read of its files; None where it is generated.

    kept: file for the parts of a source that grows, of which only what is new or changed is then read. With a later
    file the trace is that of both.
    """
    if source.later is not None:
        return _of_two_files(source, source.later, kept)
    if source.file is None:
        return synthesize(source.n_requests, seed=source.seed), None
    if kept is not None and READERS[source.reader].is_growing:
        return read_trace(source.reader, source.file, horizon_s=source.horizon_s,
                          kept=KeptParts(kept, trace_code()), is_shrunk_allowed=source.is_shrunk_allowed)
    return read_trace(source.reader, source.file, horizon_s=source.horizon_s, **source.columns.keywords())


def _of_two_files(source: TraceSource, later: LaterFile, kept: Path | None) -> tuple[Trace, ReadReport]:
    past, of_past = configured_trace(source.alone, kept)
    test, of_test = configured_trace(later.source)
    assert of_past is not None
    assert of_test is not None  # neither is generated
    joined, lines = with_later(past, test, offset_s=later.offset_s, file_ids=READERS[source.reader].file_ids,
                               is_overlap_allowed=later.is_overlap_allowed)
    return joined, of_past.joined(of_test, len(joined), lines)


def trace_code() -> str:
    """sha256 hex of the code that makes traces: readers and generator."""
    return source_hash(*ROOMS)
