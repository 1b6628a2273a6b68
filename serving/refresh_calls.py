"""A running request predicted anew: from its owner's history as it stands now, by the bundle's model for that."""

from __future__ import annotations

import math

import numpy as np

from sojourn.serving.answers import Lifetime, RefreshedLifetime, Served
from sojourn.serving.checks import Moment, clock_second
from sojourn.serving.curves import HazardCurve, checked_seconds, recalibrated
from sojourn.serving.inputs import HISTORY_OF, UNKNOWN, Parsed
from sojourn.serving.live import Admitted, Refreshed, names_of_refresh
from sojourn.serving.prediction_calls import PredictionCalls


class RefreshCalls(PredictionCalls):
    """The calls of `Predictor` that look at a running request again."""

    _names: dict[str, tuple[str, ...]]

    def refresh(self, vm: Lifetime | str, now_s: Moment, *, arrival_s: Moment | None = None) -> Lifetime:
        """A handle with a new curve for a running request, from what its owner did until `now_s`; one model run.

        The curve counts from the request's age at `now_s` on. The handle names the same admission; the old one does,
        too, and keeps its curve. `next_refresh` says when it is worth it. Before the first age that it names, and where
        the version that is served has no model for it, the answer is the handle as `handle` gives it.

        vm: its handle, a copy of it, or its id. arrival_s: when it began to run, as in `ended`. A clock that was set
        back is not corrected, as in `admit`: what the history knows, it knows. ValueError where the request is not
        running, or another's; and for a time before its arrival or on another clock.
        """
        served = self._served
        try:
            now = served.now(now_s)
            start_s = None if arrival_s is None else clock_second(arrival_s, "arrival_s")
            with self._lock:
                if served.instant_s != self._history.definition.instant_s:  # reloaded since
                    served = self._served
                one = self._running.find(vm, self._history.token)
                began_s = one.admission.arrival_s if start_s is None else start_s
                if began_s < one.admission.arrival_s:
                    raise ValueError(f"arrival_s must be >= the admission {one.admission.arrival_s}, got {began_s}")
                if now < began_s:
                    raise ValueError(f"now_s must be >= the arrival {began_s}, got {now}")
                refresher = served.refresher
                if refresher is not None and now - began_s >= refresher.ages_s[0]:
                    one = self._refreshed(served, one, now)
        except ValueError:
            self.count("errors")
            raise
        return self._handle_of(served, one)

    def next_refresh(self, uptime_s: float) -> float:
        """The uptime at which a request that has run for `uptime_s` is worth a `refresh`, s; infinity if never.

        At these uptimes a new curve was better than the held one on the validation window (`info()["refresh_ages_s"]`).
        """
        refresher = self._served.refresher
        asked_s = checked_seconds(uptime_s, "uptime_s")
        return math.inf if refresher is None else refresher.next_s(asked_s)

    def _refreshed(self, served: Served, one: Admitted, now_s: int) -> Admitted:
        """The request as it is known now, entered in its place; the lock is held."""
        refresher, history = served.refresher, self._history
        assert refresher is not None
        parsed = self._parsed(served, one)
        slots = history.slots(parsed.keys)
        if refresher.first is None:
            encoded, n_before = np.array(refresher.encoder.encode(parsed, now_s, history)), 0
        else:
            encoded = refresher.first.answer(parsed.numbers, slots, now_s, history.overall, history.rows)
            n_before = refresher.first.n_numbers
        unknown = parsed.unknown
        if UNKNOWN in slots:
            unknown += served.unknown_keys(parsed, slots)
        one = one._replace(unknown=unknown, refreshed=Refreshed(now_s, encoded, n_before, served.version))
        self._running.enter(one)
        self._counts["refreshes"] += 1
        return one

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

    def _handle_of(self, served: Served, one: Admitted) -> Lifetime:
        """The handle of a running request: its latest prediction, or that of its admission.

        ValueError where the version that is served reads other features.
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
            features = one.features.tolist()
            if one.version != served.version:  # its lookup table has other rows
                served.encoder.set_row(features, admission.keys)
            curve = served.builder.curve(features)
            one = one._replace(encoded=np.array(features), n_before=0)
        if one.factors is not None and one.version == served.version and isinstance(curve, HazardCurve):
            curve = recalibrated(curve, one.factors)
        return Lifetime(curve, one.encoded, admission.arrival_s, one.unknown, served.version, admission, one.n_before)
