"""Made years of known truth for the detector table: requests in batches of owners, and what a model says of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from scipy.special import log_ndtr

from sojourn.models.drift import DAY_S, DailyExits, DriftDay, WatchedRequests, daily_exits, own_exits

N_DAYS, WARM_DAYS = 365, 28
N_OWNERS, BATCHES_PER_DAY, BATCH_MEAN = 40, 30.0, 4.0
LOG_MEDIAN, BETWEEN, WITHIN, BATCH = np.log(3 * 3_600.0), 1.8, 0.6, 0.4
"""Log seconds: of all owners, the spread between them, of the requests of a batch, and of the batches of an owner."""
MODEL_ERROR = 0.1
"""Spread of what the model gets wrong of each owner's log median, all year long."""
CLASSES_S = np.array([3_600.0, 86_400.0, 7 * 86_400.0, 30 * 86_400.0])
"""Bounds of the classes of the remaining lifetime, DVLA's up to a month."""
AGES_S = np.append(0.0, np.geomspace(30.0, 90 * 86_400.0, 40))
WAVE = 0.15
"""Log lifetime that the model does not know of: spread of the AR(0.95), and half the height of both cycles."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What happens to log lifetimes, by the day of arrival. size: in log units; its sign is drawn for each year.

    shape: none, step, ramp or spike. days: over which a ramp rises, or a spike lasts. is_autocorrelated: an AR(0.95)
    by day with weekly and daily cycles on top.
    """

    shape: str
    size: float = 0.0
    days: int = 0
    is_autocorrelated: bool = False


TRUTHS: Mapping[str, Truth] = MappingProxyType({
    "none": Truth("none"),
    "none, autocorrelated": Truth("none", is_autocorrelated=True),
    "step": Truth("step", np.log(2.0)),
    "ramp": Truth("ramp", np.log(2.0), 28),
    "spike": Truth("spike", np.log(4.0), 2),
    "step, autocorrelated": Truth("step", np.log(2.0), is_autocorrelated=True),
})


@dataclass(frozen=True, slots=True)
class MadeYear:
    """exits: of 365 days; own: of each day, see `own_exits`.

    shares: float64 (365, 5), of running cores by true remaining class at each day's end.
    change_day: when the drift begins, -1 without one.
    """

    exits: DailyExits
    own: list[DriftDay]
    shares: np.ndarray
    change_day: int


def made_year(truth: Truth, seed: int) -> MadeYear:
    """One year; the same truth and seed give the same numbers, and years of other truths the same arrivals."""
    rng = np.random.default_rng([seed, 17])
    level = LOG_MEDIAN + np.clip(BETWEEN * rng.standard_normal(N_OWNERS), -4.0, 4.5)
    predicted = level + MODEL_ERROR * rng.standard_normal(N_OWNERS)
    popularity = np.exp(0.8 * rng.standard_normal(N_OWNERS))
    cores_of = rng.choice([1.0, 2.0, 4.0, 8.0], N_OWNERS)
    change_day, sign = int(rng.integers(60, 300)), float(rng.choice([-1.0, 1.0]))
    n_days = WARM_DAYS + N_DAYS
    weekday = (np.arange(n_days) - WARM_DAYS) % 7
    n_batches = rng.poisson(BATCHES_PER_DAY * np.where(weekday >= 5, 0.6, 1.0))
    n = int(n_batches.sum())
    day = np.repeat(np.arange(n_days) - WARM_DAYS, n_batches)
    hour = np.clip(14.0 + 5.0 * rng.standard_normal(n), 0.0, 23.99)
    owner = rng.choice(N_OWNERS, n, p=popularity / popularity.sum())
    noise = BATCH * rng.standard_normal(n)
    size = rng.geometric(1.0 / BATCH_MEAN, n)
    innovations = rng.standard_normal(n_days)
    moved = np.zeros(n)
    if truth.is_autocorrelated:
        series = np.empty(n_days)
        series[0] = innovations[0]
        for idx in range(1, n_days):
            series[idx] = 0.95 * series[idx - 1] + np.sqrt(1 - 0.95**2) * innovations[idx]
        moved += WAVE * series[day + WARM_DAYS]
        moved += WAVE * np.where(day % 7 >= 5, 1.0, -0.4) + WAVE * np.cos((hour - 14.0) * np.pi / 12.0)
    since = day - change_day
    if truth.shape == "step":
        moved += sign * truth.size * (since >= 0)
    elif truth.shape == "ramp":
        moved += sign * truth.size * np.clip((since + 1) / truth.days, 0.0, 1.0)
    elif truth.shape == "spike":
        moved += sign * truth.size * ((since >= 0) & (since < truth.days))
    batch = np.repeat(np.arange(n), size)
    arrival = (day * DAY_S + hour * 3_600.0).astype(np.int64)[batch]
    log_lifetime = (level[owner] + noise + moved)[batch] + WITHIN * rng.standard_normal(len(batch))
    end = arrival + np.maximum(np.rint(np.exp(log_lifetime)), 1.0).astype(np.int64)
    spread = np.hypot(BATCH, WITHIN)
    with np.errstate(divide="ignore"):
        curves = -log_ndtr((predicted[:, None] - np.log(AGES_S)) / spread)
    curves = np.clip(curves, 0.0, 30.0) + 0.0
    requests = WatchedRequests(arrival, arrival, end, np.ones(len(batch), bool), owner[batch], AGES_S,
                               curves[owner[batch]])
    own = own_exits(arrival, arrival, end, requests.is_event, requests.cluster, 0, N_DAYS - 1)
    return MadeYear(daily_exits(requests, 0, N_DAYS - 1), own, _shares(arrival, end, cores_of[owner[batch]]),
                    -1 if truth.shape == "none" else change_day)


def _shares(arrival: np.ndarray, end: np.ndarray, cores: np.ndarray) -> np.ndarray:
    """Shares of running cores by class of the true remaining lifetime, at the end of each day."""
    first = np.maximum(-((-arrival) // DAY_S), 1)  # the first midnight at or after the arrival
    last = np.minimum((end - 1) // DAY_S, N_DAYS)
    count = np.maximum(last - first + 1, 0)
    row = np.repeat(np.arange(len(arrival)), count)
    midnight = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + first[row]
    kind = np.searchsorted(CLASSES_S, end[row] - midnight * DAY_S, side="right")
    n_classes = len(CLASSES_S) + 1
    totals = np.bincount((midnight - 1) * n_classes + kind, cores[row], N_DAYS * n_classes)
    table = totals.reshape(N_DAYS, n_classes)
    return table / np.maximum(table.sum(axis=1, keepdims=True), 1e-9)
