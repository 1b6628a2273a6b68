"""Bounds of lifetimes: what a share of requests like each one does not exceed, given how long it has run.

A trace as a bundle reads it: feature rows on one clock, which of them the bundle has not learnt from, what runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from sojourn.features.creation import FeatureRows, build_rows, decision_times
from sojourn.features.split import Examples, known_at
from sojourn.features.trace import Trace
from sojourn.models.bundle_writer import table_of
from sojourn.models.curve_table import CurveTable
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.bundle import Bundle
from sojourn.serving.forest import Forest
from sojourn.serving.inputs import HistoryState

OWN_SHARE = 0.9
"""A trace with this share of the training requests brings the owner history itself; else the bundle's own goes on."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A request's bound. uptime_s: at the trace's horizon, 0 of one that has not started; total_s: from its start,
    above the uptime.

    name: what other programs call it: of pods NAMESPACE/POD, else its request id.
    end_unix_s: when it is reached, or None where the trace has no dates or the request no start.
    kind: of a pod's controller; None if that is not known.
    """

    request_id: str
    level: float
    uptime_s: int
    total_s: int
    end_unix_s: int | None
    name: str
    kind: str | None = None

    @property
    def remaining_s(self) -> int:
        """From the horizon on, at least 1."""
        return self.total_s - self.uptime_s

    def at_most(self, limit_s: int) -> Bound | None:
        """The bound, cut at so many seconds from the start; None if the request has run so long already.

        >>> Bound("1", 0.9, 60, 7_200, 9_000, "a/b").at_most(3_600)
        Bound(request_id='1', level=0.9, uptime_s=60, total_s=3600, end_unix_s=5400, name='a/b', kind=None)
        """
        if self.total_s <= limit_s:
            return self
        if self.uptime_s >= limit_s:
            return None
        end_unix_s = None if self.end_unix_s is None else self.end_unix_s - self.total_s + limit_s
        return replace(self, total_s=limit_s, end_unix_s=end_unix_s)


def total_bounds(table: CurveTable, level: float, uptime_s: np.ndarray | float) -> np.ndarray:
    """Total lifetimes, float64 (n,) whole seconds, that `level` of the requests alive at the uptime do not exceed."""
    return np.asarray(uptime_s + np.maximum(table.quantile(level, uptime_s), 1.0), np.float64)


def coming_bounds(replayed: Replayed, requests: Mapping[str, Mapping[str, Any]], level: float,
                  asked: float) -> list[Bound]:
    """A bound of each request that has not started, asked for at the trace's horizon, in their order.

    requests: by where each stands, columns that the bundle reads, and `request_id`. level, asked: see
    `running_bounds`. ValueError naming the place of an unknown column, a wrong type, and an id that is missing or
    there twice.
    """
    if not requests:
        return []
    encoder, now_s = replayed.bundle.schema.encoder, replayed.trace.horizon_s
    ids: dict[str, str] = {}
    features = []
    for place, request in requests.items():
        name = request.get("request_id")
        if not isinstance(name, str) or not name or name in ids:
            first = f", as in {ids[name]}" if isinstance(name, str) and name in ids else ""
            raise ValueError(f"{place}: request_id must be text and differ from request to request, got "
                             f"{repr(name)[:80]}{first}")
        ids[name] = place
        try:
            known = encoder.parse({column: value for column, value in request.items() if column != "request_id"})
            features.append(encoder.encode(known, now_s, replayed.history))
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error
    total_s = total_bounds(replayed.table(np.array(features)), level, 0.0)
    return [Bound(name, asked, 0, int(total), None, name, _kind(request.get("kind")))
            for name, total, request in zip(ids, total_s, requests.values(), strict=True)]


def running_bounds(replayed: Replayed, level: float, asked: float) -> list[Bound]:
    """A bound of each request that runs at the horizon, in the trace's order.

    level: that the model is asked for; asked: that the user wants, which the bounds name.
    """
    idx = replayed.running()
    idx = idx[np.argsort(replayed.rows.idx_request[idx], kind="stable")]
    if len(idx) == 0:
        return []
    rows, trace = replayed.rows, replayed.trace
    uptime_s = np.maximum(rows.lifetime_s[idx], 0).astype(np.float64)
    total_s = total_bounds(replayed.table(rows.features[idx]), level, uptime_s)
    asked_for = trace.requests.iloc[rows.idx_request[idx]]
    ids = asked_for["request_id"].astype(str)
    names = asked_for["pod"].astype(str) if "pod" in asked_for else ids
    kinds = asked_for["kind"] if "kind" in asked_for else [None] * len(idx)
    return [Bound(request_id, asked, int(uptime), int(total),
                  int(arrival) + int(total) if trace.is_dated else None, name, _kind(kind))
            for request_id, name, uptime, total, arrival, kind in zip(ids, names, uptime_s, total_s,
                                                                      rows.arrival_s[idx], kinds, strict=True)]


def _kind(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


@dataclass(frozen=True, slots=True)
class Replayed:
    """A trace on the bundle's clock, its feature rows by the bundle's encoder, and the owner history at its end.

    trace: with the columns that the bundle reads; those that it lacked are all missing, and named in `missing`.
    held_out_s: requests decided from then on were not seen by the model, nor was anything of them by its history.
    has_own_history: the history was replayed from this trace alone; else the bundle's own went on.
    """

    bundle: Bundle
    forest: Forest
    trace: Trace
    rows: FeatureRows
    history: HistoryState
    held_out_s: int
    has_own_history: bool
    is_clock_known: bool
    missing: tuple[str, ...]

    @classmethod
    def of(cls, bundle: Bundle, trace: Trace) -> Replayed:
        """Replay the trace; ValueError where the bundle does not say what it was trained on, or no request is left.

        Both are on Unix time if both have dates; if one of them has none, their begins are taken as one moment. Of a
        trace that does not hold the training requests, only what came after the bundle's history is
        held out: that history knows the ends before, so what had ended by then is not replayed again.
        """
        training = bundle.schema.training
        if not {"to_s", "n_requests", "history_to_s"} <= training.keys():
            raise ValueError("bundle must say what it was trained on (`to_s`, `n_requests`, `history_to_s`), got "
                             f"version {bundle.version} without")
        learnt_begins = training.get("start_unix_s")
        moved = trace
        if learnt_begins is None:
            moved = trace.since_begin()
        elif not trace.is_dated:
            moved = trace.moved(int(learnt_begins), int(learnt_begins))
        elif trace.horizon_s <= int(learnt_begins):
            raise ValueError(f"trace must end after the bundle's training trace began, got one that ended "
                             f"{int(learnt_begins) - trace.horizon_s:,} s before")
        missing = tuple(name for name in bundle.schema.encoder.columns() if name not in moved.requests)
        if missing:
            blank = {name: pd.Series([None] * len(moved), dtype=object) for name in missing}
            moved = Trace(moved.requests.assign(**blank), moved.horizon_s, moved.roles, moved.hosts, None, moved.meta)
        n_learnt = int((decision_times(moved) < int(training["to_s"])).sum())
        has_own = n_learnt >= OWN_SHARE * int(training["n_requests"])
        if not has_own:  # the bundle's history has what had ended by its end
            is_later = (moved.end_s() > int(training["history_to_s"])) | ~moved.is_event()
            moved = moved.select(is_later | (decision_times(moved) >= int(training["history_to_s"])))
        history = HistoryState(bundle.schema.encoder.history) if has_own else bundle.history
        rows = build_rows(moved, bundle.schema.encoder, history)
        if len(rows) == 0:
            raise ValueError("trace must hold a request whose start is known, got none")
        held_out_s = int(training["to_s"] if has_own else training["history_to_s"])
        forest = CurveBuilder(bundle.schema, bundle.model).forest
        return cls(bundle, forest, moved, rows, history, held_out_s, has_own,
                   trace.is_dated and learnt_begins is not None, missing)

    def table(self, features: np.ndarray) -> CurveTable:
        """The model's curves of encoded rows."""
        return table_of(self.bundle.schema, self.forest, features)

    def held_out(self) -> Examples:
        """The requests that the model has not seen, with what became of them by the trace's end."""
        return known_at(self.rows, self.rows.decided_s >= self.held_out_s, None)

    def running(self) -> np.ndarray:
        """Positions in `rows`, int64, of what still runs at the horizon."""
        return np.flatnonzero(~self.rows.is_event)
