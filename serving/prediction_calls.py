"""What a predictor answers: the prediction for a request that would start now, one, many, and why it is so."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sojourn.serving.answers import Attribution, FirstAnswer, Lifetime, RefreshedLifetime, Served, attribute
from sojourn.serving.checks import Moment
from sojourn.serving.curves import HazardCurve, checked_seconds, recalibrated
from sojourn.serving.decisions import Recorder
from sojourn.serving.errors import shown
from sojourn.serving.inputs import UNKNOWN, HistoryState, Parsed
from sojourn.serving.live import Admitted
from sojourn.serving.recalibration_calls import RecalibrationCalls
from sojourn.serving.usage import LiveUsage

_INF = math.inf
N_AT_ONCE = 64
"""Requests of `remaining_many` that are answered under one lock: half a millisecond."""


class PredictionCalls(RecalibrationCalls):
    """The calls of `Predictor` that record nothing, and the prediction that admissions share with them."""

    _history: HistoryState
    _clock_s: int | None
    _recorder: Recorder | None
    _usage: LiveUsage | None

    def predict(self, request: Mapping[str, Any], now_s: Moment) -> Lifetime:
        """The same prediction as `admit`, recording nothing."""
        try:
            served = self._served
            return self._predict(served, request, served.now(now_s))
        except ValueError:
            self.count("errors")
            raise

    def remaining_many(self, requests: Sequence[Mapping[str, Any]], uptimes_s: Sequence[float] | np.ndarray,
                       now_s: Moment) -> np.ndarray:
        """Mean remaining seconds, float64 (n,), of n requests that arrive now, at one uptime each.

        Records nothing; all answers are of one version.
        """
        served = self._served
        answers: list[float] | None
        try:
            asked, given = _elements(requests, "requests"), _elements(uptimes_s, "uptimes_s")
            if len(asked) != len(given):
                raise ValueError(f"uptimes_s must have {len(asked)} elements, got {len(given)}")
            uptimes = [uptime_s if type(uptime_s) is float and 0.0 <= uptime_s < _INF
                       else checked_seconds(uptime_s, "uptime_s") for uptime_s in given]
            now = served.now(now_s)
            if served.first is None or self._recalibration is not None:
                answers = [self._predict(served, request, now).remaining(uptime_s)
                           for request, uptime_s in zip(asked, uptimes, strict=True)]
            else:
                answers = self._predict_many(served, served.first, list(map(served.parse, asked)), uptimes, now)
        except ValueError:
            self.count("errors")
            raise
        return self.remaining_many(asked, uptimes, now_s) if answers is None else np.array(answers)

    def explain(self, vm: Lifetime, uptime_s: float = 0.0) -> Attribution:
        """What each group of inputs adds to the request's log10 median remaining seconds, as it was predicted.

        The answer of `sojourn predict --explain`. It runs the model thousands of times, outside of every lock:
        milliseconds to seconds, not for a placement loop. A refreshed handle is explained at its moment, or later,
        against a request of which nothing is known. ValueError where the handle's version is no longer served.
        """
        served = self._served
        if not isinstance(vm, Lifetime):
            raise ValueError(f"vm must be a Lifetime, got {shown(vm)}")
        if vm.version != served.version:
            raise ValueError(f"vm must be of the version that is served ({served.version}), got one of {vm.version}")
        if isinstance(vm, RefreshedLifetime) and served.refresher is not None:
            refresher = served.refresher
            with self._lock:
                nothing = refresher.encoder.encode(refresher.encoder.parse({}), vm.refreshed_s, self._history)
            asked_s = max(uptime_s, float(vm.refreshed_s - vm.arrival_s))
            return attribute(refresher.builder, vm.features, np.array([nothing]), asked_s)
        background = served.background
        if background is None:  # an older bundle: against a request of which nothing but its arrival is known
            with self._lock:
                nothing = served.encoder.encode(served.parse({}), vm.arrival_s, self._history)
            background = np.array([nothing])
        return attribute(served.builder, vm.features, background, uptime_s)

    def _predict(self, served: Served, request: Mapping[str, Any], start_s: int,
                 recorded_s: int | None = None, request_id: str | None = None) -> Lifetime:
        """The prediction for a request that starts at `start_s`; an admission at `recorded_s` where that is given."""
        parsed = served.parse(request)
        first = served.first
        admission = None
        with self._lock:
            history = self._history
            if served.instant_s != history.definition.instant_s:  # reloaded since: the history is read otherwise now
                served = self._served
                first, parsed = served.first, served.parse(request)
            slots, factors = history.slots(parsed.keys), self._factors_of(served)
            if first is None:
                features = served.encoder.encode(parsed, start_s, history)
                answer, n_before = np.array(features), 0
            else:
                answer = first.answer(parsed.numbers, slots, start_s, history.overall, history.rows)
                n_before = first.n_numbers
            unknown = parsed.unknown
            if UNKNOWN in slots:
                unknown += served.unknown_keys(parsed, slots)
            if recorded_s is not None:
                admission = history.admit(parsed.keys, start_s)
                one = Admitted(admission, answer, n_before, unknown, served.version, None, factors)
                self._running.enter(one)
                self._follow(one, recorded_s)
                self._record_time(recorded_s)
                lost = self._running.too_many()
                if lost:
                    self._drop(lost)
            self._counts["predictions"] += 1
            self._counts["unknowns"] += bool(unknown)
        curve = served.builder.curve(features) if first is None else served.builder.curve_of(answer)
        if factors is not None and isinstance(curve, HazardCurve):
            curve = recalibrated(curve, factors)
        recorder = self._recorder
        if recorder is not None and admission is not None:
            shadow = recorder.shadow
            extra = () if shadow is None else tuple(map(request.get, shadow.extra_columns))
            recorder.decided((served, admission, recorded_s, answer, n_before, unknown, curve, request_id, extra))
        return Lifetime(curve, answer, start_s, unknown, served.version, admission, n_before)

    def _predict_many(self, served: Served, first: FirstAnswer, parsed: list[Parsed], uptimes_s: list[float],
                      now_s: int) -> list[float] | None:
        """Mean remaining seconds of parsed requests; None where a reload meanwhile has the history read otherwise."""
        answers: list[float] = []
        for start in range(0, len(parsed), N_AT_ONCE):
            chunk = parsed[start:start + N_AT_ONCE]
            with self._lock:
                history = self._history
                if served.instant_s != history.definition.instant_s:
                    return None
                slots = [history.slots(one.keys) for one in chunk]
                answers += first.remaining(chunk, slots, now_s, history.overall, history.rows,
                                           uptimes_s[start:start + N_AT_ONCE])
                self._counts["predictions"] += len(chunk)
                self._counts["unknowns"] += sum([bool(one.unknown or (UNKNOWN in own
                                                                      and served.unknown_keys(one, own)))
                                                 for one, own in zip(chunk, slots, strict=True)])
        return answers

    def _drop(self, lost: Sequence[Admitted]) -> None:
        """Forget requests whose ends nobody told; the lock is held."""
        self._history.lose([one.admission for one in lost])
        for one in lost:
            self._running.remove(one)
            if self._usage is not None:
                self._usage.ended(one.admission.id)
            if self._recalibration is not None:
                self._recalibration.forget(one.admission.number)
        self._counts["dropped"] += len(lost)

    def _record_time(self, now_s: int) -> None:
        """Take note of the time of an admission or end; the lock is held."""
        if self._clock_s is not None and now_s < self._clock_s:
            self._counts["clock_steps_back"] += 1
        self._clock_s = now_s


def _elements(given: Any, name: str) -> list[Any]:
    """The elements of a list, an array or another sequence; ValueError for what is none."""
    is_sequence = hasattr(given, "__len__") and hasattr(given, "__getitem__") and getattr(given, "ndim", 1) > 0
    if not is_sequence or issubclass(type(given), str | bytes | bytearray | Mapping | type):
        raise ValueError(f"{name} must be a sequence, got {shown(given)}")
    return list(given)
