"""Slow twins of the kernels of an elastic pool: plain Python over lists."""

from __future__ import annotations

from collections.abc import Sequence

Amounts = Sequence[int]


def weighted(used: Sequence[float], capacity: Amounts, weights: Sequence[float]) -> float:
    total = 0.0
    for weight, amount, whole in zip(weights, used, capacity, strict=True):
        if whole > 0:
            total += weight * amount / whole
    return total


def is_overloaded(used: Amounts, capacity: Amounts, weights: Sequence[float], threshold: float) -> bool:
    return any(u > c for u, c in zip(used, capacity, strict=True)) or weighted(used, capacity, weights) > threshold


def evicted(used: Sequence[Amounts], rank: Sequence[float], host_used: Amounts, capacity: Amounts,
            weights: Sequence[float], threshold: float) -> list[int]:
    left = list(host_used)
    chosen = []
    for k in sorted(range(len(used)), key=lambda k: (rank[k], k)):
        if not is_overloaded(left, capacity, weights, threshold):
            break
        chosen.append(k)
        left = [a - b for a, b in zip(left, used[k], strict=True)]
    return chosen


def scale_out(demand: Sequence[Amounts], capacities: Sequence[Amounts], prices: Sequence[float],
              weights: Sequence[float], most: int) -> tuple[list[int], list[int]]:
    """The type of each machine, and the machine of each request."""
    machine: list[int] = [-1] * len(demand)
    types: list[int] = []
    waiting = sorted(range(len(demand)), key=lambda k: -weighted(demand[k], capacities[0], weights))
    while waiting and len(types) < most:
        plans = []
        for kind, capacity in enumerate(capacities):
            left, taken = list(capacity), []
            for k in waiting:
                if all(a <= b for a, b in zip(demand[k], left, strict=True)):
                    taken.append(k)
                    left = [b - a for a, b in zip(demand[k], left, strict=True)]
            used = [c - b for c, b in zip(capacity, left, strict=True)]
            if taken:
                plans.append((-weighted(used, capacity, weights), prices[kind], kind, taken))
        if not plans:
            break
        _, _, kind, taken = min(plans)
        for k in taken:
            machine[k] = len(types)
            waiting.remove(k)
        types.append(kind)
    return types, machine


def least_requested(available: Sequence[Amounts], capacity: Sequence[Amounts], is_open: Sequence[bool], need: Amounts,
                    weights: Sequence[float]) -> int:
    ranked = [(weighted([c - a for a, c in zip(available[host], capacity[host], strict=True)], capacity[host], weights),
               host) for host in range(len(capacity))
              if is_open[host] and all(n <= a for n, a in zip(need, available[host], strict=True))]
    return min(ranked)[1] if ranked else -1
