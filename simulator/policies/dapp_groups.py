"""DAPP's group of lifetime classes, and the detector that says when it is to change (DVLA, OSDI'26, section 4.2 and
appendix B, algorithm 1).

A day's shares are those of the classes of remaining time in the cores of all running requests. The error of a day is 1
minus the cosine of its shares and their EWMA; its score is (error - EWMA of the error) / EWMA of the distance from it,
at least 0. `models.drift.ClassShares` is the same detector for the pipeline; it stands in another part of the house.
"""

from __future__ import annotations

import math

from sojourn.simulator.jit import inner
from sojourn.simulator.policies.dapp_rules import OFF, TIMER, DappState
from sojourn.simulator.policies.policy import kernel

WARMUP, STABLE, OBSERVATION, COOLDOWN = range(4)
LEAST_SPREAD = 1e-6


@kernel
def pass_day(state: DappState) -> bool:
    """Take in the shares of a midnight; whether the group has been updated. The group at the end of the warm-up is no
    update. A midnight without running requests is no day.

    >>> from sojourn.simulator.policies.dapp_rules import DappRules, GroupRules, dapp_state
    >>> always = GroupRules(window_days=14, alarm=-1.0, confirm=0.0)  # the constants of the paper's figure 9
    >>> state = dapp_state(DappRules(groups=always), 1, 1)
    >>> state.pool_cores[:] = 1, 0, 0, 0, 2, 3
    >>> [day for day in range(60) if pass_day(state)]
    [25, 53]
    """
    groups, pool = state.groups[0], state.pool[0]
    if groups.update == OFF or not _push_day(state):
        return False
    pool.n_days += 1
    pool.n_phase_days += 1
    today = pool.n_in_window - 1
    is_warm = pool.phase == WARMUP
    if is_warm:
        for c in range(len(state.sums)):
            state.sums[c] += state.window[today, c]
        if pool.n_phase_days == groups.warmup_days:
            choose_group(state, pool.n_phase_days)
    is_updated = False
    if groups.update == TIMER:
        if is_warm and pool.n_phase_days == groups.warmup_days:
            _enter(state, STABLE)
        is_updated = pool.n_days % groups.timer_days == 0
    elif is_warm:
        learn(state, today)
        if pool.n_phase_days == groups.warmup_days:
            _enter(state, STABLE)
    elif pool.phase == COOLDOWN:
        if groups.is_as_printed == 0:
            learn(state, today)
        if pool.n_phase_days == groups.cooldown_days:
            _enter(state, STABLE)
    else:
        is_updated = _look_for_drift(state, today)
    if is_updated:
        _group_by_window(state)
        pool.n_updates += 1
    return is_updated


@inner
def _push_day(state: DappState) -> bool:
    """Today's shares at the end of the window; whether there are any."""
    pool, window = state.pool[0], state.window
    total = 0
    for c in range(len(state.pool_cores)):
        total += state.pool_cores[c]
    if total == 0:
        return False
    n_days, n_classes = window.shape
    if pool.n_in_window == n_days:
        for day in range(n_days - 1):
            for c in range(n_classes):
                window[day, c] = window[day + 1, c]
    else:
        pool.n_in_window += 1
    for c in range(n_classes):
        window[pool.n_in_window - 1, c] = state.pool_cores[c] / total
    return True


@inner
def _look_for_drift(state: DappState, today: int) -> bool:
    """STABLE and OBSERVATION: whether the mean score of a whole observation confirms a drift."""
    groups, pool = state.groups[0], state.pool[0]
    if pool.phase == STABLE:
        is_suspicious = score(state, today) > groups.alarm
        if not is_suspicious or groups.is_as_printed == 1:
            learn(state, today)
        if not is_suspicious:
            return False
        _enter(state, OBSERVATION)
        pool.n_phase_days = 1
    if pool.n_phase_days < groups.window_days:
        return False
    first, total = today + 1 - groups.window_days, 0.0
    for day in range(first, today + 1):
        total += score(state, day)
    for day in range(first, today + 1):
        learn(state, day)
    is_confirmed = total / groups.window_days >= groups.confirm
    _enter(state, COOLDOWN if is_confirmed else STABLE)
    return is_confirmed


@inner
def _enter(state: DappState, phase: int) -> None:
    state.pool[0].phase = phase
    state.pool[0].n_phase_days = 0


@inner
def distance(state: DappState, day: int) -> float:
    """1 minus the cosine of a day's shares, by its row in the window, and the detector's means."""
    product, own, other = 0.0, 0.0, 0.0
    for c in range(len(state.shares)):
        product += state.window[day, c] * state.shares[c]
        own += state.window[day, c] * state.window[day, c]
        other += state.shares[c] * state.shares[c]
    lengths = math.sqrt(own * other)
    return 1.0 - product / lengths if lengths > 0.0 else 0.0


@inner
def score(state: DappState, day: int) -> float:
    """By how many mean distances the day's error lies above its mean, at least 0."""
    pool = state.pool[0]
    return max(0.0, (distance(state, day) - pool.error) / max(pool.spread, LEAST_SPREAD))


@inner
def learn(state: DappState, day: int) -> None:
    """The error against the old means first, then the means."""
    groups, pool = state.groups[0], state.pool[0]
    pool.n_learnt += 1
    if pool.n_learnt == 0:
        for c in range(len(state.shares)):
            state.shares[c] = state.window[day, c]
        return
    alpha, beta = groups.alpha, groups.beta
    if groups.is_as_printed == 0:  # the mean of what there is, until there is more than an EWMA remembers
        alpha, beta = max(alpha, 1.0 / (pool.n_learnt + 1)), max(beta, 1.0 / pool.n_learnt)
    error = distance(state, day)
    pool.spread += beta * (abs(error - pool.error) - pool.spread)
    pool.error += beta * (error - pool.error)
    for c in range(len(state.shares)):
        state.shares[c] += alpha * (state.window[day, c] - state.shares[c])


@inner
def _group_by_window(state: DappState) -> None:
    """The group of the window's mean shares."""
    n_days = state.pool[0].n_in_window
    for c in range(len(state.sums)):
        state.sums[c] = 0.0
        for day in range(n_days):
            state.sums[c] += state.window[day, c]
    choose_group(state, n_days)


@kernel
def choose_group(state: DappState, n_days: int) -> None:
    """Classes by their mean share, descending, until the group covers enough and has enough; of equal ones the longer.

    n_days: whose shares are in `state.sums`.
    """
    groups = state.groups[0]
    n_classes, covered = len(state.sums), 0.0
    for c in range(n_classes):
        state.is_member[c] = 0
    for n_in in range(n_classes):
        if covered >= groups.coverage and n_in >= groups.n_least:
            return
        best = -1
        for c in range(n_classes):
            if state.is_member[c] == 0 and (best < 0 or state.sums[c] >= state.sums[best]):
                best = c
        state.is_member[best] = 1
        covered += state.sums[best] / n_days
