"""What owners do today against what they did before: the rate of their exits, and how many of them are new.

Neither asks a model, so a model whose owner history follows a drift does not hide it.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from sojourn.models.drift.detector import DriftDay
from sojourn.models.drift.exits import DAY_S, LIFETIME_MIN_S

REFERENCE_DAYS = 28
"""Days before today of which the same owners' rate is taken."""
NEW_DAYS = 7
"""An owner is new for so many days from its first request on."""
SHARE_DAYS, SHARE_DAYS_MIN = 56, 14
"""Days of which the usual share of new owners is taken, and how many there must be. The first 14 days of a record do
not count: in them every owner looks new."""
_AGES_S = np.append(0.0, np.geomspace(60.0, 400.0 * DAY_S, 42))
"""Where cells of age begin, a factor of 1.4 apart; within one an owner's rate counts as even."""


def own_exits(arrival_s: np.ndarray, watch_s: np.ndarray, end_s: np.ndarray, is_event: np.ndarray, owner: np.ndarray,
              first_day: int, last_day: int) -> list[DriftDay]:
    """Exits of each day, against the rate at which the same owners' requests of the same age ended in the 28 days
    before: one `DriftDay` for each of `first_day` .. `last_day`.

    A two-sample log-rank test stratified by owner (Mantel 1966), of today against those 28 days: of all exits of an
    owner in a cell of age, today is expected to have the share of its time at risk in it. Where nothing changed,
    observed less expected has mean 0, whatever the owners' lifetimes are. variance: summed over owners.
    arrival_s, watch_s, end_s, is_event: as in `WatchedRequests`, int64 and bool (n,). owner: int64 (n,); requests of
    an owner that did not run in the 28 days before say nothing. A day needs only what was known at its end.

    >>> arrival_s = np.arange(0, 40 * DAY_S, 3_600)
    >>> end_s = arrival_s + np.where(arrival_s < 35 * DAY_S, 1_800, 900)  # from day 35 on half as long
    >>> days = own_exits(arrival_s, arrival_s, end_s, np.ones(960, bool), np.zeros(960, int), 30, 39)
    >>> [round(day.observed - day.expected, 1) for day in days[3:7]]
    [0.0, 0.0, 23.7, 23.4]
    """
    if last_day < first_day:
        raise ValueError(f"last_day must be at or after first_day {first_day}, got {last_day!r}")
    _, code = np.unique(owner, return_inverse=True)
    day, cell, spell_owner, at_risk_s, exits = _spells(arrival_s, watch_s, end_s, is_event, code)
    found = []
    for today in range(first_day, last_day + 1):
        low, begin, high = np.searchsorted(day, [today - REFERENCE_DAYS, today, today + 1])
        cells, place = np.unique(cell[begin:high], return_inverse=True)
        if len(cells) == 0:
            found.append(DriftDay(0.0, 0.0, 0.0))
            continue
        now_s, now_exits = (np.bincount(place, each[begin:high], len(cells)) for each in (at_risk_s, exits))
        then = np.minimum(np.searchsorted(cells, cell[low:begin]), len(cells) - 1)
        is_same = cells[then] == cell[low:begin]
        then_s, then_exits = (np.bincount(then[is_same], each[low:begin][is_same], len(cells))
                              for each in (at_risk_s, exits))
        is_told = then_s > 0.0
        expected = np.where(is_told, (now_exits + then_exits) * now_s / (now_s + then_s), 0.0)
        observed = np.where(is_told, now_exits, 0.0)
        owner_of = np.zeros(len(cells), np.int64)
        owner_of[place] = spell_owner[begin:high]
        excess = np.bincount(owner_of, observed - expected)
        found.append(DriftDay(float(observed.sum()), float(expected.sum()), float((excess**2).sum())))
    return found


def new_owner_days(arrival_s: np.ndarray, owner: np.ndarray, first_day: int, last_day: int) -> list[DriftDay]:
    """Requests of each day by owners whose first one is less than 7 days old, against their usual share.

    One `DriftDay` for each of `first_day` .. `last_day`: observed = such requests, expected = the day's requests times
    the share that they had in the 56 days before; variance: summed over owners. A day says nothing before there
    are 14 days to compare with, which are counted from the 15th day of the record on.
    arrival_s: int64 (n,), from the record's begin on. owner: int64 (n,).

    >>> arrival_s = np.arange(0, 60 * DAY_S, 3_600)
    >>> owner = np.where(arrival_s < 50 * DAY_S, arrival_s % 7, arrival_s)  # from day 50 on always another
    >>> days = new_owner_days(arrival_s, owner, 48, 51)
    >>> [(day.observed, round(day.expected, 1)) for day in days]
    [(0.0, 0.0), (0.0, 0.0), (24.0, 0.0), (24.0, 0.6)]
    """
    if last_day < first_day:
        raise ValueError(f"last_day must be at or after first_day {first_day}, got {last_day!r}")
    if len(arrival_s) == 0:
        return [DriftDay(0.0, 0.0, 0.0)] * (last_day - first_day + 1)
    _, code = np.unique(owner, return_inverse=True)
    seen_s = np.full(int(code.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(seen_s, code, arrival_s)
    order = np.argsort(arrival_s, kind="stable")
    code, day = code[order], arrival_s[order] // DAY_S
    is_new = (arrival_s[order] - seen_s[code] < NEW_DAYS * DAY_S).astype(np.float64)
    begin_day = int(day[0]) + SHARE_DAYS_MIN
    found = []
    for today in range(first_day, last_day + 1):
        low, begin, high = np.searchsorted(day, [max(today - SHARE_DAYS, begin_day), today, today + 1])
        if today - begin_day < SHARE_DAYS_MIN or begin <= low or high == begin:
            found.append(DriftDay(0.0, 0.0, 0.0))
            continue
        share = float(is_new[low:begin].mean())
        excess = np.bincount(code[begin:high], is_new[begin:high] - share)
        found.append(DriftDay(float(is_new[begin:high].sum()), share * float(high - begin), float((excess**2).sum())))
    return found


def _spells(arrival_s: np.ndarray, watch_s: np.ndarray, end_s: np.ndarray, is_event: np.ndarray,
            owner: np.ndarray) -> tuple[np.ndarray, ...]:
    """By day: day, cell of owner and age, owner, seconds at risk, exit; one entry for each request, day and cell."""
    age_from = (watch_s - arrival_s).astype(np.float64)
    age_end = (end_s - arrival_s).astype(np.float64)
    age_end = np.where(is_event, np.maximum(age_end, LIFETIME_MIN_S), age_end)
    parts = []
    for idx_age, (low_s, high_s) in enumerate(pairwise(_AGES_S)):
        start, stop = np.maximum(age_from, low_s), np.minimum(age_end, high_s)
        idx = np.flatnonzero(stop > start)
        day_from = ((arrival_s[idx] + start[idx]) // DAY_S).astype(np.int64)
        count = np.ceil((arrival_s[idx] + stop[idx]) / DAY_S).astype(np.int64) - day_from
        row = np.repeat(idx, count)
        day = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(day_from, count)
        base_s = arrival_s[row]
        last = np.minimum(stop[row], (day + 1) * DAY_S - base_s)
        at_risk_s = last - np.maximum(start[row], day * DAY_S - base_s)
        is_exit = is_event[row] & (last == age_end[row])
        parts.append((day, owner[row] * len(_AGES_S) + idx_age, owner[row], at_risk_s, is_exit.astype(np.float64)))
    columns = [np.concatenate(each) for each in zip(*parts, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return tuple(each[order] for each in columns)
