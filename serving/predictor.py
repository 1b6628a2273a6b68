"""The predictor that a scheduler imports: one prediction at admission, lookups ever after."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.serving.answers import Attribution, Current, FirstAnswer, Lifetime, RefreshedLifetime, Served, attribute
from sojourn.serving.bundle import Bundle, load_bundle
from sojourn.serving.checks import Moment, clock_second, folder_path
from sojourn.serving.curves import HazardCurve, checked_seconds, recalibrated
from sojourn.serving.decisions import Decisions, LogSettings
from sojourn.serving.errors import BundleError, shown
from sojourn.serving.forking import join_forks
from sojourn.serving.inputs import UNKNOWN, Encoder, HistoryState, Parsed
from sojourn.serving.live import (
    N_RUNNING_MAX,
    Counters,
    LiveHistory,
    OpenRequests,
    UsageAnswers,
    live_history,
    read_snapshot,
)
from sojourn.serving.usage import USAGE_FILES, UsageAnswer, check_usage_files
from sojourn.serving.watch import ReloadGate, Watch, WatchEvent

_INF = math.inf
N_AT_ONCE = 64
"""Requests of `remaining_many` that are answered under one lock: half a millisecond."""


class Predictor:
    """Predicts lifetimes in process; needs only numpy and onnxruntime (numba where installed).

    Times are whole seconds on the training trace's clock. Safe to use from several threads and across forks; not
    from a signal handler. Takes over the bundle's history: one bundle object serves one predictor.

    One lock guards the history, what is open, what was observed and the counts; it is held for microseconds.
    """

    def __init__(self, bundle: Bundle, history: HistoryState | LiveHistory | None = None, *,
                 recalibrate: bool = False) -> None:
        self._is_restored = isinstance(history, LiveHistory)
        if not isinstance(history, LiveHistory):
            history = LiveHistory(bundle.history if history is None else history, (), {}, None)
        self._lock = threading.Lock()
        self._reloading = ReloadGate()  # passed before the lock is taken, never within it
        self._folder: Path | None = None
        self._current = Current(Served.of(bundle))
        self._counters = Counters(self._lock)
        self._usage = UsageAnswers(self._counters, self._reloading)
        self._open = OpenRequests(self._counters, self._current, history, self._usage.ended, recalibrate=recalibrate)
        self._decisions = Decisions(self._counters, self._current, self._open.running)
        join_forks(self)

    @classmethod
    def load(cls, folder: str | Path, *, is_history_kept: bool = True, history: str | Path | None = None,
             usage: str | Path | None = None, shadow: str | Path | None = None,
             recalibrate: bool = False) -> Predictor:
        """Load a bundle folder; BundleError where it is missing, corrupted or of another version.

        is_history_kept: start with the owner history of the trace's end (the default), or with none.
        history: the folder that `snapshot` fills: go on from there, what was running included. Where no snapshot was
        completed yet (no folder, or none with its SNAPSHOT.json) it starts as without; `info()["is_restored"]` says
        which. SnapshotError where the snapshot is corrupted, of another format, or not of the bundle's history
        definition and clock, or where the folder holds anything else than a snapshot.
        usage: the folder of a usage section, for `observe` and `usage`; BundleError as for the bundle.
        shadow: the bundle folder of a challenger that answers each admission, too, off the caller's path. Its answers
        are never used; see `shadow`. One that cannot be loaded is counted (`shadow_errors`), and the champion serves.
        recalibrate: learn from the requests that end here, and give new requests curves that are recalibrated by it
        (docs/running_requests.md). A snapshot of the same version goes on; another version begins anew.
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
        predictor = cls(bundle, start, recalibrate=recalibrate)
        predictor._folder = Path(folder).absolute()
        if usage is not None:
            predictor._usage.load(usage)
        if beside is not None:
            predictor._decisions.folder = beside
            with suppress(BundleError):
                predictor.reload_shadow()
        return predictor

    @property
    def version(self) -> str:
        """The version that is served: the first 12 hex digits of its manifest's sha256."""
        return self._current.served.version

    @property
    def encoder(self) -> Encoder:
        """How the version that is served reads a request: its columns, history definition and clock."""
        return self._current.served.encoder

    @property
    def counters(self) -> dict[str, int]:
        """Counts since the predictor was made, by the names of `COUNTERS`, which says what each one means."""
        with self._lock:
            return dict(self._counters.n)

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter."""
        self._counters.count(name, amount)

    def info(self) -> dict[str, Any]:
        """What is being served: version, family, number of features, whether answers are compiled, and how.

        clock: of `now_s`: "Unix seconds", or "the training trace's own" if that has no dates. n_running: requests that
        are held as running, of at most n_running_max. n_dropped: of whose end nobody told, and which were forgotten for
        that bound. is_restored: whether the history went on from a snapshot. recalibration: on, or off and why.
        refresh_ages_s: see `next_refresh`.

        walk: "leaf masks", "range walk" (larger trees, category sets), or "ONNX Runtime" where numba is not installed:
        a first answer then costs several times as much, and has the same bits.
        """
        served = self._current.served
        return {
            "version": served.version,
            "family": served.schema.family,
            "kind": served.schema.kind,
            "n_features": served.schema.n_features,
            "columns": list(served.encoder.columns()),
            "is_compiled": served.builder.is_compiled,
            "walk": served.builder.walk,
            "refresh_ages_s": [] if served.refresher is None else [*served.refresher.ages_s],
            "n_running": len(self._open.running),
            "n_running_max": N_RUNNING_MAX,
            "n_dropped": self._counters.n["dropped"],
            "is_restored": self._is_restored,
            "recalibration": self._open.recalibration.state,
            "usage": self.usage_version,
            "clock": "Unix seconds" if served.schema.is_dated else "the training trace's own",
            "training": dict(served.schema.training),
        }

    def admit(self, request: Mapping[str, Any], now_s: Moment, *, arrival_s: Moment | None = None,
              request_id: str | None = None) -> Lifetime:
        """Predict a request that is placed now, and record its arrival in the owner history.

        request: column -> value; a missing column, category or owner takes the model's unknown path and is
        named in the result's `unknown`. arrival_s: its start, for a request that was already running.
        request_id: by which the log of decisions names it (see `log_to`); nothing else reads it.
        now_s: an int, a float or a datetime with a time zone: Unix time (`time.time()`) if the training trace had
        dates, else seconds on its own clock. `info()["clock"]` says which one.
        Raises ValueError for an unknown column, a wrong type, or a time on another clock.
        """
        served = self._current.served
        try:  # `with self._counters` does the same, 0.2 us later
            start_s = now = served.now(now_s)
            if arrival_s is not None:
                start_s = clock_second(arrival_s, "arrival_s")
            if start_s > now:
                raise ValueError(f"arrival_s must be <= now_s ({now}), got {start_s}")
            return self._predict(served, request, start_s, now, request_id)
        except ValueError:
            self.count("errors")
            raise

    def predict(self, request: Mapping[str, Any], now_s: Moment) -> Lifetime:
        """The same prediction as `admit`, recording nothing."""
        served = self._current.served
        try:
            return self._predict(served, request, served.now(now_s))
        except ValueError:
            self.count("errors")
            raise

    def remaining_many(self, requests: Sequence[Mapping[str, Any]], uptimes_s: Sequence[float] | np.ndarray,
                       now_s: Moment) -> np.ndarray:
        """Mean remaining seconds, float64 (n,), of n requests that arrive now, at one uptime each.

        Records nothing; all answers are of one version.
        """
        served = self._current.served
        answers: list[float] | None
        with self._counters:
            asked, given = _elements(requests, "requests"), _elements(uptimes_s, "uptimes_s")
            if len(asked) != len(given):
                raise ValueError(f"uptimes_s must have {len(asked)} elements, got {len(given)}")
            uptimes = [uptime_s if type(uptime_s) is float and 0.0 <= uptime_s < _INF
                       else checked_seconds(uptime_s, "uptime_s") for uptime_s in given]
            now = served.now(now_s)
            if served.first is None or self._open.recalibration.learnt is not None:
                answers = [self._predict(served, request, now).remaining(uptime_s)
                           for request, uptime_s in zip(asked, uptimes, strict=True)]
            else:
                answers = self._predict_many(served, served.first, list(map(served.parse, asked)), uptimes, now)
        return self.remaining_many(asked, uptimes, now_s) if answers is None else np.array(answers)

    def explain(self, vm: Lifetime, uptime_s: float = 0.0) -> Attribution:
        """What each group of inputs adds to the request's log10 median remaining seconds, as it was predicted.

        The answer of `sojourn predict --explain`. It runs the model thousands of times, outside of every lock:
        milliseconds to seconds, not for a placement loop. A refreshed handle is explained at its moment, or later,
        against a request of which nothing is known. ValueError where the handle's version is no longer served.
        """
        served = self._current.served
        if not isinstance(vm, Lifetime):
            raise ValueError(f"vm must be a Lifetime, got {shown(vm)}")
        if vm.version != served.version:
            raise ValueError(f"vm must be of the version that is served ({served.version}), got one of {vm.version}")
        if isinstance(vm, RefreshedLifetime) and served.refresher is not None:
            refresher = served.refresher
            with self._lock:
                nothing = refresher.encoder.encode(refresher.encoder.parse({}), vm.refreshed_s, self._open.history)
            asked_s = max(uptime_s, float(vm.refreshed_s - vm.arrival_s))
            return attribute(refresher.builder, vm.features, np.array([nothing]), asked_s)
        background = served.background
        if background is None:  # an older bundle: against a request of which nothing but its arrival is known
            with self._lock:
                nothing = served.encoder.encode(served.parse({}), vm.arrival_s, self._open.history)
            background = np.array([nothing])
        return attribute(served.builder, vm.features, background, uptime_s)

    def ended(self, vm: Lifetime | str, now_s: Moment, *, arrival_s: Moment | None = None) -> None:
        """Record that an admitted request ended at `now_s`; ValueError where it is not running, or another's.

        vm: its handle, a copy of it, or its id. arrival_s: when it began to run, for a job that waited in a queue
        after its admission; the wait is no part of its lifetime, here as in training.
        """
        try:
            end_s = self._current.served.now(now_s)
            start_s = None if arrival_s is None else clock_second(arrival_s, "arrival_s")
            with self._lock:
                admission, began_s = self._open.ended(vm, end_s, start_s)
        except ValueError:
            self.count("errors")
            raise
        recorder = self._decisions.recorder
        if recorder is not None:
            recorder.ended(admission.token, admission.number, end_s, began_s)

    def withdraw(self, vm: Lifetime | str) -> None:
        """Undo an `admit` that was not placed; ValueError where it is not running, or another predictor's.

        vm: its handle, a copy of it, or its id.
        """
        with self._counters, self._lock:
            admission, clock_s = self._open.withdraw(vm)
        recorder = self._decisions.recorder
        if recorder is not None:
            recorder.withdrawn(admission.token, admission.number, clock_s)

    def refresh(self, vm: Lifetime | str, now_s: Moment, *, arrival_s: Moment | None = None) -> Lifetime:
        """A handle with a new curve for a running request, from what its owner did until `now_s`; one model run.

        The curve counts from the request's age at `now_s` on. The handle names the same admission; the old one does,
        too, and keeps its curve. `next_refresh` says when it is worth it. Before the first age that it names, and where
        the version that is served has no model for it, the answer is the handle as `handle` gives it.

        vm: its handle, a copy of it, or its id. arrival_s: when it began to run, as in `ended`. A clock that was set
        back is not corrected, as in `admit`: what the history knows, it knows. ValueError where the request is not
        running, or another's; and for a time before its arrival or on another clock.
        """
        served = self._current.served
        with self._counters:
            now = served.now(now_s)
            start_s = None if arrival_s is None else clock_second(arrival_s, "arrival_s")
            with self._lock:
                if served.instant_s != self._open.history.definition.instant_s:  # reloaded since
                    served = self._current.served
                one = self._open.refreshed(served, vm, now, start_s)
        return self._open.handle_of(served, one)

    def next_refresh(self, uptime_s: float) -> float:
        """The uptime at which a request that has run for `uptime_s` is worth a `refresh`, s; infinity if never.

        At these uptimes a new curve was better than the held one on the validation window (`info()["refresh_ages_s"]`).
        """
        refresher = self._current.served.refresher
        asked_s = checked_seconds(uptime_s, "uptime_s")
        return math.inf if refresher is None else refresher.next_s(asked_s)

    def running(self) -> list[str]:
        """Ids of what was admitted and neither ended nor withdrawn, in the order of their admissions."""
        with self._lock:
            running = self._open.running.all()
        return [one.admission.id for one in running]

    def handle(self, id: str) -> Lifetime:
        """The handle of a running request, made again from its id: the request as it was encoded at its admission, or
        at its latest `refresh`.

        The model that is served reads it, so where that is the version that admitted it, all answers are the same.
        ValueError where the id does not run here, or the version that is served reads other features.
        """
        served = self._current.served
        with self._lock:
            one = self._open.find(id)
        return self._open.handle_of(served, one)

    def snapshot(self, folder: str | Path) -> None:
        """Write the live history, what is running included, to a folder, for `load(..., history=folder)`.

        It is as it stands at one moment, whatever other threads do. The lock is held while references are copied
        (some milliseconds for 100,000 owners), not while they are packed and written. The folder is made, or its
        former snapshot replaced in one step: whenever the process ends, one of the two is there.
        SnapshotError where the folder holds anything else or is being written; OSError where there is no room, say.
        """
        self._open.snapshot(folder)

    def reload(self, folder: str | Path | None = None) -> str:
        """Serve what lies in the folder now (default: the one that was loaded); returns its version.

        Without a folder, the usage section is loaded again, too, where there is one; see `reload_usage`.

        Calls under way end with the version that they began with, and what was admitted keeps its curve. The live
        owner history goes on, so the bundle's own is not read. Where the new version sets instant ends apart and the
        old one did not, or the other way round, the history is read anew (some us for each owner, under the lock), and
        calls under way end with the new version. BundleError where the bundle is missing, corrupted or of another
        history definition or clock: the old version serves on.
        """
        source = self._followed() if folder is None else folder_path(folder, "folder")
        with self._reloading:
            try:
                fresh = Served.of(load_bundle(source)).following(self._current.served)
            except Exception:
                self.count("reload_errors")
                raise
            with self._lock:
                self._open.serve(fresh)
        if folder is None and self._usage.live is not None:
            self.reload_usage()
        return fresh.version

    def watch(self, *, interval_s: float = 5.0, on_event: Callable[[WatchEvent], object] | None = None) -> Watch:
        """Reload whenever another version is published in the folder that was loaded, until `stop` is called.

        A usage section and a shadow are followed, too, each by a thread of its own. on_event: called from the watchers'
        threads with what was served or refused. Also a context manager.
        """
        folder, decisions, usage, beside = self._followed(), self._decisions, self._usage, None
        if decisions.folder is not None:
            beside = Watch(decisions, decisions.folder, interval_s, on_event)
        if usage.folder is not None:
            beside = Watch(usage, usage.folder, interval_s, on_event, files=USAGE_FILES, check=check_usage_files,
                           beside=beside)
        return Watch(self, folder, interval_s, on_event, beside=beside)

    def reload_usage(self, folder: str | Path | None = None) -> str:
        """Serve the usage section that lies in the folder now (default: the one that was loaded); returns its version.

        What was observed goes on. BundleError where the section is missing, corrupted or of another clock, ValueError
        where none was loaded: the old one serves on.
        """
        return self._usage.reload(folder)

    def observe(self, vm: Lifetime | str, time_s: int, used: float, mem_used: float | None = None) -> bool:
        """Take a sample of what a request used at a time; False where it is dropped (see `counters`).

        vm: the handle or id of a running request, or the trace's id of one that the usage section has a wave of.
        used, mem_used: shares of the cores, and of the memory, that it reserved. Samples may come in any order. What
        was observed is forgotten when the request ends; it is not part of a snapshot.
        ValueError for what is no sample, for a request that does not run, or where no usage section was loaded.
        """
        with self._counters:
            return self._usage.observe(self._open, vm, time_s, used, mem_used)

    def usage(self, vm: Lifetime | str, resource: str = "cpu") -> UsageAnswer:
        """What a request is expected to use, by what was observed of it and what the usage section knows.

        vm: as for `observe`. resource: `cpu` or `mem`. ValueError as there.
        """
        with self._counters:
            return self._usage.answer(self._open, vm, resource)

    def forget_usage(self, request_id: str) -> bool:
        """Forget what was observed of a request that was never admitted here; False where that is nothing."""
        return self._usage.forget(request_id)

    @property
    def usage_version(self) -> str | None:
        """The version of the usage section that is served; None where there is none."""
        return self._usage.version or None

    def log_to(self, folder: str | Path, *, owner_key: bytes | None = None, flush_s: float = 1.0,
               file_mib: float = 64.0, file_s: float = 86_400.0, keep_mib: float = 16_384.0,
               keep_s: float = 400.0 * 86_400.0) -> None:
        """Log each admission from now on, and how it ended, to files in a folder; see docs/monitoring.md.

        A thread writes them, every `flush_s`; a killed process loses what came after the last write. A disk that fails
        costs decisions that are counted (`decisions_lost`), never an answer. Several processes may log to one folder.
        The settings are those of `LogSettings`. A log that was begun before is ended. ValueError for a wrong setting.
        """
        settings = LogSettings(owner_key, flush_s, file_mib, file_s, keep_mib, keep_s)
        self._decisions.log_to(folder_path(folder, "folder").absolute(), settings)

    def stop_logging(self) -> None:
        """Write what was decided so far, and log no further; without a log, nothing."""
        recorder = self._decisions.recorder
        if recorder is not None and recorder.folder is not None:
            self._decisions.log_to(None, None)

    def flush_decisions(self) -> bool:
        """Have the shadow answer, and the log hold, all that was decided so far; False where the disk failed."""
        recorder = self._decisions.recorder
        return True if recorder is None else recorder.flush()

    def reload_shadow(self, folder: str | Path | None = None) -> str:
        """Have the bundle that lies in the folder now (default: the one that was loaded) answer as the shadow.

        Returns its version. BundleError where it is missing, corrupted, or of another history definition or clock than
        the champion: the shadow from before, or none, goes on. Differences are counted from 0.
        """
        return self._decisions.reload(folder)

    def shadow(self) -> Mapping[str, Any]:
        """The shadow's version (None where there is none), why it is refused, and how far it is from the champion.

        log10_ratio: 50, 90 and 99 % quantiles of |log10(shadow / champion)| of `remaining` at creation, as the upper
        edge of its bin, which is 10^0.05 = 12 % wide (the first reaches from 0 to 0.001, the last holds all above 10);
        NaN before the first answer. Class changes and errors are among `counters`.
        """
        return self._decisions.comparison()

    def before_fork(self) -> None:
        """Wait until no other thread is within the history or a reload (see `forking`)."""
        self._reloading.before_fork()
        self._lock.acquire()

    def after_fork(self, *, is_child: bool) -> None:
        """Go on, in the parent and in the child."""
        self._open.after_fork(is_child=is_child)
        if is_child and self._decisions.recorder is not None:
            self._decisions.recorder.after_fork_in_child()
        self._lock.release()
        self._reloading.after_fork(is_child=is_child)

    def _predict(self, served: Served, request: Mapping[str, Any], start_s: int,
                 recorded_s: int | None = None, request_id: str | None = None) -> Lifetime:
        """The prediction for a request that starts at `start_s`; an admission at `recorded_s` where that is given."""
        parsed = served.parse(request)
        admission, opened, n = None, self._open, self._counters.n
        with self._lock:
            if served.instant_s != opened.history.definition.instant_s:  # reloaded since: the history is read otherwise
                served = self._current.served
                parsed = served.parse(request)
            encoded, n_before, unknown = opened.encoded(served, served, parsed, start_s)
            factors = opened.recalibration.factors_of(served)
            if recorded_s is not None:
                admission = opened.admit(parsed.keys, start_s, recorded_s, encoded, n_before, unknown, served.version,
                                         None, factors)
            n["predictions"] += 1
            n["unknowns"] += bool(unknown)
        builder = served.builder
        curve = builder.curve_of(encoded) if n_before else builder.curve(encoded.tolist())
        if factors is not None and isinstance(curve, HazardCurve):
            curve = recalibrated(curve, factors)
        recorder = self._decisions.recorder
        if recorder is not None and admission is not None:
            shadow = recorder.shadow
            extra = () if shadow is None else tuple(map(request.get, shadow.extra_columns))
            recorder.decided((served, admission, recorded_s, encoded, n_before, unknown, curve, request_id, extra))
        return Lifetime(curve, encoded, start_s, unknown, served.version, admission, n_before)

    def _predict_many(self, served: Served, first: FirstAnswer, parsed: list[Parsed], uptimes_s: list[float],
                      now_s: int) -> list[float] | None:
        """Mean remaining seconds of parsed requests; None where a reload meanwhile has the history read otherwise."""
        answers: list[float] = []
        for start in range(0, len(parsed), N_AT_ONCE):
            chunk = parsed[start:start + N_AT_ONCE]
            with self._lock:
                history = self._open.history
                if served.instant_s != history.definition.instant_s:
                    return None
                slots = [history.slots(one.keys) for one in chunk]
                answers += first.remaining(chunk, slots, now_s, history.overall, history.rows,
                                           uptimes_s[start:start + N_AT_ONCE])
                self._counters.n["predictions"] += len(chunk)
                self._counters.n["unknowns"] += sum([bool(one.unknown or (UNKNOWN in own
                                                                      and served.unknown_keys(one, own)))
                                                 for one, own in zip(chunk, slots, strict=True)])
        return answers

    def _followed(self) -> Path:
        if self._folder is None:
            raise ValueError("folder must be given, since this predictor was not loaded from one, got None")
        return self._folder


def _elements(given: Any, name: str) -> list[Any]:
    """The elements of a list, an array or another sequence; ValueError for what is none."""
    is_sequence = hasattr(given, "__len__") and hasattr(given, "__getitem__") and getattr(given, "ndim", 1) > 0
    if not is_sequence or issubclass(type(given), str | bytes | bytearray | Mapping | type):
        raise ValueError(f"{name} must be a sequence, got {shown(given)}")
    return list(given)
