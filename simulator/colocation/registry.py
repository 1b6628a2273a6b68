"""The policies that place by usage, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from sojourn.simulator.colocation.colocation import Colocation, whole_numbers
from sojourn.simulator.colocation.peaks import best_fit_peak, borg_peak, oracle_peak, random_host
from sojourn.simulator.colocation.profiles import (
    oracle_series,
    period_aware,
    period_aware_per_request,
    squares,
    violation_fit,
)
from sojourn.simulator.whole_numbers import check_setting

Rule = Callable[[Colocation, np.ndarray, np.random.Generator], np.ndarray]
"""Hosts, int64 (n,), of requests that come in an order, int64 (n,); ties go to the host with the least load by the
rule's own reading, then to the lowest index."""


@dataclass(frozen=True, slots=True)
class ColocationPolicy:
    """A rule and what it is. is_oracle: whether it reads the real use of the time that it is judged on."""

    name: str
    place: Rule
    about: str
    is_oracle: bool = False


COLOCATION_POLICIES: Mapping[str, ColocationPolicy] = MappingProxyType({policy.name: policy for policy in (
    ColocationPolicy("random", random_host, "any host, each with the same probability"),
    ColocationPolicy("best-fit", best_fit_peak, "the fullest host on which the peak fits, else the emptiest"),
    ColocationPolicy("borg-peak", borg_peak, "the greatest remaining capacity by the sum of peaks"),
    ColocationPolicy("period-aware", period_aware,
                     "the least increase of violations above the mean load of a host"),
    ColocationPolicy("period-aware-per-request", period_aware_per_request,
                     "the least increase of violations above the mean use of a request, as the paper prints it"),
    ColocationPolicy("squares", squares, "the least increase of squared load over time; ours"),
    ColocationPolicy("violation-fit", violation_fit,
                     "the least increase of violations above the capacity, ties to the fullest host; ours"),
    ColocationPolicy("oracle-peak", oracle_peak, "borg-peak by the largest real use", is_oracle=True),
    ColocationPolicy("oracle-series", oracle_series, "squares by the real use", is_oracle=True),
)})


def place(colocation: Colocation, policy: str, order: np.ndarray, seed: int = 0) -> np.ndarray:
    """Host of each request, int64 (n,), by the policy of that name; `order`, int64 (n,), is how they come.

    seed: of `random`. Refused with ValueError: an unknown name, an order that is not one of all requests, a seed that
    is no whole number or below 0.

    >>> day = np.array([[4.0, 0.0], [0.0, 4.0]])
    >>> place(Colocation(day, 2, 4.0), "squares", np.array([1, 0])).tolist()
    [1, 0]
    """
    if policy not in COLOCATION_POLICIES:
        raise ValueError(f"policy must be one of {', '.join(COLOCATION_POLICIES)}, got {policy!r}")
    check_setting(seed, 0, "seed", 2**31)
    rows = whole_numbers(order, (len(colocation),), "order")
    if (np.sort(rows) != np.arange(len(colocation))).any():
        raise ValueError(f"order must hold each of the {len(colocation)} requests once, got {rows.tolist()[:10]!r}")
    return COLOCATION_POLICIES[policy].place(colocation, rows, np.random.default_rng(seed))
