"""How requests ended, as far as it was known at a time: from the decision log itself, or from a trace of outcomes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.features.trace import Trace
from sojourn.serving.decisions import DecisionLog

Handle = tuple[int, int]
"""Token and number of an admission."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is known of one request. begin_s: when it began to run; end_s: its end, or up to when it was followed."""

    begin_s: int
    end_s: int
    is_event: bool


def traced_outcomes(trace: Trace, as_of_s: int) -> dict[str, Outcome]:
    """By request id, those of known begin that had begun; what ended after `as_of_s` still ran then."""
    known_to_s = min(as_of_s, trace.horizon_s)
    is_known = trace.is_start_known() & (trace.start_s() <= known_to_s)
    ids = trace.requests["request_id"].astype(str).tolist()
    columns = (ids, is_known.tolist(), trace.start_s().tolist(), trace.end_s().tolist(), trace.is_event().tolist())
    return {name: Outcome(begin_s, min(end_s, known_to_s), is_event and end_s <= known_to_s)
            for name, is_taken, begin_s, end_s, is_event in zip(*columns, strict=True) if is_taken}


@dataclass(frozen=True, slots=True)
class LoggedEnds:
    """Ends by handle. conflicting: handles of which the log tells two different ends: none of them is believed."""

    ends: dict[Handle, tuple[int, int]]
    conflicting: frozenset[Handle]
    n_repeated: int

    @classmethod
    def of(cls, log: DecisionLog) -> LoggedEnds:
        """The ends that a log tells: end and begin, seconds."""
        ends: dict[Handle, tuple[int, int]] = {}
        conflicting, n_repeated = set(), 0
        for token, number, end_s, begin_s in log.ends.tolist():
            known = ends.setdefault((token, number), (end_s, begin_s))
            n_repeated += known == (end_s, begin_s)
            if known != (end_s, begin_s):
                conflicting.add((token, number))
        return cls({handle: end for handle, end in ends.items() if handle not in conflicting}, frozenset(conflicting),
                   n_repeated - len(ends))


def heard_to_s(log: DecisionLog, session: np.ndarray, now_s: np.ndarray, handles: list[Handle],
               as_of_s: int) -> tuple[np.ndarray, np.ndarray]:
    """Up to when each admission's end would have been logged, and up to when nothing is lost; float64 (n,), seconds.

    The first is the latest second that its process told of, or of the process that took it over at a restart. The
    second, inf without a loss, is the last second before records of these processes were lost: whether what ran then
    ended is not known for all, so that none of it is followed further, not even what is known to have ended later (to
    follow these alone would count ends without those who ran on).
    """
    taken_s: dict[Handle, float] = {}
    taken_lost_s: dict[Handle, float] = {}
    for one in log.sessions:
        lost_s = min((loss.from_s for loss in one.losses), default=np.inf)
        for handle in one.running:
            taken_s[handle] = max(taken_s.get(handle, -np.inf), one.clock_s)
            taken_lost_s[handle] = min(taken_lost_s.get(handle, np.inf), lost_s)
    heard, whole = np.empty(len(handles)), np.empty(len(handles))
    for idx, handle in enumerate(handles):
        own = log.sessions[int(session[idx])]
        lost = [loss.from_s for loss in own.losses if loss.to_s >= now_s[idx]]
        whole[idx] = max(min([taken_lost_s.get(handle, np.inf), *lost]), now_s[idx])
        heard[idx] = min(max(own.clock_s, taken_s.get(handle, -np.inf)), whole[idx], as_of_s)
    return heard, whole
