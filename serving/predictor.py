"""The predictor that a scheduler imports: one prediction at admission, lookups ever after."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.serving.answers import Attribution, FirstAnswer, attribute
from sojourn.serving.bundle import Bundle, load_bundle
from sojourn.serving.checks import folder_path, whole_seconds
from sojourn.serving.counters import COUNTERS
from sojourn.serving.curves import checked_seconds
from sojourn.serving.decision_calls import DecisionCalls
from sojourn.serving.decisions import Recorder, Shadow
from sojourn.serving.errors import BundleError, shown
from sojourn.serving.forking import join_forks
from sojourn.serving.inputs import UNKNOWN, Encoder, HistoryState, Parsed
from sojourn.serving.lifetime import Lifetime
from sojourn.serving.live import (
    Admitted,
    LiveHistory,
    LiveRequests,
    content_of,
    live_history,
    read_snapshot,
    write_snapshot,
)
from sojourn.serving.reload_gate import ReloadGate
from sojourn.serving.served import Served
from sojourn.serving.usage import USAGE_FILES, LiveUsage, UsageFollower, check_usage_files, load_usage
from sojourn.serving.usage_calls import UsageCalls
from sojourn.serving.watch import Watch, WatchEvent

_INF = math.inf
N_AT_ONCE = 64
"""Requests of `remaining_many` that are answered under one lock: half a millisecond."""


class Predictor(UsageCalls, DecisionCalls):
    """Predicts lifetimes in process; needs only numpy and onnxruntime (numba where installed).

    Times are whole seconds on the training trace's clock. Safe to use from several threads and across forks; not
    from a signal handler. Takes over the bundle's history: one bundle object serves one predictor.
    """

    def __init__(self, bundle: Bundle, history: HistoryState | LiveHistory | None = None) -> None:
        self._is_restored = isinstance(history, LiveHistory)
        if not isinstance(history, LiveHistory):
            history = LiveHistory(bundle.history if history is None else history, (), {}, None)
        self._lock = threading.Lock()  # of the history, what runs and the counts; held for microseconds
        self._reloading = ReloadGate()  # passed before the lock is taken, never within it
        self._snapshotting = threading.Lock()  # likewise
        self._history = history.history
        self._running = LiveRequests()
        for one in history.running:
            self._running.enter(one)
        self._clock_s = history.clock_s  # the latest `now_s` that was recorded
        self._served = Served.of(bundle)
        self._names = {**history.names}  # what each version encodes a request to
        self._name_features(self._served)
        self._folder: Path | None = None
        self._usage: LiveUsage | None = None
        self._usage_folder: Path | None = None
        self._counts = dict.fromkeys(COUNTERS, 0)
        self._recorder: Recorder | None = None
        self._shadow: Shadow | None = None
        self._shadow_folder: Path | None = None
        self._shadow_reason = ""
        join_forks(self)

    @classmethod
    def load(cls, folder: str | Path, *, is_history_kept: bool = True, history: str | Path | None = None,
             usage: str | Path | None = None, shadow: str | Path | None = None) -> Predictor:
        """Load a bundle folder; BundleError where it is missing, corrupted or of another version.

        is_history_kept: start with the owner history of the trace's end (the default), or with none.
        history: the folder that `snapshot` fills: go on from there, what was running included. Where no snapshot was
        completed yet (no folder, or none with its SNAPSHOT.json) it starts as without; `info()["is_restored"]` says
        which. SnapshotError where the snapshot is corrupted, of another format, or not of the bundle's history
        definition and clock, or where the folder holds anything else than a snapshot.
        usage: the folder of a usage section, for `observe` and `usage`; BundleError as for the bundle.
        shadow: the bundle folder of a challenger that answers each admission, too, off the caller's path. Its answers
        are never used; see `shadow`. One that cannot be loaded is counted (`shadow_errors`), and the champion serves.
        """
        kept = None if history is None else folder_path(history, "history")
        if kept is not None and not is_history_kept:
            raise ValueError("history must be None where is_history_kept is False, got a folder")
        beside = None if shadow is None else folder_path(shadow, "shadow").absolute()
        bundle = load_bundle(folder)
        content = None if kept is None else read_snapshot(kept)
        start: HistoryState | LiveHistory | None = None
        if content is not None:
            start = live_history(content, bundle.schema.encoder, bundle.version)
        elif not is_history_kept:
            start = HistoryState(bundle.schema.encoder.history)
        predictor = cls(bundle, start)
        predictor._folder = Path(folder).absolute()
        if usage is not None:
            predictor._usage = LiveUsage(load_usage(usage))
            predictor._usage_folder = folder_path(usage, "usage").absolute()
        if beside is not None:
            predictor._shadow_folder = beside
            with suppress(BundleError):
                predictor.reload_shadow()
        return predictor

    def reload(self, folder: str | Path | None = None) -> str:
        """Serve what lies in the folder now (default: the one that was loaded); returns its version.

        Without a folder, the usage section is loaded again, too, where there is one; see `reload_usage`.

        Calls under way end with the version that they began with, and what was admitted keeps its curve. The live
        owner history goes on, so the bundle's own is not read. BundleError where the bundle is missing, corrupted
        or of another history definition or clock: the old version serves on.
        """
        source = self._followed() if folder is None else folder_path(folder, "folder")
        with self._reloading:
            try:
                fresh = Served.of(load_bundle(source)).following(self._served)
            except Exception:
                self.count("reload_errors")
                raise
            with self._lock:
                self._name_features(fresh)
                self._served = fresh
                self._counts["reloads"] += 1
        if folder is None and self._usage is not None:
            self.reload_usage()
        return fresh.version

    def watch(self, *, interval_s: float = 5.0, on_event: Callable[[WatchEvent], object] | None = None) -> Watch:
        """Reload whenever another version is published in the folder that was loaded, until `stop` is called.

        A usage section and a shadow are followed, too, each by a thread of its own. on_event: called from the watchers'
        threads with what was served or refused. Also a context manager.
        """
        folder, beside = self._followed(), self._shadow_watch(interval_s, on_event)
        if self._usage is not None and self._usage_folder is not None:
            follower = UsageFollower(self)
            beside = Watch(follower, self._usage_folder, interval_s, on_event, files=USAGE_FILES,
                           check=check_usage_files, beside=beside)
        return Watch(self, folder, interval_s, on_event, beside=beside)

    @property
    def version(self) -> str:
        """The version that is served: the first 12 hex digits of its manifest's sha256."""
        return self._served.version

    @property
    def encoder(self) -> Encoder:
        """How the version that is served reads a request: its columns, history definition and clock."""
        return self._served.encoder

    def admit(self, request: Mapping[str, Any], now_s: int, *, arrival_s: int | None = None,
              request_id: str | None = None) -> Lifetime:
        """Predict a request that is placed now, and record its arrival in the owner history.

        request: column -> value; a missing column, category or owner takes the model's unknown path and is
        named in the result's `unknown`. arrival_s: its start, for a request that was already running.
        request_id: by which the log of decisions names it (see `log_to`); nothing else reads it.
        now_s: on the clock of the training trace; `info()["training"]["start_unix_s"]` is the Unix second of its second
        0, where the trace has dates.
        Raises ValueError for an unknown column, a wrong type, a non-integer time or one on another clock.
        """
        try:
            start_s = now = self._served.now(now_s)
            if arrival_s is not None:
                start_s = whole_seconds(arrival_s, "arrival_s")
            if start_s > now:
                raise ValueError(f"arrival_s must be <= now_s ({now}), got {start_s}")
            return self._predict(self._served, request, start_s, now, request_id)
        except ValueError:
            self.count("errors")
            raise

    def predict(self, request: Mapping[str, Any], now_s: int) -> Lifetime:
        """The same prediction as `admit`, recording nothing."""
        try:
            served = self._served
            return self._predict(served, request, served.now(now_s))
        except ValueError:
            self.count("errors")
            raise

    def ended(self, vm: Lifetime | str, now_s: int, *, arrival_s: int | None = None) -> None:
        """Record that an admitted request ended at `now_s`; ValueError where it is not running, or another's.

        vm: its handle, a copy of it, or its id. arrival_s: when it began to run, for a job that waited in a queue
        after its admission; the wait is no part of its lifetime, here as in training.
        """
        try:
            end_s = whole_seconds(now_s, "now_s")
            start_s = None if arrival_s is None else whole_seconds(arrival_s, "arrival_s")
            with self._lock:
                one = self._running.find(vm, self._history.token)
                admission = one.admission
                began_s = admission.arrival_s if start_s is None else start_s
                if end_s < began_s:
                    raise ValueError(f"now_s must be >= the arrival {began_s}, got {end_s}")
                if began_s < admission.arrival_s:
                    raise ValueError(f"arrival_s must be >= the admission {admission.arrival_s}, got {began_s}")
                self._running.remove(one)
                if self._usage is not None:
                    self._usage.ended(admission.id)
                self._history.ended(admission, end_s, start_s)
                self._record_time(end_s)
                self._counts["ended"] += 1
            if self._recorder is not None:
                self._recorder.ended(admission.token, admission.number, end_s, began_s)
        except ValueError:
            self.count("errors")
            raise

    def withdraw(self, vm: Lifetime | str) -> None:
        """Undo an `admit` that was not placed; ValueError where it is not running, or another predictor's.

        vm: its handle, a copy of it, or its id.
        """
        try:
            with self._lock:
                one = self._running.find(vm, self._history.token)
                self._running.remove(one)
                if self._usage is not None:
                    self._usage.ended(one.admission.id)
                self._history.withdraw(one.admission)
                clock_s = one.admission.arrival_s if self._clock_s is None else self._clock_s
                self._counts["withdrawn"] += 1
            if self._recorder is not None:
                self._recorder.withdrawn(one.admission.token, one.admission.number, clock_s)
        except ValueError:
            self.count("errors")
            raise

    def running(self) -> list[str]:
        """Ids of what was admitted and neither ended nor withdrawn, in the order of their admissions."""
        with self._lock:
            running = self._running.all()
        return [one.admission.id for one in running]

    def handle(self, id: str) -> Lifetime:
        """The handle of a running request, made again from its id: the request as it was encoded at its admission.

        The model that is served reads it, so where that is the version that admitted it, all answers are the same.
        ValueError where the id does not run here, or the version that is served reads other features.
        """
        served = self._served
        with self._lock:
            one = self._running.find(id, self._history.token)
            names = self._names[one.version]
        if names != self._names_of(served):
            raise ValueError(f"id must be of a request that version {served.version} can read, got one of "
                             f"{one.version}, which encodes others")
        if one.n_before and one.version == served.version:
            curve = served.builder.curve_of(one.encoded)
        else:
            curve = served.builder.curve(one.features.tolist())
            one = one._replace(encoded=one.features, n_before=0)
        return Lifetime(curve, one.encoded, one.admission.arrival_s, one.unknown, served.version, one.admission,
                        one.n_before)

    def snapshot(self, folder: str | Path) -> None:
        """Write the live history, what is running included, to a folder, for `load(..., history=folder)`.

        It is as it stands at one moment, whatever other threads do. The lock is held while references are copied
        (some milliseconds for 100,000 owners), not while they are packed and written. The folder is made, or its
        former snapshot replaced in one step: whenever the process ends, one of the two is there.
        SnapshotError where the folder holds anything else or is being written; OSError where there is no room, say.
        """
        with self._snapshotting:
            try:
                target = folder_path(folder, "folder")
                with self._lock:
                    cut, running, clock_s = self._history.cut(), self._running.all(), self._clock_s
                    names, encoder = {**self._names}, self._served.encoder
                try:
                    content = content_of(cut, encoder, running, names, clock_s)
                finally:
                    with self._lock:
                        self._history.release()
                write_snapshot(target, content)
            except Exception:
                self.count("snapshot_errors")
                raise
            self.count("snapshots")

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
            now = served.now(now_s)
            if served.first is None:
                answers = [self._predict(served, request, now).remaining(uptime_s)
                           for request, uptime_s in zip(asked, uptimes, strict=True)]
            else:
                answers = self._predict_many(served, served.first, list(map(served.parse, asked)), uptimes, now)
        except ValueError:
            self.count("errors")
            raise
        return np.array(answers)

    def explain(self, vm: Lifetime, uptime_s: float = 0.0) -> Attribution:
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
        return attribute(served.builder, vm.features, background, uptime_s)

    @property
    def counters(self) -> dict[str, int]:
        """Counts since the predictor was made, by the names of `COUNTERS`, which says what each one means."""
        with self._lock:
            return dict(self._counts)

    def info(self) -> dict[str, Any]:
        """What is being served: version, family, number of features, whether answers are compiled, and how.

        is_restored: whether the history went on from a snapshot.

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
            "is_restored": self._is_restored,
            "usage": self.usage_version,
            "training": dict(served.schema.training),
        }

    def before_fork(self) -> None:
        """Wait until no other thread is within the history or a reload (see `forking`)."""
        self._reloading.before_fork()
        self._lock.acquire()

    def after_fork(self, *, is_child: bool) -> None:
        """Go on, in the parent and in the child."""
        self._history.renew_token()  # what each of the two admits from now on, the other does not know
        if is_child:  # where the thread that was taking a snapshot is not
            self._history.release()
            self._snapshotting = threading.Lock()
            if self._recorder is not None:
                self._recorder.after_fork_in_child()
        self._lock.release()
        self._reloading.after_fork(is_child=is_child)

    def _predict(self, served: Served, request: Mapping[str, Any], start_s: int,
                 recorded_s: int | None = None, request_id: str | None = None) -> Lifetime:
        """The prediction for a request that starts at `start_s`; an admission at `recorded_s` where that is given."""
        parsed = served.parse(request)
        first = served.first
        admission = None
        with self._lock:
            history = self._history
            slots = history.slots(parsed.keys)
            if first is None:
                features = served.encoder.encode(parsed, start_s, history)
                answer, n_before = np.array(features), 0
            else:
                answer = first.answer(parsed.numbers, slots, start_s, history.overall, history.rows)
                n_before = first.n_numbers
            unknown = parsed.unknown
            if UNKNOWN in slots:
                unknown += _unknown_keys(served, parsed, slots)
            if recorded_s is not None:
                admission = history.admit(parsed.keys, start_s)
                self._running.enter(Admitted(admission, answer, n_before, unknown, served.version))
                self._record_time(recorded_s)
            self._counts["predictions"] += 1
            self._counts["unknowns"] += bool(unknown)
        curve = served.builder.curve(features) if first is None else served.builder.curve_of(answer)
        recorder = self._recorder
        if recorder is not None and admission is not None:
            shadow = recorder.shadow
            extra = () if shadow is None else tuple(map(request.get, shadow.extra_columns))
            recorder.decided((served, admission, recorded_s, answer, n_before, unknown, curve, request_id, extra))
        return Lifetime(curve, answer, start_s, unknown, served.version, admission, n_before)

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

    def _record_time(self, now_s: int) -> None:
        """Take note of the time of an admission or end; the lock is held."""
        if self._clock_s is not None and now_s < self._clock_s:
            self._counts["clock_steps_back"] += 1
        self._clock_s = now_s

    def _name_features(self, served: Served) -> None:
        names = self._names_of(served)
        known = next((each for each in self._names.values() if each == names), names)  # one tuple for all that agree
        self._names[served.version] = known

    @staticmethod
    def _names_of(served: Served) -> tuple[str, ...]:
        return served.encoder.feature_names()

    def _followed(self) -> Path:
        if self._folder is None:
            raise ValueError("folder must be given, since this predictor was not loaded from one, got None")
        return self._folder


def _unknown_keys(served: Served, parsed: Parsed, slots: Sequence[int]) -> tuple[str, ...]:
    """Names of the histories that there are none of, for history keys that a request gives."""
    keys = served.encoder.history.keys
    return tuple(key.history_name for key, given, slot in zip(keys, parsed.keys, slots, strict=True)
                 if slot == UNKNOWN and given is not None)


def _elements(given: Any, name: str) -> list[Any]:
    """The elements of a list, an array or another sequence; ValueError for what is none."""
    is_sequence = hasattr(given, "__len__") and hasattr(given, "__getitem__") and getattr(given, "ndim", 1) > 0
    if not is_sequence or issubclass(type(given), str | bytes | bytearray | Mapping | type):
        raise ValueError(f"{name} must be a sequence, got {shown(given)}")
    return list(given)
