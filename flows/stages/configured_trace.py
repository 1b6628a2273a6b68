"""The trace that a configuration names, made or read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sojourn.features.read_report import ReadReport
from sojourn.features.readers import READERS, read_trace
from sojourn.features.synthetic import synthesize
from sojourn.features.trace import Trace
from sojourn.flows.store.code_version import source_hash
from sojourn.flows.trace_source import TraceSource


def configured_trace(source: TraceSource) -> tuple[Trace, ReadReport | None]:
    """The trace, and what was read of its files; None where it is generated."""
    if source.file is None:
        return synthesize(source.n_requests, seed=source.seed), None
    return read_trace(source.reader, source.file, horizon_s=source.horizon_s)


def trace_code(source: TraceSource) -> str:
    """sha256 hex of the code that makes the trace: the generator's or its own reader's, not that of other readers."""
    maker: Callable[..., Any] = synthesize if source.file is None else READERS[source.reader].read
    return source_hash(maker, alone=(__name__,))
