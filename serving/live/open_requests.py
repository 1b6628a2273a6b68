"""The open requests of a predictor and the live owner history: admissions, ends, refreshes, snapshots.

A refresh reads the owner's history at its time, and uses the bundle's model for running requests.
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
from sojourn.serving.inputs import HISTORY_OF, UNKNOWN, Parsed, Receipt
from sojourn.serving.live.admitted import Admitted, LiveRequests, Refreshed, names_of_refresh
from sojourn.serving.live.counters import Counters
from sojourn.serving.live.live_habits import Given, LiveHabits
from sojourn.serving.live.recalibration import OnlineRecalibration
from sojourn.serving.live.snapshot import LiveHistory, content_of, write_snapshot

Keys = tuple[tuple[str, ...] | None, ...]


class OpenRequests:
    """The live history of owners and the requests that are admitted and neither ended nor withdrawn.

    The caller holds the predictor's lock, except for `handle_of` and `snapshot`. usage_ended:
    deletes the samples of an admission.
    """

    def __init__(self, counters: Counters, current: Current, start: LiveHistory,
                 usage_ended: Callable[[Receipt], object], *, recalibrate: bool | None) -> None:
        self.history = start.history
        self.running = LiveRequests()
        for one in start.running:
            self.running.enter(one)
        self.recalibration = OnlineRecalibration(current, self.running, start.is_by_starts, self._with_given,
                                                 recalibrate)
        self._counters, self._current, self._usage_ended = counters, current, usage_ended
        self._clock_s = start.clock_s  # the latest `now_s` that was recorded
        self._names = {**start.names}  # feature names by version
        self._snapshotting = threading.Lock()  # taken before the predictor's lock, never while it is held
        self.recalibration.begin(self._clock_s, start.recalibration)
        self._name_features(current.served)
        self.habits = self.habits_of(current.served)
        """Of the served version; None if its curves are the model's alone."""
        if self.habits is not None and start.habits is not None:
            self.habits.restore(start.habits)

    def habits_of(self, served: Served) -> LiveHabits | None:
        """The habits with which a version begins; BundleError if its bundle holds malformed ones."""
        return None if served.habits is None else LiveHabits(served.schema, served.habits)

    def serve(self, fresh: Served, habits: LiveHabits | None) -> None:
        """Serve another version from now on; the history and the running requests stay.

        habits: those with which it begins. Habits that are counted now go on if they mean the same to it.
        """
        if habits is None or self.habits is None or not habits.continues(self.habits):
            self.habits = habits
        self._name_features(fresh)
        if fresh.instant_s != self.history.definition.instant_s:
            self.history.read_as(fresh.encoder.history)
        is_other = fresh.version != self._current.served.version
        self._current.served = fresh
        if is_other:
            self.recalibration.begin(self._clock_s)
        self._counters.n["reloads"] += 1

    def find(self, vm: Any) -> Admitted:
        """The request that a handle, a copy of it or its id names; ValueError if it is not open here."""
        return self.running.find(vm, self.history.token)

    def encoded(self, served: Served, model: Served | Refresher, parsed: Parsed,
                time_s: int) -> tuple[Any, Keys, tuple[str, ...]]:
        """Numbers of the curve (`CurveBuilder.n_before`) and features at a time, float64; history keys; unknown inputs.

        model: the served version, or its model for running requests.
        """
        history, first = self.history, model.builder.first
        if first is None:
            features, slots = model.encoder.encode(parsed, time_s, history), history.slots(parsed.keys)
            unknown = served.unknown_keys(parsed, slots) if UNKNOWN in slots else ()
            return np.array(features), parsed.keys, parsed.unknown + unknown
        curve, unknown = first.answer(parsed.numbers, parsed.keys, time_s, history.moments, history.tables,
                                      history.rows.view)
        return curve, parsed.keys, parsed.unknown + unknown

    def blended(self, served: Served, encoded: Any, keys: Keys, now_s: int) -> tuple[HazardCurve, Given] | None:
        """The curve with the habits of now, and what they gave; None without habits."""
        habits, builder, n_before = self.habits, served.builder, served.builder.n_before
        if habits is None or served.version != self._current.served.version:
            return None
        features = np.frombuffer(encoded)[n_before:].tolist()
        curve = builder.curve_of(encoded) if n_before else builder.curve(features)
        parsed = Parsed(tuple(features[:served.encoder.n_numbers]), keys, ())
        return habits.answer(curve, parsed, now_s)  # type: ignore[arg-type]  # only hazards have habits

    def admit(self, keys: Keys, start_s: int, recorded_s: int, *prediction: Any) -> Receipt:
        """Add a request that began to run at `start_s`. prediction: the fields of `Admitted` after its first."""
        admission = self.history.admit(keys, start_s)
        one = Admitted(admission, *prediction)
        self.running.enter(one)
        self.recalibration.follow(one, recorded_s)
        self._record_time(recorded_s)
        dropped = self.running.too_many()
        if dropped:  # their ends were not reported
            self.history.lose([each.admission for each in dropped])
            for each in dropped:
                self._remove(each)
            self._counters.n["dropped"] += len(dropped)
        return admission

    def started(self, vm: Any, start_s: int) -> None:
        """Record when an admitted request began to run; the owner's history stays that of its admission."""
        one = self.find(vm)
        if one.started_s not in (None, start_s):
            raise ValueError(f"vm must be waiting, got one that has run since {one.started_s}")
        if start_s < one.admission.arrival_s:
            raise ValueError(f"now_s must be >= the admission {one.admission.arrival_s}, got {start_s}")
        if one.started_s is None:
            one = one._replace(started_s=start_s, refreshed=None)
            self.running.enter(one)
            self.recalibration.started(one)
            self._record_time(start_s)
            self._counters.n["started"] += 1

    def ended(self, vm: Any, end_s: int, start_s: int | None) -> tuple[Receipt, int]:
        """Record the end of a request; returns its admission, and when it began to run."""
        one = self.find(vm)
        admission = one.admission
        began_s = one.began_s if start_s is None else start_s
        if end_s < began_s:
            raise ValueError(f"now_s must be >= the arrival {began_s}, got {end_s}")
        if began_s < admission.arrival_s:
            raise ValueError(f"arrival_s must be >= the admission {admission.arrival_s}, got {began_s}")
        self.recalibration.learn(one, end_s, began_s)
        if self.habits is not None:
            self.habits.ended(admission.number, end_s, began_s)
        self._remove(one)
        self.history.ended(admission, end_s, began_s)
        self._record_time(end_s)
        self._counters.n["ended"] += 1
        return admission, began_s

    def withdraw(self, vm: Any) -> tuple[Receipt, int]:
        """Undo an admission; returns it, and the latest time that was recorded."""
        one = self.find(vm)
        admission = one.admission
        self._remove(one)
        self.history.withdraw(admission)
        self._counters.n["withdrawn"] += 1
        return admission, admission.arrival_s if self._clock_s is None else self._clock_s

    def refreshed(self, served: Served, vm: Any, now_s: int, start_s: int | None) -> Admitted:
        """A request with a new prediction, also stored; unchanged before the version's first refresh age."""
        one = self.find(vm)
        began_s = one.began_s if start_s is None else start_s
        if began_s < one.admission.arrival_s:
            raise ValueError(f"arrival_s must be >= the admission {one.admission.arrival_s}, got {began_s}")
        if now_s < began_s:
            raise ValueError(f"now_s must be >= the arrival {began_s}, got {now_s}")
        refresher = served.refresher
        if refresher is None or now_s - began_s < refresher.ages_s[0]:
            return one
        encoded, _, unknown = self.encoded(served, refresher, self._parsed(served, one), now_s)
        refreshed = Refreshed(now_s, encoded, refresher.builder.n_before, served.version)
        one = one._replace(unknown=unknown, refreshed=refreshed)
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
                return RefreshedLifetime(refreshed.now_s, curve, refreshed.encoded, one.began_s, one.unknown,
                                         served.version, admission, refreshed.n_before)
            if names_of_refresh(self._names[refreshed.version]) == refresher.encoder.feature_names():
                features = refreshed.features
                return RefreshedLifetime(refreshed.now_s, refresher.builder.curve(features.tolist()), features,
                                         one.began_s, one.unknown, served.version, admission)
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
        if one.version == served.version and isinstance(curve, HazardCurve):
            with self._counters.lock:
                curve = self._with_given(admission.number, curve) or curve
            curve = curve if one.factors is None else recalibrated(curve, one.factors)
        return Lifetime(curve, one.encoded, one.began_s, one.unknown, served.version, admission, one.n_before)

    def snapshot(self, folder: str | Path) -> None:
        """See `Predictor.snapshot`; takes the predictor's lock."""
        counters = self._counters
        with self._snapshotting:
            try:
                target = folder_path(folder, "folder")
                with counters.lock:
                    cut, running, clock_s = self.history.cut(), self.running.all(), self._clock_s
                    served, learner = self._current.served, self.recalibration.learnt
                    is_by_starts = self.recalibration.is_by_starts
                    names, learnt = {**self._names}, None if learner is None else (served.version, learner.to_arrays())
                    habits = None if self.habits is None else self.habits.to_arrays()
                try:
                    content = content_of(cut, served.encoder, running, names, clock_s, is_by_starts, learnt, habits)
                finally:
                    with counters.lock:
                        self.history.release()
                write_snapshot(target, content)
            except Exception:
                counters.count("snapshot_errors")
                raise
            counters.count("snapshots")

    def after_fork(self, *, is_child: bool) -> None:
        """Release locks; in the child, a thread that was taking a snapshot no longer exists."""
        self.history.renew_token()  # parent and child do not know each other's later admissions
        if is_child:
            self.history.release()
            self._snapshotting = threading.Lock()

    def _with_given(self, number: int, curve: HazardCurve) -> HazardCurve | None:
        """The curve with what the habits gave the request at its admission; None if they don't follow it."""
        if self.habits is None:
            return curve
        given = self.habits.given(number)
        return None if given is None else self.habits.blended(curve, given)

    def _name_features(self, served: Served) -> None:
        names = served.encoder.feature_names()
        agreed = next((each for each in self._names.values() if each == names), names)  # share one tuple
        self._names[served.version] = agreed

    def _remove(self, one: Admitted) -> None:
        self.running.remove(one)
        self.recalibration.forget(one.admission.number)
        if self.habits is not None:
            self.habits.forget(one.admission.number)
        self._usage_ended(one.admission)

    def _record_time(self, now_s: int) -> None:
        if self._clock_s is not None and now_s < self._clock_s:
            self._counters.n["clock_steps_back"] += 1
        self._clock_s = now_s

    def _parsed(self, served: Served, one: Admitted) -> Parsed:
        """The request as it was admitted, for the served version's encoder."""
        columns, names = served.encoder.numbers, self._names[one.version]
        if names[: len(columns)] == columns:
            numbers = one.features[: len(columns)].tolist()
        else:
            value_of = dict(zip(names, one.features.tolist(), strict=True))
            numbers = [value_of.get(column, math.nan) for column in columns]
        return Parsed(tuple(numbers), one.admission.keys,
                      tuple(name for name in one.unknown if not name.startswith(HISTORY_OF)))
