"""The predictor that a scheduler imports: one prediction at admission, lookups ever after."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from sojourn.serving.admission_calls import AdmissionCalls
from sojourn.serving.answers import Served
from sojourn.serving.bundle import Bundle, load_bundle
from sojourn.serving.checks import folder_path
from sojourn.serving.counters import COUNTERS
from sojourn.serving.decision_calls import DecisionCalls
from sojourn.serving.decisions import Recorder, Shadow
from sojourn.serving.errors import BundleError
from sojourn.serving.forking import join_forks
from sojourn.serving.inputs import Encoder, HistoryState
from sojourn.serving.live import N_RUNNING_MAX, LiveHistory, LiveRequests, live_history, read_snapshot
from sojourn.serving.recalibration_calls import OFF
from sojourn.serving.usage import USAGE_FILES, LiveUsage, UsageFollower, check_usage_files, load_usage
from sojourn.serving.usage_calls import UsageCalls
from sojourn.serving.watch import ReloadGate, Watch, WatchEvent


class Predictor(AdmissionCalls, UsageCalls, DecisionCalls):
    """Predicts lifetimes in process; needs only numpy and onnxruntime (numba where installed).

    Times are whole seconds on the training trace's clock. Safe to use from several threads and across forks; not
    from a signal handler. Takes over the bundle's history: one bundle object serves one predictor.
    """

    def __init__(self, bundle: Bundle, history: HistoryState | LiveHistory | None = None, *,
                 recalibrate: bool = False) -> None:
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
        self._begin_recalibration(recalibrate, history.recalibration)
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
        owner history goes on, so the bundle's own is not read. Where the new version sets instant ends apart and the
        old one did not, or the other way round, the history is read anew (some us for each owner, under the lock), and
        calls under way end with the new version. BundleError where the bundle is missing, corrupted or of another
        history definition or clock: the old version serves on.
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
                if fresh.encoder.history.instant_s != self._history.definition.instant_s:
                    self._history.read_as(fresh.encoder.history)
                is_other = fresh.version != self._served.version
                self._served = fresh
                if is_other:
                    self._begin_recalibration(self._recalibrates != OFF)
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

    def info(self) -> dict[str, Any]:
        """What is being served: version, family, number of features, whether answers are compiled, and how.

        clock: of `now_s`: "Unix seconds", or "the training trace's own" if that has no dates. n_running: requests that
        are held as running, of at most n_running_max. n_dropped: of whose end nobody told, and which were forgotten for
        that bound. is_restored: whether the history went on from a snapshot. recalibration: on, or off and why.
        refresh_ages_s: see `next_refresh`.

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
            "refresh_ages_s": [] if served.refresher is None else [*served.refresher.ages_s],
            "n_running": len(self._running),
            "n_running_max": N_RUNNING_MAX,
            "n_dropped": self._counts["dropped"],
            "is_restored": self._is_restored,
            "recalibration": self._recalibrates,
            "usage": self.usage_version,
            "clock": "Unix seconds" if served.schema.is_dated else "the training trace's own",
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

    def _name_features(self, served: Served) -> None:
        names = served.encoder.feature_names()
        known = next((each for each in self._names.values() if each == names), names)  # one tuple for all that agree
        self._names[served.version] = known

    def _followed(self) -> Path:
        if self._folder is None:
            raise ValueError("folder must be given, since this predictor was not loaded from one, got None")
        return self._folder
