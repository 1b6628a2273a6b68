"""A trace that is queried, as it is now: written into the store once, and read from there by all that follows."""

from __future__ import annotations

from typing import TypeVar

from sojourn.flows.progress import stage
from sojourn.flows.settings.trace import TraceSettings, TraceSource
from sojourn.flows.stages.ingest import is_queried, read_into

S = TypeVar("S", bound=TraceSettings)


def with_kept_trace(settings: S) -> S:
    """The settings, with a trace that is queried replaced by its folder in the store; others as they are.

    The folder's name ends in a hash of what the query gave: results on two states of a table are of two traces.
    """
    source = TraceSource(settings.trace, settings.reader, settings.horizon_s, 0, 0)
    if not is_queried(source):
        return settings
    with stage("read"):
        folder = read_into(settings.store, source).folder
    return settings.model_copy(update={"trace": folder, "reader": "parquet", "horizon_s": None})
