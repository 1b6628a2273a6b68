"""The predictor that a scheduler imports: one prediction at admission, lookups ever after."""

from __future__ import annotations

import operator
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.serving.bundle import Bundle, load_bundle
from sojourn.serving.curve import LifetimeCurve, lifetime_class
from sojourn.serving.curve_builder import CurveBuilder
from sojourn.serving.history import Admission, HistoryState

_LATEST_S = 2**60


class Lifetime:
    """One request's prediction: its curve, and what of the request the model did not know.

    `remaining`, `quantile`, `survival` and `next_change` are the curve's own (see `LifetimeCurve`).
    """

    __slots__ = ("_admission", "arrival_s", "curve", "next_change", "quantile", "remaining", "survival",
                 "unknown", "version")  # fmt: skip

    def __init__(self, curve: LifetimeCurve, arrival_s: int, unknown: tuple[str, ...], version: str,
                 admission: Admission | None) -> None:
        self.curve = curve
        self.remaining = curve.remaining
        self.quantile = curve.quantile
        self.survival = curve.survival
        self.next_change = curve.next_change
        self.arrival_s = arrival_s
        self.unknown = unknown
        self.version = version
        self._admission = admission

    def lifetime_class(self, uptime_s: float = 0.0) -> int:
        """LAVA's class (1-4) of the mean remaining time at an uptime."""
        return lifetime_class(self.remaining(uptime_s))


class Predictor:
    """Predicts lifetimes in process; needs only numpy and onnxruntime (numba where installed).

    Times are whole seconds on the training trace's clock. Safe to use from several threads. Takes over the
    bundle's history: one bundle object serves one predictor.
    """

    def __init__(self, bundle: Bundle, history: HistoryState | None = None) -> None:
        self._lock = threading.Lock()
        self._history = bundle.history if history is None else history
        self._builder = CurveBuilder(bundle.schema, bundle.model)
        self._encoder = bundle.schema.encoder
        self._schema = bundle.schema
        self.version = bundle.version
        self._counts = {"predictions": 0, "unknowns": 0, "ended": 0, "withdrawn": 0, "errors": 0}

    @classmethod
    def load(cls, folder: str | Path, *, is_history_kept: bool = True) -> Predictor:
        """Load a bundle folder; BundleError where it is missing, corrupted or of another version.

        is_history_kept: start with the owner history of the trace's end (the default), or with none.
        """
        bundle = load_bundle(folder)
        return cls(bundle, None if is_history_kept else HistoryState(bundle.schema.encoder.history))

    def admit(self, request: Mapping[str, Any], now_s: int, *, arrival_s: int | None = None) -> Lifetime:
        """Predict a request that is placed now, and record its arrival in the owner history.

        request: column -> value; a missing column, category or owner takes the model's unknown path and is
        named in the result's `unknown`. arrival_s: its start, for a request that was already running.
        Raises ValueError for an unknown column, a wrong type or a non-integer time.
        """
        start_s = now = _whole(now_s, "now_s")
        if arrival_s is not None:
            start_s = _whole(arrival_s, "arrival_s")
        if start_s > now:
            raise ValueError(f"arrival_s must be <= now_s ({now_s}), got {arrival_s!r}")
        return self._predict(request, start_s, is_recorded=True)

    def predict(self, request: Mapping[str, Any], now_s: int) -> Lifetime:
        """The same prediction as `admit`, recording nothing."""
        return self._predict(request, _whole(now_s, "now_s"), is_recorded=False)

    def ended(self, vm: Lifetime, now_s: int, *, arrival_s: int | None = None) -> None:
        """Record that an admitted request ended at `now_s`; ValueError where it is not running.

        arrival_s: when it began to run, for a job that waited in a queue after its admission; the wait is no part
        of its lifetime, here as in training.
        """
        end_s = _whole(now_s, "now_s")
        start_s = None if arrival_s is None else _whole(arrival_s, "arrival_s")
        with self._lock:
            admission = _running(vm)
            began_s = admission.arrival_s if start_s is None else start_s
            if end_s < began_s:
                raise ValueError(f"now_s must be >= the arrival {began_s}, got {now_s!r}")
            if began_s < admission.arrival_s:
                raise ValueError(f"arrival_s must be >= the admission {admission.arrival_s}, got {arrival_s!r}")
            vm._admission = None
            self._history.ended(admission, end_s, start_s)
            self._counts["ended"] += 1

    def withdraw(self, vm: Lifetime) -> None:
        """Undo an `admit` that was not placed; ValueError where it is not running."""
        with self._lock:
            admission = _running(vm)
            vm._admission = None
            self._history.withdraw(admission)
            self._counts["withdrawn"] += 1

    def remaining_many(self, requests: Sequence[Mapping[str, Any]], uptimes_s: Sequence[float] | np.ndarray,
                       now_s: int) -> np.ndarray:
        """Mean remaining seconds, float64 (n,), of n requests that arrive now, at one uptime each.

        Records nothing.
        """
        if len(requests) != len(uptimes_s):
            raise ValueError(f"uptimes_s must have {len(requests)} elements, got {len(uptimes_s)}")
        return np.array([self.predict(request, now_s).remaining(float(uptime_s))
                         for request, uptime_s in zip(requests, uptimes_s, strict=True)])

    @property
    def counters(self) -> dict[str, int]:
        """Counts since loading: predictions, of which with unknown inputs, ended, withdrawn, refused."""
        with self._lock:
            return dict(self._counts)

    def info(self) -> dict[str, Any]:
        """What is being served: version, family, number of features, and whether the walk is compiled."""
        return {
            "version": self.version,
            "family": self._schema.family,
            "kind": self._schema.kind,
            "n_features": self._schema.n_features,
            "columns": list(self._encoder.columns()),
            "is_compiled": self._builder.is_compiled,
            "training": self._schema.document.get("training", {}),
        }

    def _predict(self, request: Mapping[str, Any], start_s: int, *, is_recorded: bool) -> Lifetime:
        try:
            parsed = self._encoder.parse(request)
        except ValueError:
            with self._lock:
                self._counts["errors"] += 1
            raise
        with self._lock:
            history = self._history
            features = self._encoder.encode(parsed, start_s, history)
            unknown = parsed.unknown + tuple(
                key.name for idx, key in enumerate(self._encoder.history.keys)
                if parsed.keys[idx] is not None and not history.is_known(idx, parsed.keys[idx])
            )  # fmt: skip
            admission = history.admit(parsed.keys, start_s) if is_recorded else None
            self._counts["predictions"] += 1
            self._counts["unknowns"] += bool(unknown)
        return Lifetime(self._builder.curve(features), start_s, unknown, self.version, admission)


def _running(vm: Lifetime) -> Admission:
    if vm._admission is None:
        raise ValueError("vm must be admitted and neither ended nor withdrawn, got one that is not")
    return vm._admission


def _whole(value: Any, name: str) -> int:
    try:
        seconds = operator.index(value)
    except TypeError:
        seconds = _LATEST_S
    if isinstance(value, bool) or not -_LATEST_S < seconds < _LATEST_S:
        raise ValueError(f"{name} must be whole seconds, got {value!r}")
    return seconds
