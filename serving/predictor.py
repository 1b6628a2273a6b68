"""The predictor that a scheduler imports: one prediction at admission, lookups ever after."""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.serving.bundle import Bundle, load_bundle
from sojourn.serving.counters import COUNTERS
from sojourn.serving.curve import checked_seconds
from sojourn.serving.encoder import Parsed
from sojourn.serving.errors import shown
from sojourn.serving.explain import Explanation, explain
from sojourn.serving.first_answer import FirstAnswer
from sojourn.serving.forking import join_forks
from sojourn.serving.history import Admission, HistoryState
from sojourn.serving.history_rows import UNKNOWN
from sojourn.serving.lifetime import Lifetime
from sojourn.serving.served import Served
from sojourn.serving.watch import Watch, WatchEvent

_INF = math.inf
N_AT_ONCE = 64
"""Requests of `remaining_many` that are answered under one lock: half a millisecond."""
_LATEST_S = 2**53
"""Later seconds are no longer told apart by doubles."""


class Predictor:
    """Predicts lifetimes in process; needs only numpy and onnxruntime (numba where installed).

    Times are whole seconds on the training trace's clock. Safe to use from several threads and across forks; not
    from a signal handler. Takes over the bundle's history: one bundle object serves one predictor.
    """

    def __init__(self, bundle: Bundle, history: HistoryState | None = None) -> None:
        self._lock = threading.Lock()  # of the history and the counts; held for microseconds
        self._reloading = threading.Lock()  # one reload at a time; taken before the other, never within it
        self._history = bundle.history if history is None else history
        self._served = Served.of(bundle)
        self._folder: Path | None = None
        self._counts = dict.fromkeys(COUNTERS, 0)
        join_forks(self)

    @classmethod
    def load(cls, folder: str | Path, *, is_history_kept: bool = True) -> Predictor:
        """Load a bundle folder; BundleError where it is missing, corrupted or of another version.

        is_history_kept: start with the owner history of the trace's end (the default), or with none.
        """
        bundle = load_bundle(folder)
        predictor = cls(bundle, None if is_history_kept else HistoryState(bundle.schema.encoder.history))
        predictor._folder = Path(folder).absolute()
        return predictor

    def reload(self, folder: str | Path | None = None) -> str:
        """Serve what lies in the folder now (default: the one that was loaded); returns its version.

        Calls under way end with the version that they began with, and what was admitted keeps its curve. The live
        owner history goes on, so the bundle's own is not read. BundleError where the bundle is missing, corrupted
        or of another history definition or clock: the old version serves on.
        """
        source = self._followed() if folder is None else Path(folder)
        with self._reloading:
            try:
                fresh = Served.of(load_bundle(source)).following(self._served)
            except Exception:
                self._count("reload_errors")
                raise
            with self._lock:
                self._served = fresh
                self._counts["reloads"] += 1
        return fresh.version

    def watch(self, *, interval_s: float = 5.0, on_event: Callable[[WatchEvent], object] | None = None) -> Watch:
        """Reload whenever another version is published in the folder that was loaded, until `stop` is called.

        on_event: called from the watcher's thread with what was served or refused. Also a context manager.
        """
        return Watch(self, self._followed(), interval_s, on_event)

    @property
    def version(self) -> str:
        """The version that is served: the first 12 hex digits of its manifest's sha256."""
        return self._served.version

    def admit(self, request: Mapping[str, Any], now_s: int, *, arrival_s: int | None = None) -> Lifetime:
        """Predict a request that is placed now, and record its arrival in the owner history.

        request: column -> value; a missing column, category or owner takes the model's unknown path and is
        named in the result's `unknown`. arrival_s: its start, for a request that was already running.
        Raises ValueError for an unknown column, a wrong type or a non-integer time.
        """
        try:
            start_s = now = _whole(now_s, "now_s")
            if arrival_s is not None:
                start_s = _whole(arrival_s, "arrival_s")
            if start_s > now:
                raise ValueError(f"arrival_s must be <= now_s ({now}), got {start_s}")
            return self._predict(self._served, request, start_s, is_recorded=True)
        except ValueError:
            self._count("errors")
            raise

    def predict(self, request: Mapping[str, Any], now_s: int) -> Lifetime:
        """The same prediction as `admit`, recording nothing."""
        try:
            return self._predict(self._served, request, _whole(now_s, "now_s"), is_recorded=False)
        except ValueError:
            self._count("errors")
            raise

    def ended(self, vm: Lifetime, now_s: int, *, arrival_s: int | None = None) -> None:
        """Record that an admitted request ended at `now_s`; ValueError where it is not running, or another's.

        arrival_s: when it began to run, for a job that waited in a queue after its admission; the wait is no part
        of its lifetime, here as in training.
        """
        try:
            end_s = _whole(now_s, "now_s")
            start_s = None if arrival_s is None else _whole(arrival_s, "arrival_s")
            with self._lock:
                admission = self._running(vm)
                began_s = admission.arrival_s if start_s is None else start_s
                if end_s < began_s:
                    raise ValueError(f"now_s must be >= the arrival {began_s}, got {end_s}")
                if began_s < admission.arrival_s:
                    raise ValueError(f"arrival_s must be >= the admission {admission.arrival_s}, got {began_s}")
                vm._admission = None
                self._history.ended(admission, end_s, start_s)
                self._counts["ended"] += 1
        except ValueError:
            self._count("errors")
            raise

    def withdraw(self, vm: Lifetime) -> None:
        """Undo an `admit` that was not placed; ValueError where it is not running, or another predictor's."""
        try:
            with self._lock:
                admission = self._running(vm)
                vm._admission = None
                self._history.withdraw(admission)
                self._counts["withdrawn"] += 1
        except ValueError:
            self._count("errors")
            raise

    def remaining_many(self, requests: Sequence[Mapping[str, Any]], uptimes_s: Sequence[float] | np.ndarray,
                       now_s: int) -> np.ndarray:
        """Mean remaining seconds, float64 (n,), of n requests that arrive now, at one uptime each.

        Records nothing; all answers are of one version.
        """
        served = self._served
        try:
            asked, given = _elements(requests, "requests"), _elements(uptimes_s, "uptimes_s")
            if len(asked) != len(given):
                raise ValueError(f"uptimes_s must have {len(asked)} elements, got {len(given)}")
            uptimes = [uptime_s if type(uptime_s) is float and 0.0 <= uptime_s < _INF
                       else checked_seconds(uptime_s, "uptime_s") for uptime_s in given]
            now = _whole(now_s, "now_s")
            if served.first is None:
                answers = [self._predict(served, request, now, is_recorded=False).remaining(uptime_s)
                           for request, uptime_s in zip(asked, uptimes, strict=True)]
            else:
                answers = self._predict_many(served, served.first, list(map(served.parse, asked)), uptimes, now)
        except ValueError:
            self._count("errors")
            raise
        return np.array(answers)

    def explain(self, vm: Lifetime, uptime_s: float = 0.0) -> Explanation:
        """What each group of inputs adds to the request's log10 median remaining seconds, as it was predicted.

        The answer of `sojourn predict --explain`. It runs the model thousands of times, outside of every lock:
        milliseconds to seconds, not for a placement loop. ValueError where the handle's version is no longer
        served.
        """
        served = self._served
        if not isinstance(vm, Lifetime):
            raise ValueError(f"vm must be a Lifetime, got {shown(vm)}")
        if vm.version != served.version:
            raise ValueError(f"vm must be of the version that is served ({served.version}), got one of {vm.version}")
        background = served.background
        if background is None:  # an older bundle: against a request of which nothing but its arrival is known
            with self._lock:
                nothing = served.encoder.encode(served.parse({}), vm.arrival_s, self._history)
            background = np.array([nothing])
        return explain(served.builder, vm.features, background, uptime_s)

    @property
    def counters(self) -> dict[str, int]:
        """Counts since the predictor was made, by the names of `COUNTERS`, which says what each one means."""
        with self._lock:
            return dict(self._counts)

    def info(self) -> dict[str, Any]:
        """What is being served: version, family, number of features, whether answers are compiled, and how.

        walk: "leaf masks", "range walk" (larger trees, category sets), or "ONNX Runtime" where numba is not installed:
        a first answer then costs several times as much, and has the same bits.
        """
        served = self._served
        return {
            "version": served.version,
            "family": served.schema.family,
            "kind": served.schema.kind,
            "n_features": served.schema.n_features,
            "columns": list(served.encoder.columns()),
            "is_compiled": served.builder.is_compiled,
            "walk": served.builder.walk,
            "training": served.schema.document.get("training", {}),
        }

    def before_fork(self) -> None:
        """Wait until no other thread is within the history or a reload (see `forking`)."""
        self._reloading.acquire()
        self._lock.acquire()

    def after_fork(self, *, is_child: bool) -> None:
        """Go on, in the parent and in the child."""
        self._lock.release()
        self._reloading.release()

    def _predict(self, served: Served, request: Mapping[str, Any], start_s: int, *, is_recorded: bool) -> Lifetime:
        parsed = served.parse(request)
        first = served.first
        with self._lock:
            history = self._history
            slots = history.slots(parsed.keys)
            if first is None:
                features = served.encoder.encode(parsed, start_s, history)
            else:
                answer = first.answer(parsed.numbers, slots, start_s, history.overall, history.rows)
            unknown = parsed.unknown
            if UNKNOWN in slots:
                unknown += _unknown_keys(served, parsed, slots)
            admission = history.admit(parsed.keys, start_s) if is_recorded else None
            self._counts["predictions"] += 1
            self._counts["unknowns"] += bool(unknown)
        if first is None:
            return Lifetime(served.builder.curve(features), np.array(features), start_s, unknown, served.version,
                            admission)
        return Lifetime(served.builder.curve_of(answer), answer, start_s, unknown, served.version, admission,
                        first.n_numbers)

    def _predict_many(self, served: Served, first: FirstAnswer, parsed: list[Parsed], uptimes_s: list[float],
                      now_s: int) -> list[float]:
        answers: list[float] = []
        for start in range(0, len(parsed), N_AT_ONCE):
            chunk = parsed[start:start + N_AT_ONCE]
            with self._lock:
                history = self._history
                slots = [history.slots(one.keys) for one in chunk]
                answers += first.remaining(chunk, slots, now_s, history.overall, history.rows,
                                           uptimes_s[start:start + N_AT_ONCE])
                self._counts["predictions"] += len(chunk)
                self._counts["unknowns"] += sum([bool(one.unknown or (UNKNOWN in own
                                                                      and _unknown_keys(served, one, own)))
                                                 for one, own in zip(chunk, slots, strict=True)])
        return answers

    def _running(self, vm: Lifetime) -> Admission:
        if not isinstance(vm, Lifetime):
            raise ValueError(f"vm must be a Lifetime, got {shown(vm)}")
        if vm._admission is None:
            raise ValueError("vm must be admitted and neither ended nor withdrawn, got one that is not")
        if vm._admission.history != self._history.number:
            raise ValueError("vm must be admitted by this predictor, got one of another")
        return vm._admission

    def _followed(self) -> Path:
        if self._folder is None:
            raise ValueError("folder must be given, since this predictor was not loaded from one, got None")
        return self._folder

    def _count(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1


def _unknown_keys(served: Served, parsed: Parsed, slots: Sequence[int]) -> tuple[str, ...]:
    """Names of the history keys that a request gives and the history does not know."""
    return tuple(key.name for key, given, slot in zip(served.encoder.history.keys, parsed.keys, slots, strict=True)
                 if slot == UNKNOWN and given is not None)


def _elements(given: Any, name: str) -> list[Any]:
    """The elements of a list, an array or another sequence; ValueError for what is none."""
    is_sequence = hasattr(given, "__len__") and hasattr(given, "__getitem__") and getattr(given, "ndim", 1) > 0
    if not is_sequence or issubclass(type(given), str | bytes | bytearray | Mapping | type):
        raise ValueError(f"{name} must be a sequence, got {shown(given)}")
    return list(given)


def _whole(value: Any, name: str) -> int:
    if type(value) is int and -_LATEST_S < value < _LATEST_S:
        return value
    try:
        seconds = operator.index(value)
    except TypeError:
        seconds = _LATEST_S
    if isinstance(value, bool) or not -_LATEST_S < seconds < _LATEST_S:
        raise ValueError(f"{name} must be whole seconds, got {shown(value)}")
    return seconds
