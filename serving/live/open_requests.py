"""What is open at a predictor, and what it learnt of owners: admissions, ends, predictions anew, and a snapshot of all.

A running request predicted anew is read from its owner's history as it stands then, by the bundle's model for that.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.serving.answers import Current, Lifetime, RefreshedLifetime, Refresher, Served
from sojourn.serving.checks import folder_path
from sojourn.serving.curves import HazardCurve, recalibrated
from sojourn.serving.inputs import HISTORY_OF, UNKNOWN, Admission, Parsed
from sojourn.serving.live.admitted import Admitted, LiveRequests, Refreshed, names_of_refresh
from sojourn.serving.live.counters import Counters
from sojourn.serving.live.recalibration import OFF, OnlineRecalibration
from sojourn.serving.live.snapshot import LiveHistory, content_of, write_snapshot


class OpenRequests:
    """The live history of owners and the requests that are admitted and neither ended nor withdrawn.

    The predictor's lock is held in all calls but `handle_of` and `snapshot`. usage_ended: forgets what was observed of
    an admission.
    """

    def __init__(self, counters: Counters, current: Current, start: LiveHistory,
                 usage_ended: Callable[[Admission], object], *, recalibrate: bool) -> None:
        self.history = start.history
        self.running = LiveRequests()
        for one in start.running:
            self.running.enter(one)
        self.recalibration = OnlineRecalibration(current, self.running)
        self._counters, self._current, self._usage_ended = counters, current, usage_ended
        self._clock_s = start.clock_s  # the latest `now_s` that was recorded
        self._names = {**start.names}  # what each version encodes a request to
        self._snapshotting = threading.Lock()  # passed before the predictor's lock is taken, never within it
        self.recalibration.begin(recalibrate, self._clock_s, start.recalibration)
        self._name_features(current.served)

    def serve(self, fresh: Served) -> None:
        """Have another version answer from now on; the history and what runs go on."""
        self._name_features(fresh)
        if fresh.instant_s != self.history.definition.instant_s:
            self.history.read_as(fresh.encoder.history)
        is_other = fresh.version != self._current.served.version
        self._current.served = fresh
        if is_other:
            self.recalibration.begin(self.recalibration.state != OFF, self._clock_s)
        self._counters.n["reloads"] += 1

    def find(self, vm: Any) -> Admitted:
        """The one that a handle, a copy of it or its id names; ValueError if it is not open here."""
        return self.running.find(vm, self.history.token)

    def encoded(self, served: Served, model: Served | Refresher, parsed: Parsed,
                time_s: int) -> tuple[np.ndarray, int, tuple[str, ...]]:
        """The request as the model reads it at a time, float64, behind so many numbers of its curve; what is unknown.

        model: the served version, or its model for running requests.
        """
        history, unknown = self.history, parsed.unknown
        slots = history.slots(parsed.keys)
        if UNKNOWN in slots:
            unknown += served.unknown_keys(parsed, slots)
        first = model.first
        if first is None:
            return np.array(model.encoder.encode(parsed, time_s, history)), 0, unknown
        return first.answer(parsed.numbers, slots, time_s, history.overall, history.rows), first.n_numbers, unknown

    def admit(self, keys: tuple[Any, ...], start_s: int, recorded_s: int, *prediction: Any) -> Admission:
        """Take in a request that began to run at `start_s`. prediction: the fields of `Admitted` after its first."""
        admission = self.history.admit(keys, start_s)
        one = Admitted(admission, *prediction)
        self.running.enter(one)
        self.recalibration.follow(one, recorded_s)
        self._record_time(recorded_s)
        lost = self.running.too_many()
        if lost:  # nobody told their ends
            self.history.lose([each.admission for each in lost])
            for each in lost:
                self._remove(each)
            self._counters.n["dropped"] += len(lost)
        return admission

    def ended(self, vm: Any, end_s: int, start_s: int | None) -> tuple[Admission, int]:
        """Take in the end of a request; returns its admission, and when it began to run."""
        one = self.find(vm)
        admission = one.admission
        began_s = admission.arrival_s if start_s is None else start_s
        if end_s < began_s:
            raise ValueError(f"now_s must be >= the arrival {began_s}, got {end_s}")
        if began_s < admission.arrival_s:
            raise ValueError(f"arrival_s must be >= the admission {admission.arrival_s}, got {began_s}")
        self.recalibration.learn(one, end_s, began_s)
        self._remove(one)
        self.history.ended(admission, end_s, start_s)
        self._record_time(end_s)
        self._counters.n["ended"] += 1
        return admission, began_s

    def withdraw(self, vm: Any) -> tuple[Admission, int]:
        """Undo an admission; returns it, and the latest time that was recorded."""
        one = self.find(vm)
        admission = one.admission
        self._remove(one)
        self.history.withdraw(admission)
        self._counters.n["withdrawn"] += 1
        return admission, admission.arrival_s if self._clock_s is None else self._clock_s

    def refreshed(self, served: Served, vm: Any, now_s: int, start_s: int | None) -> Admitted:
        """A request as it is known now, entered in its place, or as it was before its version's first refresh age."""
        one = self.find(vm)
        began_s = one.admission.arrival_s if start_s is None else start_s
        if began_s < one.admission.arrival_s:
            raise ValueError(f"arrival_s must be >= the admission {one.admission.arrival_s}, got {began_s}")
        if now_s < began_s:
            raise ValueError(f"now_s must be >= the arrival {began_s}, got {now_s}")
        refresher = served.refresher
        if refresher is None or now_s - began_s < refresher.ages_s[0]:
            return one
        encoded, n_before, unknown = self.encoded(served, refresher, self._parsed(served, one), now_s)
        one = one._replace(unknown=unknown, refreshed=Refreshed(now_s, encoded, n_before, served.version))
        self.running.enter(one)
        self._counters.n["refreshes"] += 1
        return one

    def handle_of(self, served: Served, one: Admitted) -> Lifetime:
        """The handle of a running request: its latest prediction, or that of its admission.

        ValueError if the version that is served reads other features.
        """
        names = self._names[one.version]
        refreshed, refresher, admission = one.refreshed, served.refresher, one.admission
        if refreshed is not None and refresher is not None:
            if refreshed.version == served.version and refreshed.n_before:
                curve = refresher.builder.curve_of(refreshed.encoded)
                return RefreshedLifetime(refreshed.now_s, curve, refreshed.encoded, admission.arrival_s, one.unknown,
                                         served.version, admission, refreshed.n_before)
            if names_of_refresh(self._names[refreshed.version]) == refresher.encoder.feature_names():
                features = refreshed.features
                return RefreshedLifetime(refreshed.now_s, refresher.builder.curve(features.tolist()), features,
                                         admission.arrival_s, one.unknown, served.version, admission)
        if names != served.encoder.feature_names():
            raise ValueError(f"id must be of a request that version {served.version} can read, got one of "
                             f"{one.version}, which encodes others")
        if one.n_before and one.version == served.version:
            curve = served.builder.curve_of(one.encoded)
        else:
            values = one.features.tolist()
            if one.version != served.version:  # its lookup table has other rows
                served.encoder.set_row(values, admission.keys)
            curve = served.builder.curve(values)
            one = one._replace(encoded=np.array(values), n_before=0)
        if one.factors is not None and one.version == served.version and isinstance(curve, HazardCurve):
            curve = recalibrated(curve, one.factors)
        return Lifetime(curve, one.encoded, admission.arrival_s, one.unknown, served.version, admission, one.n_before)

    def snapshot(self, folder: str | Path) -> None:
        """See `Predictor.snapshot`; takes the predictor's lock."""
        counters = self._counters
        with self._snapshotting:
            try:
                target = folder_path(folder, "folder")
                with counters.lock:
                    cut, running, clock_s = self.history.cut(), self.running.all(), self._clock_s
                    served, own = self._current.served, self.recalibration.learnt
                    names, learnt = {**self._names}, None if own is None else (served.version, own.to_arrays())
                try:
                    content = content_of(cut, served.encoder, running, names, clock_s, learnt)
                finally:
                    with counters.lock:
                        self.history.release()
                write_snapshot(target, content)
            except Exception:
                counters.count("snapshot_errors")
                raise
            counters.count("snapshots")

    def after_fork(self, *, is_child: bool) -> None:
        """Go on, in the parent and in the child, to which the thread that was taking a snapshot is lost."""
        self.history.renew_token()  # what each of the two admits from now on, the other does not know
        if is_child:
            self.history.release()
            self._snapshotting = threading.Lock()

    def _name_features(self, served: Served) -> None:
        names = served.encoder.feature_names()
        known = next((each for each in self._names.values() if each == names), names)  # one tuple for all that agree
        self._names[served.version] = known

    def _remove(self, one: Admitted) -> None:
        self.running.remove(one)
        self.recalibration.forget(one.admission.number)
        self._usage_ended(one.admission)

    def _record_time(self, now_s: int) -> None:
        """Take note of the time of an admission or end."""
        if self._clock_s is not None and now_s < self._clock_s:
            self._counters.n["clock_steps_back"] += 1
        self._clock_s = now_s

    def _parsed(self, served: Served, one: Admitted) -> Parsed:
        """The request as it was admitted, for the encoder of the version that is served."""
        columns, names = served.encoder.numbers, self._names[one.version]
        if names[: len(columns)] == columns:
            numbers = one.features[: len(columns)].tolist()
        else:
            known = dict(zip(names, one.features.tolist(), strict=True))
            numbers = [known.get(column, math.nan) for column in columns]
        return Parsed(tuple(numbers), one.admission.keys,
                      tuple(name for name in one.unknown if not name.startswith(HISTORY_OF)))
