"""Slow twin of host exits: every request's curve walked from its arrival, every host looked at anew."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.serving import Lifetime
from sojourn.serving.curves import LifetimeCurve


def held_exit(curve: LifetimeCurve, arrival_s: int, now_s: int) -> float:
    """The exit as last asked: at the arrival, then at each next change; doubled where it was never asked again."""
    uptime_s = now_s - arrival_s
    asked_s = 0.0
    while (change_s := curve.next_change(asked_s)) <= uptime_s:
        asked_s = change_s
    total_s = asked_s + max(curve.remaining(asked_s), 1.0)
    if change_s < float("inf"):
        total_s = max(total_s, change_s)
    while total_s <= uptime_s:
        total_s *= 2.0
    return arrival_s + total_s


def host_exits(hosts: Sequence[Sequence[Lifetime]], now_s: int) -> list[float]:
    """The latest exit of each host's requests, or now."""
    return [max((held_exit(vm.curve, vm.arrival_s, now_s) for vm in vms), default=float(now_s)) for vms in hosts]
