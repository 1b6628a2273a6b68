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
               as_of_s: int) -> np.ndarray:
    """Up to when each admission's end would have been logged, float64 (n,), seconds.

    That is the latest second that its process told of, or of the process that took it over at a restart; where records
    of a process were lost, what ran then may have ended unseen, and is followed up to the loss only.
    """
    taken: dict[Handle, float] = {}
    for one in log.sessions:
        until_s = min([one.clock_s, *one.lost_s])
        for handle in one.running:
            taken[handle] = max(taken.get(handle, -np.inf), until_s)
    heard = np.empty(len(handles))
    for idx, handle in enumerate(handles):
        own = log.sessions[int(session[idx])]
        lost = [loss_s for loss_s in own.lost_s if loss_s >= now_s[idx]]
        heard[idx] = min(min([own.clock_s, *lost]) if handle not in taken else max(own.clock_s, taken[handle]), as_of_s)
    return heard
