"""What DAPP's switches are, and the arrays that it keeps (DVLA, OSDI'26, sections 4.2 and 4.3).

The paper's formulas were known to us as prose, so each switch is a reading that it leaves open, or a part that its own
ablation removes. Switches are data, so that all readings run in one compiled loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from sojourn.simulator.cluster import NEVER

DVLA_BOUNDS_S = (3_600, 86_400, 604_800, 2_592_000, 31_536_000)
"""Upper bounds of classes 1 to 5, each in its class: an hour, a day, a week, a month, a year; what is longer is of
class 6."""
SHORT_BOUNDS_S = (600, 3_600, 21_600, 86_400, 259_200)
"""The same for traces of a few weeks: 10 min, 1, 6, 24 and 72 h."""
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
    ("is_weighted", np.int64),  # the rule of tags now; else the longest class
    ("next_midnight_s", np.int64), ("n_in_use", np.int64),
    ("n_seen", np.int64),  # hosts whose midnight has been
    ("n_days", np.int64), ("n_in_window", np.int64), ("phase", np.int64), ("n_phase_days", np.int64),
    ("n_learnt", np.int64),  # -1: not even a first day
    ("n_updates", np.int64), ("error", np.float64), ("spread", np.float64),
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class GroupRules:
    """How the group of classes is kept up to date, once a day.

    update: `off`, all classes; `algorithm-1`, when the paper's detector confirms a drift; `timer`, every timer_days.
    With both, the first group comes at the end of warmup_days; it counts as no update. window_days: of an observation,
    and whose mean shares make a group. alarm, confirm: thresholds of the score. alpha, beta: factors of the EWMA.
    coverage: a group's share of the cores. n_least: classes in it. is_as_printed: the day of an alarm is learnt twice,
    nothing is learnt in the cooldown, and averages begin at 0 without correction.

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

    base: `one-sided`, only a request of a longer class than its host's is penalised; `symmetric`, one of a shorter
        class as well.
    tag_rule: of a host's class, from the classes of its requests: `weighted`, their mean by cores, to the nearest class
        of the group; `max`, the longest; `switch-over`, max until the group is first updated, then weighted. A pool
        that runs already when the replay begins is weighted from the start.
    tags: when it is found anew: `paper`, when a host's first request comes, its last one goes or its last long one
        migrates away, and once a day; `daily`, only the latter; `events`, only the former; `exact`, whenever it can
        have changed.
    empty: `last`, any host in use comes before an empty one; `scored`, an empty one's affinity is 0.15.
    bounds_s: upper bounds of all classes but the last, ascending. long_class: requests of this class or above are long.
    day_s: between two midnights, at which known classes are predicted anew.

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
    """What DAPP keeps; int64 unless stated. K classes, numbered from 1; class c stands at c - 1.

    Per host, (n_hosts,): tag, its class, 0 where it has none; deadline_s; change_s, when a known class next changes
    (exact tags). cores, n_of (n_hosts, K): of its requests by known class. Per request, (n_requests,): class_of, the
    class last known; cores_of; left_host, left_s: where and when it last left. pool_cores (K,): of all hosts. idx_cpu
    (1,). rules, groups, pool (1,): RULES, GROUPS, POOL. bounds_s (K - 1,).

    Groups, float64: shares (K,), means of the detector; sums (K,), of the warm-up's days, and then of a group's window;
    window (window_days, K), the last days' shares in order of time. is_member (K,): classes of the group.
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
    own, groups, pool = np.zeros(1, RULES), np.zeros(1, GROUPS), np.zeros(1, POOL)
    own["is_symmetric"], own["is_exact"] = rules.base == "symmetric", rules.tags == "exact"
    own["is_on_events"], own["is_daily"] = rules.tags in ("paper", "events"), rules.tags in ("paper", "daily")
    own["is_switched"], own["long_class"] = rules.tag_rule == "switch-over", rules.long_class
    own["day_s"], own["empty_cost"] = rules.day_s, 2.0 if rules.empty == "last" else 0.85
    own["omega"], own["omega_long"] = 0.8, 0.2
    for name in ("window_days", "warmup_days", "cooldown_days", "timer_days", "n_least", "is_as_printed", "alarm",
                 "confirm", "alpha", "beta", "coverage"):
        groups[name] = getattr(rules.groups, name)
    groups["update"] = _UPDATES[rules.groups.update]
    pool["is_weighted"], pool["n_learnt"] = rules.tag_rule == "weighted", -1
    return DappState(
        np.zeros(n_hosts, np.int64), np.full(n_hosts, NEVER), np.full(n_hosts, NEVER), by_class[0], by_class[1],
        by_request[0], by_request[1], by_request[2], np.full(n_requests, NEVER_LEFT), np.zeros(n_classes, np.int64),
        np.zeros(1, np.int64), own, groups, pool, np.array(rules.bounds_s, np.int64), np.zeros(n_classes),
        np.zeros(n_classes), np.zeros((rules.groups.window_days, n_classes)), np.ones(n_classes, np.int64),
    )  # fmt: skip
