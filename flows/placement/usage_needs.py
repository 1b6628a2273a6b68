"""What services need over the next interval, predicted at each interval from what was seen before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.features.usage import UsageGrid
from sojourn.models.workload_class import ClassModel, SlotMaxima, fit_classes, slot_maxima
from sojourn.serving.usage import DAY_S, N_HOURS, N_SLOTS, SEEN_S, SLOT_S
from sojourn.serving.usage import observed_s as observation_s

INTERVAL_S = SLOT_S
RULES = ("combined", "class", "own")
_SMALLEST = 1e-3
N_CLASSES, OBSERVED_S = 20, 43_200
"""CTCL, section V-C: 20 classes; 12 hours of observation, the shorter of its two."""


@dataclass(frozen=True, slots=True)
class UsageNeeds:
    """Predicted needs by 15-minute intervals, shares of each service's reservation.

    request_ids: (n,). start_s: begin of the first interval on the trace's clock, a local midnight. cpu, mem: float32
    (n, n_intervals), the most that the service is expected to use from the interval's begin on, for as long as
    `ahead_s` says; NaN = not identified yet (or no sample ever): the whole reservation counts. mem: None where the grid
    has none. class_ids: int64 (n, n_intervals), class of its CPU, -1 = none; an id means the same class every day.
    """

    request_ids: np.ndarray
    start_s: int
    interval_s: int
    cpu: np.ndarray
    mem: np.ndarray | None
    class_ids: np.ndarray


@dataclass(frozen=True, slots=True)
class DailyClasses:
    """Classes of CPU and memory by day, each learnt at its midnight from what was seen before it; None = none yet.
    mem: empty where the grid has none."""

    cpu: tuple[ClassModel | None, ...]
    mem: tuple[ClassModel | None, ...]


def daily_classes(grid: UsageGrid, *, n_classes: int = N_CLASSES, seed: int = 0) -> DailyClasses:
    """The classes of `usage_needs`, for several calls of it: learning them takes nearly all of its time."""
    mem = () if grid.mem is None else tuple(_daily(slot_maxima(grid, "mem"), n_classes, seed))
    return DailyClasses(tuple(_daily(slot_maxima(grid, "cpu"), n_classes, seed)), mem)


def usage_needs(grid: UsageGrid, *, n_classes: int = N_CLASSES, observed_s: int = OBSERVED_S,
                ahead_s: int = INTERVAL_S, rule: str = "combined", seed: int = 0,
                classes: DailyClasses | None = None) -> UsageNeeds:
    """Needs of each service at each 15-minute interval; nothing of the interval itself or later is used.

    observed_s: how long a service is observed before it gets a class, at least 3 hours (CTCL: 12 h or 24 h), counted as
    `sojourn.serving.usage.observed_s` does for a served request.
    ahead_s: how far each prediction looks, up to a day. rule: `combined` = own maximum and its class's
    surplus, `class` = the class's centre scaled by the own maximum (the paper's), `own` = own maximum alone.
    Classes are learnt again at each local midnight, from what was seen until then, with the same ids; a service takes
    its class when it has been observed for so long, and again at each midnight. Before the first full day there are no
    classes.

    classes: of `daily_classes` for the same grid, in place of n_classes and seed.

    The grid's clock decides local days; on days with a change of daylight saving, an interval's index is its slot of
    the local day.
    """
    if rule not in RULES:
        raise ValueError(f"rule must be one of {', '.join(RULES)}, got {rule!r}")
    if observed_s < SEEN_S[0]:
        raise ValueError(f"observed_s must be at least {SEEN_S[0]}, got {observed_s!r}")
    if not INTERVAL_S <= ahead_s <= DAY_S:
        raise ValueError(f"ahead_s must be from {INTERVAL_S} to {DAY_S}, got {ahead_s!r}")
    learnt = daily_classes(grid, n_classes=n_classes, seed=seed) if classes is None else classes
    n_ahead = -(-ahead_s // INTERVAL_S)
    cpu, class_ids = _needs(slot_maxima(grid, "cpu"), learnt.cpu, observed_s, n_ahead, rule)
    mem = None
    if grid.mem is not None:
        mem, _ = _needs(slot_maxima(grid, "mem"), learnt.mem, observed_s, n_ahead, rule)
    first_s = np.array([grid.start_s], np.int64)
    midnight_s = grid.start_s - int(grid.clock.local_s(first_s)[0] % DAY_S)
    return UsageNeeds(np.asarray(grid.request_ids), midnight_s, INTERVAL_S, cpu, mem, class_ids)


def _needs(seen: SlotMaxima, models: Sequence[ClassModel | None], observed_s: int, n_ahead: int,
           rule: str) -> tuple[np.ndarray, np.ndarray]:
    """Needs float32 and class ids int64 (n, n_columns)."""
    n, n_columns = seen.highest.shape
    is_seen = ~np.isnan(seen.highest)
    first = np.where(is_seen.any(axis=1), is_seen.argmax(axis=1), n_columns)
    last = np.full(n, -1)  # the last column with a sample before the one that the loop is at
    is_hour_seen = np.zeros((n, N_HOURS), bool)
    profiles = np.full((n, N_SLOTS), np.nan)  # of what was seen before the column that the loop is at
    own = np.full(n, np.nan)
    needs = np.full((n, n_columns), np.nan, np.float32)
    class_ids = np.full((n, n_columns), -1, np.int64)
    for day, model in enumerate(models):
        at = np.full(n, -1, np.int64)
        for slot in range(N_SLOTS):
            now = day * N_SLOTS + slot
            slots = np.arange(now, now + n_ahead) % N_SLOTS
            seen_s = np.where(last < 0, 0, observation_s(first, last, is_hour_seen.sum(axis=1)))
            is_identified = seen_s >= observed_s
            if model is not None:
                due = np.flatnonzero(is_identified if slot == 0 else is_identified & (at < 0))
                at[due] = model.classes.nearest(profiles[due])
                rows = np.flatnonzero(at >= 0)
                class_ids[rows, now] = model.classes.ids[at[rows]]
                if rule == "combined":
                    needs[rows, now] = model.classes.needs(at[rows], own[rows], seen_s[rows], slot, slots).max(axis=1)
                elif rule == "class":
                    needs[rows, now] = _scaled(model.classes.centres[at[rows]], profiles[rows], own[rows], slots)
            if rule == "own":
                needs[is_identified, now] = own[is_identified]
            profiles[:, slot] = np.fmax(profiles[:, slot], seen.highest[:, now])
            own = np.fmax(own, seen.highest[:, now])
            last[is_seen[:, now]] = now
            is_hour_seen[:, slot * N_HOURS // N_SLOTS] |= is_seen[:, now]
    return needs, class_ids


def _daily(seen: SlotMaxima, n_classes: int, seed: int) -> Iterator[ClassModel | None]:
    """The classes of each day, of what was seen before it."""
    model: ClassModel | None = None
    for day in range(seen.n_days):
        if day:
            model = fit_classes(seen.before(day * N_SLOTS), n_classes=n_classes, seed=seed, before=model) or model
        yield model


def _scaled(centres: np.ndarray, profiles: np.ndarray, own: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """The centres' highest use in the slots, scaled so that their highest in the slots seen is the own maximum."""
    largest = np.where(np.isnan(profiles), 0.0, centres).max(axis=1)
    scaled = centres[:, slots].max(axis=1) * own / np.maximum(largest, _SMALLEST)
    return np.minimum(scaled, np.maximum(own, 1.0))
