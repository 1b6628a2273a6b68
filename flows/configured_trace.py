"""The trace that a configuration names, made or read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sojourn.features.readers import READERS, read_trace
from sojourn.features.report import ReadReport
from sojourn.features.synthetic import synthesize
from sojourn.features.trace import Trace
from sojourn.flows.code_version import source_hash

if TYPE_CHECKING:
    from sojourn.flows.config import RetrainConfig


def configured_trace(config: RetrainConfig) -> tuple[Trace, ReadReport | None]:
    """The trace, and what was read of its files; None where it is generated."""
    if config.trace is None:
        return synthesize(config.n_requests, seed=config.seed), None
    return read_trace(config.reader, config.trace, horizon_s=config.horizon_s)


def trace_code(config: RetrainConfig) -> str:
    """sha256 hex of the code that makes the trace: the generator's or its own reader's, not that of other readers."""
    maker: Callable[..., Any] = synthesize if config.trace is None else READERS[config.reader].read
    return source_hash(maker, alone=(__name__,))
