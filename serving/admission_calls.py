"""What a predictor knows of what runs: requests that are admitted, end or are withdrawn, and a snapshot of them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sojourn.serving.answers import Lifetime
from sojourn.serving.checks import Moment, clock_second, folder_path
from sojourn.serving.live import content_of, write_snapshot
from sojourn.serving.refresh_calls import RefreshCalls
from sojourn.serving.usage import LiveUsage


class AdmissionCalls(RefreshCalls):
    """The calls of `Predictor` that change its live history or copy it."""

    _snapshotting: threading.Lock
    _usage: LiveUsage | None

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
        try:
            start_s = now = self._served.now(now_s)
            if arrival_s is not None:
                start_s = clock_second(arrival_s, "arrival_s")
            if start_s > now:
                raise ValueError(f"arrival_s must be <= now_s ({now}), got {start_s}")
            return self._predict(self._served, request, start_s, now, request_id)
        except ValueError:
            self.count("errors")
            raise

    def ended(self, vm: Lifetime | str, now_s: Moment, *, arrival_s: Moment | None = None) -> None:
        """Record that an admitted request ended at `now_s`; ValueError where it is not running, or another's.

        vm: its handle, a copy of it, or its id. arrival_s: when it began to run, for a job that waited in a queue
        after its admission; the wait is no part of its lifetime, here as in training.
        """
        try:
            end_s = self._served.now(now_s)
            start_s = None if arrival_s is None else clock_second(arrival_s, "arrival_s")
            with self._lock:
                one = self._running.find(vm, self._history.token)
                admission = one.admission
                began_s = admission.arrival_s if start_s is None else start_s
                if end_s < began_s:
                    raise ValueError(f"now_s must be >= the arrival {began_s}, got {end_s}")
                if began_s < admission.arrival_s:
                    raise ValueError(f"arrival_s must be >= the admission {admission.arrival_s}, got {began_s}")
                self._learn(one, end_s, began_s)
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
                if self._recalibration is not None:
                    self._recalibration.forget(one.admission.number)
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
        """The handle of a running request, made again from its id: the request as it was encoded at its admission, or
        at its latest `refresh`.

        The model that is served reads it, so where that is the version that admitted it, all answers are the same.
        ValueError where the id does not run here, or the version that is served reads other features.
        """
        served = self._served
        with self._lock:
            one = self._running.find(id, self._history.token)
        return self._handle_of(served, one)

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
                    names, encoder, own = {**self._names}, self._served.encoder, self._recalibration
                    learnt = None if own is None else (self._served.version, own.to_arrays())
                try:
                    content = content_of(cut, encoder, running, names, clock_s, learnt)
                finally:
                    with self._lock:
                        self._history.release()
                write_snapshot(target, content)
            except Exception:
                self.count("snapshot_errors")
                raise
            self.count("snapshots")
