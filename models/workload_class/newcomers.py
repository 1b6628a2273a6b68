"""The cost of each prediction of a newcomer's need: under-served work and over-reservation, by length of history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from sojourn.models.workload_class.class_model import ClassModel, SlotMaxima
from sojourn.serving.usage import BY_HOURS, N_SLOTS, SEEN_S

METHODS: Mapping[str, str] = MappingProxyType({
    "reservation": "all that was reserved",
    "own": "its own maximum so far",
    "class": "its class's centre, scaled by the own maximum (the paper's)",
    "combined": "its own maximum and its class's surplus",
    "hours": "its own maximum and the surplus of all requests, moved to the over-reservation of `combined`",
    "margin": "its own maximum and one share for all requests, of the same over-reservation as `combined`",
})  # fmt: skip
_SLOTS_AN_HOUR = 4
_SLOT_S = 900
_COVERED = 0.75
_SMALLEST = 1e-3
_N_HALVINGS = 30


@dataclass(frozen=True, slots=True)
class Newcomers:
    """Sums over the 24 hours after an observation, one row for each request, summed over its starts.

    request_ids: (m,). work, n_slots: float64 (m,), use and number of judged slots. under, over:
    float64 (m,) by the names of METHODS, use above the prediction and prediction above use. All are
    sums over slots of shares of the reservation; a slot's use is its highest.
    """

    request_ids: np.ndarray
    work: np.ndarray
    n_slots: np.ndarray
    under: Mapping[str, np.ndarray]
    over: Mapping[str, np.ndarray]

    def under_served(self, method: str, counts: np.ndarray | None = None) -> float:
        """Work above the prediction as a share of all work. counts: (m,), how often each request counts."""
        return _ratio(self.under[method], self.work, counts)

    def over_reserved(self, method: str, counts: np.ndarray | None = None) -> float:
        """Prediction above use, a share of what is reserved."""
        return _ratio(self.over[method], self.n_slots, counts)

    def worst_ratio(self, method: str, rival: str, n_draws: int = 500) -> float:
        """Under-served work of a method divided by that of a rival: the upper end of a 95 % interval over requests.

        Requests are drawn anew n_draws times, with a fixed seed. A draw without under-served work
        counts as 1. NaN if no request was judged.
        """
        n = len(self.request_ids)
        if not n:
            return float("nan")
        rng = np.random.default_rng(0)
        counts = rng.multinomial(n, np.full(n, 1 / n), size=n_draws)
        mine, theirs = counts @ self.under[method], counts @ self.under[rival]
        ratios = np.where(mine > 0.0, np.inf, 1.0)
        np.divide(mine, theirs, out=ratios, where=theirs > 0.0)
        return float(np.quantile(ratios, 0.975, method="higher"))


def judge_newcomers(judged: Sequence[tuple[ClassModel, SlotMaxima, int]], hours: int) -> Newcomers:
    """The cost of the predictions of METHODS for requests that start to run at some column.

    judged: each a model, requests, and the start column of their history; the model must be learnt from other requests,
    or from samples before that column. hours: length of the history, at least 3; the 24 hours after it are judged, as
    far as there are samples. A request with less than three quarters of its history does not count.
    """
    if hours < 3:
        raise ValueError(f"hours must be at least 3, got {hours!r}")
    cases = [_case(model, maxima, start, hours * _SLOTS_AN_HOUR) for model, maxima, start in judged]
    ids, peaks, used, centre, combined, by_hours = (np.concatenate(each) for each in zip(*cases, strict=True))
    is_judged = ~np.isnan(used)
    target = _over(combined, used, is_judged).sum()

    def of_equal_reservation(base: np.ndarray, low: float) -> np.ndarray:
        high = 1.0
        for _ in range(_N_HALVINGS):
            middle = (low + high) / 2
            is_less = _over(_raise_by(base, peaks, middle), used, is_judged).sum() < target
            low, high = (middle, high) if is_less else (low, middle)
        return _raise_by(base, peaks, high)

    alone = np.repeat(peaks, N_SLOTS, axis=1)
    predicted = {"reservation": np.ones_like(used), "own": alone, "class": centre, "combined": combined,
                 "hours": of_equal_reservation(by_hours, -1.0), "margin": of_equal_reservation(alone, 0.0)}
    distinct_ids, row = np.unique(ids, return_inverse=True)

    def summed(values: np.ndarray) -> np.ndarray:
        return np.bincount(row, values.sum(axis=1), minlength=len(distinct_ids))

    return Newcomers(distinct_ids, summed(np.where(is_judged, used, 0.0)), summed(is_judged.astype(np.float64)),
                     {name: summed(np.where(is_judged, np.maximum(used - predicted[name], 0.0), 0.0))
                      for name in METHODS},
                     {name: summed(_over(predicted[name], used, is_judged)) for name in METHODS})  # fmt: skip


def _case(model: ClassModel, maxima: SlotMaxima, start: int, n_slots: int) -> tuple[np.ndarray, ...]:
    """Ids, maximum, use of the next 24 hours, and the predictions `class`, `combined`, `hours` of each request."""
    now = start + n_slots
    history = maxima.highest[:, start:now].astype(np.float64)
    following = np.full((len(maxima), N_SLOTS), np.nan)
    later = maxima.highest[:, now:now + N_SLOTS]
    following[:, :later.shape[1]] = later
    is_used = ((~np.isnan(history)).mean(axis=1) >= _COVERED) & (~np.isnan(following)).any(axis=1)
    history, following = history[is_used], following[is_used]
    profiles = np.full((len(history), N_SLOTS), np.nan)
    for first in range(0, n_slots, N_SLOTS):
        part = history[:, first:first + N_SLOTS]
        at = np.arange(start + first, start + first + part.shape[1]) % N_SLOTS
        profiles[:, at] = np.fmax(profiles[:, at], part)
    top = np.fmax.reduce(profiles, axis=1)
    classes = model.classes
    at = classes.nearest(profiles)
    slots = np.arange(now, now + N_SLOTS) % N_SLOTS
    seen_s = np.full(len(top), n_slots * _SLOT_S)
    combined = classes.needs(at, top, seen_s, now % N_SLOTS, slots)
    by_hours = model.by([BY_HOURS] * len(SEEN_S)).classes.needs(at, top, seen_s, now % N_SLOTS, slots)
    centre = classes.centres[at]
    largest = np.where(np.isnan(profiles), 0.0, centre).max(axis=1)
    scaled = centre[:, slots] * (top / np.maximum(largest, _SMALLEST))[:, None]
    return maxima.request_ids[is_used], top[:, None], following, np.minimum(scaled, np.maximum(top, 1.0)[:, None]), \
        combined, by_hours


def _raise_by(base: np.ndarray, peaks: np.ndarray, share: float) -> np.ndarray:
    """A prediction plus a share: at most the reservation, at least the maximum so far."""
    return np.maximum(np.minimum(base + share, 1.0), peaks)


def _over(predicted: np.ndarray, used: np.ndarray, is_judged: np.ndarray) -> np.ndarray:
    return np.where(is_judged, np.maximum(predicted - used, 0.0), 0.0)


def _ratio(part: np.ndarray, whole: np.ndarray, counts: np.ndarray | None) -> float:
    if counts is not None:
        part, whole = part * counts, whole * counts
    total = float(whole.sum())
    return float(part.sum()) / total if total else float("nan")
