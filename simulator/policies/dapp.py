"""DAPP: requests go to hosts of their lifetime class or a longer one, by tags that are renewed once
a day (DVLA, Alibaba, OSDI'26, sections 4.2, 4.3, 5 and appendix B, algorithm 1).

A long request on a host of short ones may alone keep that host in use later: a debt. So a host has
a class, its tag, and a host of a shorter class than the request's has an affinity below 1.

We know the paper's formulas only as prose. So each switch is a reading that the prose allows, or a
part that the paper's ablation removes. Switches are data, so that all readings run in one compiled
loop.

A detector changes the group of lifetime classes. A day's shares are those of the classes of
remaining time in the cores of all running requests. The error of a day is 1 minus the cosine of its
shares and their EWMA; its score is (error - EWMA of the error) / EWMA of the distance from it, at
least 0. `models.drift.ClassShares` is the same detector for the pipeline.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from sojourn.simulator.cluster import NEVER, Cluster, Request
from sojourn.simulator.jit import inner
from sojourn.simulator.policies.policy import PACKING, Hooks, Policy, kernel

DVLA_BOUNDS_S = (3_600, 86_400, 604_800, 2_592_000, 31_536_000)
"""Upper bounds of classes 1 to 5, each in its class: an hour, a day, a week, a month, a year; class
6 has all above."""
OFF, ALGORITHM_1, TIMER = range(3)
"""How groups are updated."""
_UPDATES = {"off": OFF, "algorithm-1": ALGORITHM_1, "timer": TIMER}
NEVER_LEFT = -1
RULES = np.dtype([
    ("is_symmetric", np.int64), ("is_on_events", np.int64), ("is_daily", np.int64), ("is_exact", np.int64),
    ("is_switched", np.int64),  # the weighted mean begins with the first update, or in a pool that runs already
    ("long_class", np.int64), ("day_s", np.int64), ("empty_cost", np.float64), ("omega", np.float64),
    ("omega_long", np.float64),
])  # fmt: skip
GROUPS = np.dtype([
    ("update", np.int64), ("window_days", np.int64), ("warmup_days", np.int64), ("cooldown_days", np.int64),
    ("timer_days", np.int64), ("n_least", np.int64), ("is_as_printed", np.int64), ("alarm", np.float64),
    ("confirm", np.float64), ("alpha", np.float64), ("beta", np.float64), ("coverage", np.float64),
])  # fmt: skip
POOL = np.dtype([
    ("is_weighted", np.int64),  # the present rule of tags; else the longest class
    ("next_midnight_s", np.int64), ("n_in_use", np.int64),
    ("n_seen", np.int64),  # hosts that have passed this midnight
    ("n_days", np.int64), ("n_in_window", np.int64), ("phase", np.int64), ("n_phase_days", np.int64),
    ("n_learnt", np.int64),  # -1: not even a first day
    ("n_updates", np.int64), ("error", np.float64), ("spread", np.float64),
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class GroupRules:
    """How the group of classes is updated, once a day.

    update: `off`, all classes; `algorithm-1`, when the paper's detector confirms a drift; `timer`,
    every timer_days. In the last two the first group is chosen at the end of warmup_days; it is not
    counted as an update. window_days: length of an observation, and the days whose mean shares make
    a group. alarm, confirm: thresholds of the score. alpha, beta: factors of the EWMA. coverage: a
    group's least share of the cores. n_least: its least number of classes. is_as_printed: the day
    of an alarm is learnt twice, no day of the cooldown is learnt, and averages begin at 0 without
    correction.

    >>> GroupRules(coverage=1.5)
    Traceback (most recent call last):
    ValueError: coverage must be above 0 and at most 1, got 1.5
    """

    update: Literal["off", "algorithm-1", "timer"] = "algorithm-1"
    window_days: int = 20
    alarm: float = 2.0
    confirm: float = 3.0
    alpha: float = 0.1
    beta: float = 0.1
    warmup_days: int = 12
    cooldown_days: int = 14
    timer_days: int = 28
    coverage: float = 0.95
    n_least: int = 2
    is_as_printed: bool = False

    def __post_init__(self) -> None:
        if self.update not in _UPDATES:
            raise ValueError(f"update must be one of {', '.join(_UPDATES)}, got {self.update!r}")
        for name in ("window_days", "warmup_days", "cooldown_days", "timer_days", "n_least"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)!r}")
        for name in ("alpha", "beta", "coverage"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must be above 0 and at most 1, got {getattr(self, name)!r}")


@dataclass(frozen=True, slots=True)
class DappRules:
    """One reading of DAPP.

    base: `one-sided` penalises only a request of a longer class than its host's; `symmetric` also
        one of a shorter class.
    tag_rule: a host's tag from the classes of its requests: `weighted`, their mean by cores, to the
        nearest class of the group; `max`, the longest; `switch-over`, max until the first update of
        the group, then weighted. A pool that already runs when the replay begins is weighted from
        the start.
    tags: when the tag is computed: `events`, when a host's first request comes, its last one goes
        or its last long one migrates away; `daily`, once a day; `paper`, both; `exact`, whenever it
        can change.
    empty: `last`, any host in use comes before an empty one; `scored`, an empty one's affinity is
        0.15.
    bounds_s: upper bounds of all classes but the last, ascending. long_class: the lowest class of
        long requests.
    day_s: time between two midnights, at which the classes of requests are predicted again.

    >>> DappRules(bounds_s=(60, 30))
    Traceback (most recent call last):
    ValueError: bounds_s must ascend from above 0, got (60, 30)
    """

    base: Literal["one-sided", "symmetric"] = "one-sided"
    tag_rule: Literal["weighted", "max", "switch-over"] = "switch-over"
    tags: Literal["paper", "daily", "events", "exact"] = "paper"
    empty: Literal["last", "scored"] = "last"
    bounds_s: tuple[int, ...] = DVLA_BOUNDS_S
    long_class: int = 5
    day_s: int = 86_400
    groups: GroupRules = field(default_factory=GroupRules)

    def __post_init__(self) -> None:
        for name, known in (("base", ("one-sided", "symmetric")), ("tag_rule", ("weighted", "max", "switch-over")),
                            ("tags", ("paper", "daily", "events", "exact")), ("empty", ("last", "scored"))):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}")
        if not self.bounds_s or any(a >= b for a, b in zip((0, *self.bounds_s), self.bounds_s, strict=False)):
            raise ValueError(f"bounds_s must ascend from above 0, got {self.bounds_s!r}")
        n_classes = len(self.bounds_s) + 1
        if not 1 <= self.long_class <= n_classes or self.groups.n_least > n_classes:
            raise ValueError(f"long_class and n_least must be at most {n_classes}, the number of classes, got "
                             f"{self.long_class!r} and {self.groups.n_least!r}")
        if self.day_s < 2:
            raise ValueError(f"day_s must be 2 or more, got {self.day_s!r}")


class DappState(NamedTuple):
    """The state of DAPP; int64 unless stated. K classes, numbered from 1; class c has index c - 1.

    Per host, (n_hosts,): tag, its class, 0 if it has none; deadline_s; change_s, when the class of
    a request next changes (exact tags). cores, n_of (n_hosts, K): cores and number of its requests
    by class. Per request, (n_requests,): class_of, its last predicted class; cores_of; left_host,
    left_s: where and when it last left. pool_cores (K,): sums over hosts. idx_cpu (1,). rules,
    groups, pool (1,): RULES, GROUPS, POOL. bounds_s (K - 1,).

    Groups, float64: shares (K,), means of the detector; sums (K,), over the warm-up's days, then
    over a group's window; window (window_days, K), shares of the last days in order of time.
    is_member (K,): classes of the group.
    """

    tag: np.ndarray
    deadline_s: np.ndarray
    change_s: np.ndarray
    cores: np.ndarray
    n_of: np.ndarray
    class_of: np.ndarray
    cores_of: np.ndarray
    left_host: np.ndarray
    left_s: np.ndarray
    pool_cores: np.ndarray
    idx_cpu: np.ndarray
    rules: np.ndarray
    groups: np.ndarray
    pool: np.ndarray
    bounds_s: np.ndarray
    shares: np.ndarray
    sums: np.ndarray
    window: np.ndarray
    is_member: np.ndarray


def dapp_state(rules: DappRules, n_hosts: int, n_requests: int) -> DappState:
    """All hosts empty, before the first day.

    >>> dapp_state(DappRules(), 2, 9).cores.shape
    (2, 6)
    """
    n_classes = len(rules.bounds_s) + 1
    by_class = np.zeros((2, n_hosts, n_classes), np.int64)
    by_request = np.zeros((3, n_requests), np.int64)
    switches, groups, pool = np.zeros(1, RULES), np.zeros(1, GROUPS), np.zeros(1, POOL)
    switches["is_symmetric"], switches["is_exact"] = rules.base == "symmetric", rules.tags == "exact"
    switches["is_on_events"], switches["is_daily"] = rules.tags in ("paper", "events"), rules.tags in ("paper", "daily")
    switches["is_switched"], switches["long_class"] = rules.tag_rule == "switch-over", rules.long_class
    switches["day_s"], switches["empty_cost"] = rules.day_s, 2.0 if rules.empty == "last" else 0.85
    switches["omega"], switches["omega_long"] = 0.8, 0.2
    for name in ("window_days", "warmup_days", "cooldown_days", "timer_days", "n_least", "is_as_printed", "alarm",
                 "confirm", "alpha", "beta", "coverage"):
        groups[name] = getattr(rules.groups, name)
    groups["update"] = _UPDATES[rules.groups.update]
    pool["is_weighted"], pool["n_learnt"] = rules.tag_rule == "weighted", -1
    return DappState(
        np.zeros(n_hosts, np.int64), np.full(n_hosts, NEVER), np.full(n_hosts, NEVER), by_class[0], by_class[1],
        by_request[0], by_request[1], by_request[2], np.full(n_requests, NEVER_LEFT), np.zeros(n_classes, np.int64),
        np.zeros(1, np.int64), switches, groups, pool, np.array(rules.bounds_s, np.int64), np.zeros(n_classes),
        np.zeros(n_classes), np.zeros((rules.groups.window_days, n_classes)), np.ones(n_classes, np.int64),
    )  # fmt: skip


@kernel
def class_of_remaining(bounds_s: np.ndarray, remaining_s: int) -> int:
    """Class of a remaining time: 1 + the number of bounds that it exceeds, as in the paper's
    classifiers (section 4.1). So a bound belongs to the shorter class.

    bounds_s: int64 (K - 1,), upper bounds of all classes but the last.

    >>> bounds_s = np.array(DappRules().bounds_s)
    >>> [class_of_remaining(bounds_s, hours * 3600) for hours in (0, 1, 24, 168, 720, 8760, 8761)]
    [1, 1, 2, 3, 4, 5, 6]
    """
    number = 1
    while number <= len(bounds_s) and remaining_s > bounds_s[number - 1]:
        number += 1
    return number


@kernel
def changes_at(bounds_s: np.ndarray, request: Request, now: int) -> int:
    """When the request's class is next to be computed: at the next breakpoint of its curve, when
    its prediction is outlived, or when its remaining time no longer exceeds its class's lower
    bound."""
    next_s = request.exit_s
    for k in range(len(request.uptimes_s)):
        if request.uptimes_s[k] > request.age_s:
            next_s = min(next_s, now + request.uptimes_s[k] - request.age_s)
            break
    number = class_of_remaining(bounds_s, request.exit_s - now)
    if number > 1:
        next_s = min(next_s, request.exit_s - bounds_s[number - 2])
    return max(next_s, now + 1)


@kernel
def tag_of(state: DappState, host: int) -> int:
    """The host's class by the classes of its requests; 0 if it has none.

    The weighted rule takes the class of the group that is nearest to the mean by cores, of two the
    longer.
    """
    highest, cores, weighted = 0, 0, 0
    for c in range(1, state.cores.shape[1] + 1):
        if state.n_of[host, c - 1] > 0:
            highest = c
        cores += state.cores[host, c - 1]
        weighted += c * state.cores[host, c - 1]
    if highest == 0 or state.pool[0].is_weighted == 0:
        return highest
    nearest, least = 0, 0
    for c in range(1, state.cores.shape[1] + 1):
        gap = abs(weighted - c * cores)
        if state.is_member[c - 1] == 1 and (nearest == 0 or gap <= least):
            nearest, least = c, gap
    return nearest


@inner
def count(state: DappState, host: int, row: int, sign: int) -> None:
    """Add a request to its host's and the pool's cores of its class, or subtract it (-1)."""
    c = state.class_of[row] - 1
    state.n_of[host, c] += sign
    state.cores[host, c] += sign * state.cores_of[row]
    state.pool_cores[c] += sign * state.cores_of[row]


@inner
def has_from(state: DappState, host: int, lowest: int) -> bool:
    """Whether the host has a request of this class or a longer one."""
    for c in range(lowest - 1, state.n_of.shape[1]):
        if state.n_of[host, c] > 0:
            return True
    return False


@kernel
def placed(cluster: Cluster, host: int, request: Request, now: int) -> None:
    """Predict the request's class and count it; it tags a host that was empty. If it was the last
    long request of a host that it migrates from, that host's tag is computed again."""
    state, row = cluster.state, request.row
    rules, pool = state.rules[0], state.pool[0]
    source = state.left_host[row]
    is_long_moved = state.left_s[row] == now and source != host and state.class_of[row] >= rules.long_class
    if is_long_moved and rules.is_on_events == 1 and not has_from(state, source, rules.long_class):
        state.tag[source] = tag_of(state, source)
    is_first = not has_from(state, host, 1)
    state.class_of[row] = class_of_remaining(state.bounds_s, request.exit_s - now)
    state.cores_of[row] = max(request.need[state.idx_cpu[0]], 1)  # a request without cores weighs a thousandth of one
    count(state, host, row, 1)
    if state.deadline_s[host] == NEVER:
        pool.n_in_use += 1
        if pool.n_in_use == 1:
            if pool.next_midnight_s <= now:  # the pool was empty at midnight, so no host had a deadline
                state.tag[:] = 0
            pool.next_midnight_s = (now // rules.day_s + 1) * rules.day_s
        state.deadline_s[host] = pool.next_midnight_s
    if now == 0 and request.age_s > 0:  # the pool already runs: hosts are tagged once all its requests are in place
        pool.is_weighted = max(pool.is_weighted, rules.is_switched)
        state.deadline_s[host] = min(state.deadline_s[host], 1)
    if rules.is_exact == 1:
        state.deadline_s[host] = min(state.deadline_s[host], changes_at(state.bounds_s, request, now))
    if rules.is_exact == 1 or (is_first and rules.is_on_events == 1):
        state.tag[host] = tag_of(state, host)


@kernel
def departed(cluster: Cluster, host: int, row: int, now: int) -> None:
    """Uncount the request; a host without requests has no class."""
    state = cluster.state
    count(state, host, row, -1)
    state.left_host[row], state.left_s[row] = host, now
    if state.rules[0].is_exact == 1 or (state.rules[0].is_on_events == 1 and not has_from(state, host, 1)):
        state.tag[host] = tag_of(state, host)


@kernel
def emptied(cluster: Cluster, host: int, now: int) -> None:
    """The host has no deadline any more."""
    state = cluster.state
    if state.deadline_s[host] != NEVER:
        state.pool[0].n_in_use -= 1
        state.deadline_s[host] = NEVER


@kernel
def resident(cluster: Cluster, host: int, request: Request, now: int) -> None:
    """Predict the class of a running request again."""
    state = cluster.state
    count(state, host, request.row, -1)
    state.class_of[request.row] = class_of_remaining(state.bounds_s, request.exit_s - now)
    count(state, host, request.row, 1)
    state.change_s[host] = min(state.change_s[host], changes_at(state.bounds_s, request, now))


@kernel
def at_deadline(cluster: Cluster, host: int, now: int) -> None:
    """After the calls of `resident`: compute the host's tag; the last host of a midnight ends the
    pool's day."""
    state = cluster.state
    rules, pool = state.rules[0], state.pool[0]
    if rules.is_daily == 1 or rules.is_exact == 1:
        state.tag[host] = tag_of(state, host)
    state.deadline_s[host] = pool.next_midnight_s
    if now == pool.next_midnight_s:
        state.deadline_s[host] = now + rules.day_s
        pool.n_seen += 1
        if pool.n_seen == pool.n_in_use:
            _end_day(state, now)
    if rules.is_exact == 1:
        state.deadline_s[host] = min(state.deadline_s[host], state.change_s[host])
    state.change_s[host] = NEVER


@inner
def _end_day(state: DappState, now: int) -> None:
    """Update the group, and every host's tag."""
    rules, pool = state.rules[0], state.pool[0]
    pool.n_seen = 0
    pool.next_midnight_s = now + rules.day_s
    if pass_day(state) and rules.is_switched == 1:
        pool.is_weighted = 1
    if rules.is_daily == 1 or rules.is_exact == 1:
        for host in range(len(state.tag)):
            state.tag[host] = tag_of(state, host)


@kernel
def debt_cost(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """1 minus the affinity of request and host: 0 on a host of the request's class; more the shorter the host's class
    is, and by the symmetric rule the longer it is; on an empty host 2, or 0.85.

    The affinity of a host that is d classes short is 0.8 (1 - d / K), for a long request 0.2 (1 - d / K); that of one
    that is d classes long is 1, or 1 - d / K by the symmetric rule.

    >>> state = dapp_state(DappRules(), 3, 1)
    >>> state.tag[:] = 2, 4, 0
    >>> three = Cluster(np.full((3, 1), 8), np.full((3, 1), 4), np.array([1, 1, 0]), np.zeros(3, int), state=state)
    >>> [debt_cost(three, host, Request(0, np.array([2]), 30 * 3600), 0) for host in (0, 1, 2)]
    [0.333333333, 0.0, 2.0]
    """
    state = cluster.state
    rules = state.rules[0]
    if cluster.n_running[host] == 0:
        return rules.empty_cost
    number, n_classes = class_of_remaining(state.bounds_s, request.exit_s - now), len(state.bounds_s) + 1
    gap, affinity = number - state.tag[host], 1.0
    if gap > 0:
        omega = rules.omega_long if number >= rules.long_class else rules.omega
        affinity = omega * (1.0 - gap / n_classes)
    elif rules.is_symmetric == 1:
        affinity = 1.0 + gap / n_classes
    return np.rint(1e9 * (1.0 - affinity)) / 1e9


def _state(rules: DappRules, n_hosts: int, n_requests: int) -> Any:
    return dapp_state(rules, n_hosts, n_requests)


def dapp_policy(name: str, rules: DappRules, about: str = "") -> Policy:
    """A reading of DAPP as a policy.

    >>> dapp_policy("mine", DappRules(tag_rule="max")).predictions
    'current'
    """
    names = ("none", *(f"class {c}" for c in range(1, len(rules.bounds_s) + 2)))
    hooks = Hooks(partial(_state, rules), placed, departed, emptied, at_deadline, "tag", names, resident)
    return Policy(name, (debt_cost, *PACKING), predictions="current", hooks=hooks, about=about)


DAPP = dapp_policy("dapp", DappRules(), "long requests keep off hosts of short ones, by tags renewed daily (DVLA)")

WARMUP, STABLE, OBSERVATION, COOLDOWN = range(4)
LEAST_SPREAD = 1e-6


@kernel
def pass_day(state: DappState) -> bool:
    """Add the shares of a midnight; whether the group is updated. The first group, at the end of
    the warm-up, is not an update. A midnight without running requests does not count.

    >>> from sojourn.simulator.policies.dapp import DappRules, GroupRules, dapp_state
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
    """Append today's shares to the window; False if no request runs."""
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
    product, day_square, mean_square = 0.0, 0.0, 0.0
    for c in range(len(state.shares)):
        product += state.window[day, c] * state.shares[c]
        day_square += state.window[day, c] * state.window[day, c]
        mean_square += state.shares[c] * state.shares[c]
    lengths = math.sqrt(day_square * mean_square)
    return 1.0 - product / lengths if lengths > 0.0 else 0.0


@inner
def score(state: DappState, day: int) -> float:
    """The day's error above its mean, in mean distances, at least 0."""
    pool = state.pool[0]
    return max(0.0, (distance(state, day) - pool.error) / max(pool.spread, LEAST_SPREAD))


@inner
def learn(state: DappState, day: int) -> None:
    """Update the means of the error, then those of the shares."""
    groups, pool = state.groups[0], state.pool[0]
    pool.n_learnt += 1
    if pool.n_learnt == 0:
        for c in range(len(state.shares)):
            state.shares[c] = state.window[day, c]
        return
    alpha, beta = groups.alpha, groups.beta
    if groups.is_as_printed == 0:  # a plain mean, until there are more days than an EWMA covers
        alpha, beta = max(alpha, 1.0 / (pool.n_learnt + 1)), max(beta, 1.0 / pool.n_learnt)
    error = distance(state, day)
    pool.spread += beta * (abs(error - pool.error) - pool.spread)
    pool.error += beta * (error - pool.error)
    for c in range(len(state.shares)):
        state.shares[c] += alpha * (state.window[day, c] - state.shares[c])


@inner
def _group_by_window(state: DappState) -> None:
    """Choose the group by the window's mean shares."""
    n_days = state.pool[0].n_in_window
    for c in range(len(state.sums)):
        state.sums[c] = 0.0
        for day in range(n_days):
            state.sums[c] += state.window[day, c]
    choose_group(state, n_days)


@kernel
def choose_group(state: DappState, n_days: int) -> None:
    """Add classes by falling mean share until the group has enough cores and classes; of equal ones
    the longer.

    n_days: the number of days in `state.sums`.
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
