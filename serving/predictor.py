"""The predictor that a scheduler imports: one prediction at admission, then lookups only."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.serving.answers import (
    LATEST_ENDS,
    Attribution,
    Current,
    Lifetime,
    RefreshedLifetime,
    Served,
    attribute,
)
from sojourn.serving.bundle import Bundle, load_bundle
from sojourn.serving.checks import Moment, clock_second, folder_path
from sojourn.serving.curves import Curve, HazardCurve, checked_seconds, recalibrated
from sojourn.serving.decisions import Decisions, LogSettings
from sojourn.serving.errors import BundleError, shown
from sojourn.serving.forking import join_forks
from sojourn.serving.inputs import Encoder, HistoryState, Parsed
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
"""`remaining_many` answers so many requests while it holds the lock once: half a millisecond."""


class Predictor:
    """Predicts lifetimes in process; needs only numpy and onnxruntime (and numba if installed).

    Times are whole seconds on the training trace's clock. Safe in several threads and across forks,
    but not in a signal handler. The predictor changes the bundle's history, so give each predictor
    a bundle object of its own.

    One lock guards the history, open requests, observed use and counters; it is held for microseconds.
    """

    def __init__(self, bundle: Bundle, history: HistoryState | LiveHistory | None = None, *,
                 recalibrate: bool | None = None) -> None:
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
             recalibrate: bool | None = None) -> Predictor:
        """Load a bundle folder; BundleError if it is missing, corrupted or of another version.

        is_history_kept: start with the owner history at the trace's end (the default), or with none.
        history: a folder written by `snapshot`; the predictor continues from it, running requests
        included. If the folder holds no complete snapshot yet, the predictor starts without; see
        `info()["is_restored"]`. SnapshotError if the snapshot is corrupted, or its format, history
        definition or clock differ, or if the folder holds other files.
        usage: the folder of a usage section, for `observe` and `usage`; BundleError as for the bundle.
        shadow: the bundle folder of a challenger. It predicts each admission, too, in another
        thread; its answers are only compared (see `shadow`). If it cannot be loaded,
        `shadow_errors` counts it.
        recalibrate: learn factors from requests that end here, and apply them to the curves of new
        requests (docs/running_requests.md); None: if the served version was judged so. A snapshot of
        the same version continues them; another version starts anew.
        """
        snapshot = None if history is None else folder_path(history, "history")
        if snapshot is not None and not is_history_kept:
            raise ValueError("history must be None where is_history_kept is False, got a folder")
        shadow_folder = None if shadow is None else folder_path(shadow, "shadow").absolute()
        bundle = load_bundle(folder)
        content = None if snapshot is None else read_snapshot(snapshot)
        start: HistoryState | LiveHistory | None = None
        if content is not None:
            start = live_history(content, bundle.schema.encoder, bundle.version)
        elif not is_history_kept:
            start = HistoryState(bundle.schema.encoder.history)
        predictor = cls(bundle, start, recalibrate=recalibrate)
        predictor._folder = Path(folder).absolute()
        if usage is not None:
            predictor._usage.load(usage)
        if shadow_folder is not None:
            predictor._decisions.folder = shadow_folder
            with suppress(BundleError):
                predictor.reload_shadow()
        return predictor

    @property
    def version(self) -> str:
        """The served version: the first 12 hex digits of the sha256 of its manifest."""
        return self._current.served.version

    @property
    def encoder(self) -> Encoder:
        """How the served version reads a request: its columns, history definition and clock."""
        return self._current.served.encoder

    @property
    def counters(self) -> dict[str, int]:
        """Counts since the predictor was created, by name; `COUNTERS` explains each name."""
        with self._lock:
            return dict(self._counters.n)

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter."""
        self._counters.count(name, amount)

    def info(self) -> dict[str, Any]:
        """The served model: version, family, number of features, whether answers are compiled, and how.

        clock: of `now_s`: "Unix seconds", or "the training trace's own" if that has no dates.
        n_running: running requests, at most n_running_max. n_dropped: requests without a reported
        end that were dropped to stay within it. is_restored: whether the history continues a
        snapshot.
        recalibration: on, or off and why. refresh_ages_s: see `next_refresh`.

        walk: "leaf masks", "range walk" (larger trees, category sets), or "ONNX Runtime" if numba
        is not installed: a first answer then takes several times as long, and has the same bits.
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

        request: column -> value. A missing column, category or owner counts as unknown, and the
        result's `unknown` lists it. arrival_s: its start, if it is already running.
        request_id: its name in the decision log (see `log_to`); nothing else reads it.
        now_s: an int, a float or a datetime with a time zone: Unix time (`time.time()`) if the
        training trace had dates, else seconds on its own clock. See `info()["clock"]`. Raises
        ValueError for an unknown column, a wrong type, or a time on another clock.
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
        """The same prediction as `admit`, but nothing is recorded."""
        served = self._current.served
        try:
            return self._predict(served, request, served.now(now_s))
        except ValueError:
            self.count("errors")
            raise

    def remaining_many(self, requests: Sequence[Mapping[str, Any]], uptimes_s: Sequence[float] | np.ndarray,
                       now_s: Moment) -> np.ndarray:
        """Mean remaining seconds, float64 (n,), of n requests that arrive now, at one uptime each.

        Records nothing; one version gives all answers.
        """
        served = self._current.served
        answers: list[float] | None
        with self._counters:
            rows, ages_s = _elements(requests, "requests"), _elements(uptimes_s, "uptimes_s")
            if len(rows) != len(ages_s):
                raise ValueError(f"uptimes_s must have {len(rows)} elements, got {len(ages_s)}")
            uptimes = [uptime_s if type(uptime_s) is float and 0.0 <= uptime_s < _INF
                       else checked_seconds(uptime_s, "uptime_s") for uptime_s in ages_s]
            now = served.now(now_s)
            if (served.builder.first is None or self._open.recalibration.learnt is not None
                    or self._open.habits is not None):
                answers = [self._predict(served, request, now).remaining(uptime_s)
                           for request, uptime_s in zip(rows, uptimes, strict=True)]
            else:
                answers = self._predict_many(served, rows, uptimes, now)
        return self.remaining_many(rows, uptimes, now_s) if answers is None else np.array(answers)

    def explain(self, vm: Lifetime, uptime_s: float = 0.0) -> Attribution:
        """How much each group of inputs adds to the request's predicted log10 median remaining seconds.

        `sojourn model predict --explain` prints it. It runs the model thousands of times, without a lock,
        in milliseconds to seconds: not for a placement loop. A refreshed handle is explained at its
        refresh or later, against a request with no known inputs. ValueError if the handle's version
        is no longer served.
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
            age_s = max(uptime_s, float(vm.refreshed_s - vm.arrival_s))
            return attribute(refresher.builder, vm.features, np.array([nothing]), age_s)
        background = served.background
        if background is None:  # an older bundle: compare with a request that gives only its arrival
            with self._lock:
                nothing = served.encoder.encode(served.parse({}), vm.arrival_s, self._open.history)
            background = np.array([nothing])
        found = attribute(served.builder, vm.features, background, uptime_s)
        return found if served.habits is None else found.with_last(LATEST_ENDS, vm.quantile(0.5, uptime_s))

    def started(self, vm: Lifetime | str, now_s: Moment) -> Lifetime:
        """The handle of a request that waited after its admission and begins to run at `now_s`.

        Its uptimes, its lifetime and recalibration count from then on. Who reports one start must
        report them all, also of requests that wait for no second. A refresh during the wait is
        dropped, since its age was that of the wait. vm: its handle, a copy of it, or its id.
        ValueError if it does not run here or has begun at another second, or before its admission.
        """
        with self._counters:
            start_s = self._current.served.now(now_s)
            handle = copy(vm) if type(vm) is Lifetime else self.handle(str(vm.id) if isinstance(vm, Lifetime) else vm)
            with self._lock:
                self._open.started(vm, start_s)
            if isinstance(handle, RefreshedLifetime):
                handle = self.handle(str(handle.id))
        handle.arrival_s = start_s
        return handle

    def ended(self, vm: Lifetime | str, now_s: Moment, *, arrival_s: Moment | None = None) -> None:
        """Record that an admitted request ended at `now_s`; ValueError if it does not run here.

        vm: its handle, a copy of it, or its id. arrival_s: when it began to run, if it waited in a
        queue after its admission and `started` did not say so. The wait is not part of the
        lifetime, as in training.
        """
        try:
            end_s = self._current.served.now(now_s)
            start_s = None if arrival_s is None else clock_second(arrival_s, "arrival_s")
            with self._lock:
                before = self._open.recalibration.state
                admission, began_s = self._open.ended(vm, end_s, start_s)
                state = self._open.recalibration.state
        except ValueError:
            self.count("errors")
            raise
        recorder = self._decisions.recorder
        if recorder is not None:
            recorder.ended(admission.token, admission.number, end_s, began_s)
        if state != before:  # the wait is known too late to learn from
            warnings.warn(f"recalibration is {state}", RuntimeWarning, stacklevel=2)

    def withdraw(self, vm: Lifetime | str) -> None:
        """Undo an `admit` that was not placed; ValueError if it does not run here.

        vm: its handle, a copy of it, or its id.
        """
        with self._counters, self._lock:
            admission, clock_s = self._open.withdraw(vm)
        recorder = self._decisions.recorder
        if recorder is not None:
            recorder.withdrawn(admission.token, admission.number, clock_s)

    def refresh(self, vm: Lifetime | str, now_s: Moment, *, arrival_s: Moment | None = None) -> Lifetime:
        """A handle with a new curve for a running request, from its owner's history at `now_s`; one model run.

        The curve is valid from the request's age at `now_s` on. The new handle and the old one name
        the same admission; the old one keeps its curve. `next_refresh` gives the uptimes at which a
        refresh helps. Before the first of them, or if the served version has no model for it, the
        result is that of `handle`.

        vm: its handle, a copy of it, or its id. arrival_s: when it began to run, as in `ended`. As
        in `admit`, a clock that was set back removes nothing from the history. ValueError if the
        request does not run here, or the time is before its arrival or on another clock.
        """
        served = self._current.served
        with self._counters:
            now = served.now(now_s)
            start_s = None if arrival_s is None else clock_second(arrival_s, "arrival_s")
            with self._lock:
                if served.instant_s != self._open.history.definition.instant_s:  # reloaded since
                    served = self._current.served
                admitted = self._open.refreshed(served, vm, now, start_s)
        return self._open.handle_of(served, admitted)

    def next_refresh(self, uptime_s: float) -> float:
        """The next uptime, s, at which `refresh` helps a request that has run for `uptime_s`; infinity if none.

        `info()["refresh_ages_s"]`: there a new curve was better on the validation window.
        """
        refresher = self._current.served.refresher
        age_s = checked_seconds(uptime_s, "uptime_s")
        return math.inf if refresher is None else refresher.next_s(age_s)

    def running(self) -> list[str]:
        """Ids of requests that are admitted and neither ended nor withdrawn, in the order of their admissions."""
        with self._lock:
            running = self._open.running.all()
        return [admitted.admission.id for admitted in running]

    def handle(self, id: str) -> Lifetime:
        """The handle of a running request, rebuilt from its id.

        The served model reads the features of its admission or latest `refresh`, so the version
        that admitted it gives the same answers. ValueError if the id does not run here, or the
        served version reads other features.
        """
        served = self._current.served
        with self._lock:
            admitted = self._open.find(id)
        return self._open.handle_of(served, admitted)

    def snapshot(self, folder: str | Path) -> None:
        """Write the live history and the running requests to a folder, for `load(..., history=folder)`.

        It is the state of one moment, whatever other threads do. The lock is held while references
        are copied (some milliseconds for 100,000 owners), not while they are packed and written. A
        new snapshot replaces the former one in one step, so a killed process leaves one of the two.
        SnapshotError if the folder holds other files or is being written; OSError, for example, if
        the disk is full.
        """
        self._open.snapshot(folder)

    def reload(self, folder: str | Path | None = None) -> str:
        """Serve the bundle that is in the folder now (default: the loaded folder); returns its version.

        Without a folder, the usage section, if any, is loaded again, too; see `reload_usage`.

        Running calls finish with their version, and admitted requests keep their curves. The live
        owner history continues; that of the bundle is not read. If only one of the two versions
        sets instant ends apart, the history is read anew (some us for each owner, under the lock),
        and running calls finish with the new version. BundleError if the bundle is missing,
        corrupted or of another history definition or clock: the old version serves on.
        """
        source = self._followed() if folder is None else folder_path(folder, "folder")
        with self._reloading:
            try:
                fresh = Served.of(load_bundle(source)).following(self._current.served)
                habits = self._open.habits_of(fresh)
            except Exception:
                self.count("reload_errors")
                raise
            with self._lock:
                self._open.serve(fresh, habits)
        if folder is None and self._usage.live is not None:
            self.reload_usage()
        return fresh.version

    def watch(self, *, interval_s: float = 5.0, on_event: Callable[[WatchEvent], object] | None = None) -> Watch:
        """Reload whenever another version is published in the loaded folder, until `stop` is called.

        A usage section and a shadow are watched, too, each by its own thread. on_event: called in
        these threads with each version that was served or refused. The result is also a context
        manager.
        """
        folder, decisions, usage, watcher = self._followed(), self._decisions, self._usage, None
        if decisions.folder is not None:
            watcher = Watch(decisions, decisions.folder, interval_s, on_event)
        if usage.folder is not None:
            watcher = Watch(usage, usage.folder, interval_s, on_event, files=USAGE_FILES, check=check_usage_files,
                            beside=watcher)
        return Watch(self, folder, interval_s, on_event, beside=watcher)

    def reload_usage(self, folder: str | Path | None = None) -> str:
        """Serve the usage section that is in the folder now (default: the loaded folder); returns its version.

        Observed use is kept. BundleError if the section is missing, corrupted or of another clock,
        ValueError if none was loaded: the old one serves on.
        """
        return self._usage.reload(folder)

    def observe(self, vm: Lifetime | str, time_s: int, used: float, mem_used: float | None = None) -> bool:
        """Record a sample of what a request used at a time; False if it is dropped (see `counters`).

        vm: the handle or id of a running request, or the id in the trace of one with a wave in the
        usage section. used, mem_used: shares of the cores, and of the memory, that it reserved, in
        any order of time. Samples are deleted when the request ends; a snapshot does not hold them.
        ValueError for a wrong sample, a request that does not run, or if no usage section was
        loaded.
        """
        with self._counters:
            return self._usage.observe(self._open, vm, time_s, used, mem_used)

    def usage(self, vm: Lifetime | str, resource: str = "cpu") -> UsageAnswer:
        """What a request is expected to use, from its samples and the usage section.

        vm: as for `observe`. resource: `cpu` or `mem`. ValueError as there.
        """
        with self._counters:
            return self._usage.answer(self._open, vm, resource)

    def forget_usage(self, request_id: str) -> bool:
        """Delete the samples of a request that was never admitted here; False if there are none."""
        return self._usage.forget(request_id)

    @property
    def usage_version(self) -> str | None:
        """The version of the served usage section; None if there is none."""
        return self._usage.version or None

    def log_to(self, folder: str | Path, *, owner_key: bytes | None = None, flush_s: float = 1.0,
               file_mib: float = 64.0, file_s: float = 86_400.0, keep_mib: float = 16_384.0,
               keep_s: float = 400.0 * 86_400.0, epoch_s: int | None = None) -> None:
        """Log each admission from now on, and its end, to files in a folder; see docs/monitoring.md.

        A thread writes them every `flush_s`; a killed process loses what came after the last write.
        If the disk fails, decisions are lost and counted (`decisions_lost`), but all answers are
        given. Several processes may log to one folder. See `LogSettings`; a former log is closed.
        """
        settings = LogSettings(owner_key, flush_s, file_mib, file_s, keep_mib, keep_s, epoch_s)
        self._decisions.log_to(folder_path(folder, "folder").absolute(), settings)

    def stop_logging(self) -> None:
        """Write all decisions so far and stop logging; without a log, do nothing."""
        recorder = self._decisions.recorder
        if recorder is not None and recorder.folder is not None:
            self._decisions.log_to(None, None)

    def flush_decisions(self) -> bool:
        """Wait until the shadow has answered, and the log holds, all decisions so far; False if the disk failed."""
        recorder = self._decisions.recorder
        return True if recorder is None else recorder.flush()

    def reload_shadow(self, folder: str | Path | None = None) -> str:
        """Use the bundle that is in the folder now (default: the loaded folder) as the shadow.

        Returns its version, and resets the differences. BundleError if it is missing, corrupted, or
        of another history definition or clock than the champion: the former shadow, if any, stays.
        """
        return self._decisions.reload(folder)

    def shadow(self) -> Mapping[str, Any]:
        """The shadow's version (None if there is none), why it is refused, and its distance from the champion.

        log10_ratio: 50, 90 and 99 % quantiles of |log10(shadow / champion)| of `remaining` at
        creation, each rounded up to the edge of its bin. A bin is 10^0.05 = 12 % wide; the first is
        0 to 0.001, the last has all above 10. NaN before the first answer. `counters` has class
        changes and errors.
        """
        return self._decisions.comparison()

    def before_fork(self) -> None:
        """Wait until no other thread holds the history or reloads (see `forking`)."""
        self._reloading.before_fork()
        self._lock.acquire()

    def after_fork(self, *, is_child: bool) -> None:
        """Release the locks, in the parent and in the child."""
        self._open.after_fork(is_child=is_child)
        if is_child and self._decisions.recorder is not None:
            self._decisions.recorder.after_fork_in_child()
        self._lock.release()
        self._reloading.after_fork(is_child=is_child)

    def _predict(self, served: Served, request: Mapping[str, Any], start_s: int,
                 recorded_s: int | None = None, request_id: str | None = None) -> Lifetime:
        """The prediction for a request that starts at `start_s`; recorded_s: the time of its admission, if any."""
        parsed: Parsed | None = None
        admission, mixed, live, n = None, None, self._open, self._counters.n
        while True:
            with self._lock:
                history = live.history
                if served.instant_s != history.definition.instant_s:  # reloaded since
                    served, parsed = self._current.served, None
                builder, found = served.builder, None
                if parsed is not None:
                    found = live.encoded(served, served, parsed, start_s)
                elif builder.first is not None:
                    found = builder.first.first(request, start_s, history.moments, history.tables, history.rows.view)
                if found is not None:
                    encoded, keys, unknown = found
                    learning = live.recalibration
                    factors = None if learning.learnt is None else learning.factors_of(served)
                    if live.habits is not None:
                        mixed = live.blended(served, encoded, keys, start_s if recorded_s is None else recorded_s)
                    if recorded_s is not None:
                        admission = live.admit(keys, start_s, recorded_s, encoded, builder.n_before, unknown,
                                               served.version, None, factors,
                                               start_s if start_s < recorded_s else None)
                        if mixed is not None and live.habits is not None:
                            live.habits.follow(admission.number, mixed[1], start_s, recorded_s)
                    n["predictions"] += 1
                    if unknown:
                        n["unknowns"] += 1
                    break
            parsed = served.parse(request)  # anything unusual, without the lock: it may call a caller's code
        n_before = builder.n_before
        if mixed is not None:
            curve: Curve = mixed[0]
        elif builder.gives_curves:
            curve = encoded
        else:
            curve = builder.curve_of(encoded) if n_before else builder.curve(encoded.tolist())
        if factors is not None and isinstance(curve, HazardCurve):
            curve = recalibrated(curve, factors)
        recorder = self._decisions.recorder
        if recorder is not None and admission is not None:
            shadow = recorder.shadow
            extra = () if shadow is None else tuple(map(request.get, shadow.extra_columns))
            recorder.decided((served, admission, recorded_s, np.frombuffer(encoded), n_before, unknown, curve,
                              request_id, extra))
        return Lifetime(curve, encoded, start_s, unknown, served.version, admission, n_before)

    def _predict_many(self, served: Served, requests: list[Any], uptimes_s: list[float],
                      now_s: int) -> list[float] | None:
        """Mean remaining seconds by the extension; None if a reload meanwhile changed how the history is read."""
        answers: list[float] = []
        builder, n = served.builder, self._counters.n
        for start in range(0, len(requests), N_AT_ONCE):
            chunk = requests[start:start + N_AT_ONCE]
            found: list[tuple[Any, Any, tuple[str, ...]]] = []
            parsed: dict[int, Parsed] = {}
            while len(found) < len(chunk):
                with self._lock:
                    history = self._open.history
                    if served.instant_s != history.definition.instant_s:
                        return None
                    moments, tables, view = history.moments, history.tables, history.rows.view
                    for idx in range(len(found), len(chunk)):
                        one = (self._open.encoded(served, served, parsed[idx], now_s) if idx in parsed else
                               builder.first.first(chunk[idx], now_s, moments, tables, view))
                        if one is None:
                            break
                        found.append(one)
                        n["predictions"] += 1
                        n["unknowns"] += bool(one[2])
                if len(found) < len(chunk):  # anything unusual, without the lock
                    parsed[len(found)] = served.parse(chunk[len(found)])
            answers += [builder.curve_of(one[0]).remaining(uptime_s)
                        for one, uptime_s in zip(found, uptimes_s[start:start + N_AT_ONCE], strict=True)]
        return answers

    def _followed(self) -> Path:
        if self._folder is None:
            raise ValueError("folder must be given, since this predictor was not loaded from one, got None")
        return self._folder


def _elements(values: Any, name: str) -> list[Any]:
    """The elements of a list, an array or another sequence; ValueError for anything else."""
    is_sequence = hasattr(values, "__len__") and hasattr(values, "__getitem__") and getattr(values, "ndim", 1) > 0
    if not is_sequence or issubclass(type(values), str | bytes | bytearray | Mapping | type):
        raise ValueError(f"{name} must be a sequence, got {shown(values)}")
    return list(values)
