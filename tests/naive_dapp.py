"""Slow twin of DAPP: known classes, tags of hosts, midnights and groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from naive import HOUR
from sojourn.simulator import DappRules, GroupRules

if TYPE_CHECKING:
    from naive_replay import Replay
    from naive_scores import Host

SHORT = DappRules(bounds_s=(600, HOUR, 6 * HOUR, 24 * HOUR, 72 * HOUR))
RULES = {
    "dapp": DappRules(),
    "dapp-short": SHORT,
    "dapp-weighted": replace(SHORT, tag_rule="weighted"),
    "dapp-max": replace(SHORT, tag_rule="max"),
    "dapp-symmetric": replace(SHORT, base="symmetric"),
    "dapp-exact": replace(SHORT, tags="exact"),
    "dapp-daily": replace(SHORT, tags="daily"),
    "dapp-events": replace(SHORT, tags="events"),
    "dapp-opens": replace(SHORT, empty="scored"),
    "dapp-figure-9": replace(SHORT, groups=GroupRules(window_days=14)),
    "dapp-ungrouped": replace(SHORT, tag_rule="weighted", groups=GroupRules("off")),
    "dapp-ungrouped-events": replace(SHORT, tag_rule="weighted", tags="events", groups=GroupRules("off")),
    "dapp-timer": replace(SHORT, tag_rule="weighted",
                          groups=GroupRules("timer", window_days=1, warmup_days=1, timer_days=1)),
}
"""The switches of each policy; a test may add more."""


@dataclass
class Detector:
    """Algorithm 1 on lists."""

    rules: GroupRules
    phase: str = "warmup"
    n_days: int = 0
    history: list[list[float]] = field(default_factory=list)
    since: int = 0  # first day of the observation
    means: list[float] | None = None
    error: float = 0.0
    spread: float = 0.0
    n_errors: int = 0
    group: list[int] | None = None

    def day(self, shares: list[float]) -> bool:
        """Whether the group is updated."""
        rules = self.rules
        if rules.update == "off":
            return False
        self.history.append(shares)
        today, self.n_days = len(self.history) - 1, self.n_days + 1
        if today + 1 == rules.warmup_days:
            self.group = group_of(self.history, rules)
        if rules.update == "timer":
            is_updated = (today + 1) % rules.timer_days == 0
        else:
            is_updated = self.has_drifted(today)
        if is_updated:
            self.group = group_of(self.history[-rules.window_days:], rules)
        return is_updated

    def has_drifted(self, today: int) -> bool:
        """Warm-up, stable, observation, cooldown."""
        rules, shares = self.rules, self.history[today]
        if self.phase == "warmup":
            self.learn(shares)
            if self.n_days == rules.warmup_days:
                self.phase, self.n_days = "stable", 0
            return False
        if self.phase == "cooldown":
            if not rules.is_as_printed:
                self.learn(shares)
            if self.n_days == rules.cooldown_days:
                self.phase, self.n_days = "stable", 0
            return False
        if self.phase == "stable":
            is_alarm = self.score(shares) > rules.alarm
            if rules.is_as_printed or not is_alarm:
                self.learn(shares)
            if not is_alarm:
                return False
            self.phase, self.since = "observation", today
        if today - self.since + 1 < rules.window_days:
            return False
        window, total = self.history[self.since:], 0.0
        for each in window:
            total += self.score(each)
        for each in window:
            self.learn(each)
        is_confirmed = total / len(window) >= rules.confirm
        self.phase, self.n_days = "cooldown" if is_confirmed else "stable", 0
        return is_confirmed

    def distance(self, shares: list[float]) -> float:
        """1 minus the cosine."""
        assert self.means is not None
        product = own = other = 0.0
        for a, b in zip(shares, self.means, strict=True):
            product, own, other = product + a * b, own + a * a, other + b * b
        return 1.0 - product / math.sqrt(own * other)

    def score(self, shares: list[float]) -> float:
        """In mean distances above the mean."""
        return max(0.0, (self.distance(shares) - self.error) / max(self.spread, 1e-6))

    def learn(self, shares: list[float]) -> None:
        """Averages; corrected for their beginning unless as printed."""
        if self.means is None:
            self.means = shares
            return
        distance = self.distance(shares)
        self.n_errors += 1
        alpha, beta = self.rules.alpha, self.rules.beta
        if not self.rules.is_as_printed:
            alpha, beta = max(alpha, 1.0 / (self.n_errors + 1)), max(beta, 1.0 / self.n_errors)
        self.spread += beta * (abs(distance - self.error) - self.spread)
        self.error += beta * (distance - self.error)
        self.means = [mean + alpha * (share - mean) for mean, share in zip(self.means, shares, strict=True)]


def group_of(days: Sequence[Sequence[float]], rules: GroupRules) -> list[int]:
    """Classes from 1, the largest mean share first, as long as they cover too little or are too few."""
    sums = [0.0] * len(days[0])
    for day in days:
        sums = [total + share for total, share in zip(sums, day, strict=True)]
    found: list[int] = []
    covered = 0.0
    for c in sorted(range(len(sums)), key=lambda c: (-sums[c], -c)):
        if covered >= rules.coverage and len(found) >= rules.n_least:
            break
        found.append(c + 1)
        covered += sums[c] / len(days)
    return sorted(found)


def rules_of(replay: Replay) -> DappRules:
    """The switches of the policy that is replayed."""
    return RULES[replay.policy]


def begin(replay: Replay) -> None:
    """Nothing known."""
    rules = rules_of(replay)
    replay.known = {}
    replay.detector = Detector(rules.groups)
    replay.is_weighted = rules.tag_rule == "weighted"
    replay.untagged = set()
    replay.midnight = rules.day_s


def class_of(replay: Replay, i: int) -> int:
    """Class of the remaining time."""
    return 1 + sum(replay.exit_of(i) - replay.now > bound for bound in rules_of(replay).bounds_s)


def found_tag(replay: Replay, host: Host) -> int:
    """By the known classes; by those of now where tags are exact."""
    is_exact = rules_of(replay).tags == "exact"
    classes = [(class_of(replay, i) if is_exact else replay.known[i], max(replay.need[i][replay.cpu], 1))
               for i in host.running]
    if not classes or not replay.is_weighted:
        return max((c for c, _ in classes), default=0)
    mean = Fraction(sum(c * cores for c, cores in classes), sum(cores for _, cores in classes))
    members = replay.detector.group or range(1, len(rules_of(replay).bounds_s) + 2)
    return min(members, key=lambda c: (abs(mean - c), -c))


def came(replay: Replay, i: int, host: Host) -> None:
    """Its class is known; the first request gives the tag. A long one may have left a host without long ones."""
    rules, by_events = rules_of(replay), rules_of(replay).tags in ("paper", "events")
    source = next((other for other in replay.hosts if i in other.leaving and i not in other.running), None)
    if by_events and source is not None and replay.known[i] >= rules.long_class:
        if all(replay.known[r] < rules.long_class for r in source.running):
            source.tag = found_tag(replay, source)
    replay.known[i] = class_of(replay, i)
    if by_events and host.running == [i]:
        host.tag = found_tag(replay, host)
    if replay.now == 0 and replay.begins[i] < 0:
        replay.untagged.add(host.index)
        replay.is_weighted |= rules.tag_rule == "switch-over"


def left(replay: Replay, host: Host) -> None:
    """Without requests there is no tag."""
    if rules_of(replay).tags in ("paper", "events") and not host.running:
        host.tag = 0


def next_time(replay: Replay) -> int:
    """The next midnight, or the first second of a pool that runs already."""
    return 1 if replay.untagged else replay.midnight


def pass_time(replay: Replay) -> None:
    """A midnight, or that first second."""
    rules = rules_of(replay)
    if replay.now < replay.midnight:
        know(replay, [host for host in replay.hosts if host.index in replay.untagged])
        replay.untagged = set()
        return
    replay.midnight += rules.day_s
    for host in replay.hosts:
        replay.known |= {i: class_of(replay, i) for i in host.running}
    cores = [sum(max(replay.need[i][replay.cpu], 1) for host in replay.hosts for i in host.running
                 if replay.known[i] == c + 1) for c in range(len(rules.bounds_s) + 1)]
    if sum(cores) and replay.detector.day([own / sum(cores) for own in cores]):
        replay.is_weighted |= rules.tag_rule == "switch-over"
    know(replay, replay.hosts)


def know(replay: Replay, hosts: Sequence[Host]) -> None:
    """Classes anew, and tags where they are renewed."""
    for host in hosts:
        replay.known |= {i: class_of(replay, i) for i in host.running}
        if rules_of(replay).tags in ("paper", "daily"):
            host.tag = found_tag(replay, host)


def debt_cost(replay: Replay, i: int, host: Host) -> Fraction:
    """1 minus the affinity."""
    rules = rules_of(replay)
    if host.is_empty:
        return Fraction(2) if rules.empty == "last" else Fraction(85, 100)
    n_classes, own = len(rules.bounds_s) + 1, class_of(replay, i)
    missing = own - (found_tag(replay, host) if rules.tags == "exact" else host.tag)
    if missing > 0:
        omega = Fraction(2, 10) if own >= rules.long_class else Fraction(8, 10)
        return 1 - omega * (1 - Fraction(missing, n_classes))
    return Fraction(-missing, n_classes) if rules.base == "symmetric" else Fraction(0)
