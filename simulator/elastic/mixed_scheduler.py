"""Schedulers of services and batch requests on one pool: `trace`, `k8s`, `demand-blind` and `ctcl`, as settings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from sojourn.simulator.elastic.autoscaler import RESOURCES, Autoscaler, greedy, homogeneous
from sojourn.simulator.elastic.evictor import Evictor
from sojourn.simulator.elastic.machine_types import DEFAULT_TYPE, MachineType
from sojourn.simulator.whole_numbers import is_whole

Reading = Literal["idle", "vertical", "none"]
"""What predicted needs mean: a service's idle room is for batch requests; its reservation becomes its need; nothing."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Decision times of the CTCL paper (table III) and the scheduling cycle, which it leaves open.

    Decisions are made one after the other: with 20 ms each, 50 in a cycle of a second; the others wait for the next.
    Evictions at the begin of a cycle delay its placements by their own time.

    >>> Timing().decision_ms
    20
    """

    cycle_ms: int = 1000
    decision_ms: int = 20
    start_ms: int = 300
    eviction_ms: int = 2

    def __post_init__(self) -> None:
        for name, least in (("cycle_ms", 1), ("decision_ms", 0), ("start_ms", 0), ("eviction_ms", 0)):
            if not is_whole(getattr(self, name), least):
                raise ValueError(f"{name} must be a whole number, {least} or more, got {getattr(self, name)!r}")


@dataclass(frozen=True, slots=True)
class MixedScheduler:
    """A scheduler in pieces. about: one line.

    autoscaler: None = a fixed pool, of `n_machines` of `fixed_type`.
    needs: how predicted needs are read. is_first_fit: the first host in place of the least requested.
    is_by_use: a batch request needs its demand free of what is used now, in place of what is allocated, and leaves the
        host below the evictor's threshold.
    is_raised: eviction sets the demand to the most seen. is_long: a rescheduled request needs room for the longest time
        that requests like it took.
    fill: share of a host that batch requests may fill in each resource.
    """

    about: str
    autoscaler: Autoscaler | None = field(default_factory=greedy)
    evictor: Evictor = field(default_factory=Evictor)
    timing: Timing = field(default_factory=Timing)
    needs: Reading = "none"
    is_first_fit: bool = False
    is_by_use: bool = False
    is_raised: bool = True
    is_long: bool = True
    is_by_trace: bool = False
    fill: float = 1.0
    fixed_type: MachineType = DEFAULT_TYPE

    def __post_init__(self) -> None:
        if not 0 < self.fill <= 1 or math.isnan(self.fill):
            raise ValueError(f"fill must be above 0 and at most 1, got {self.fill!r}")
        if len(self.evictor.weights) != len(RESOURCES):
            raise ValueError(f"weights of the evictor must be one of each of {', '.join(RESOURCES)}, got "
                             f"{self.evictor.weights!r}")
        scaler = self.autoscaler
        if scaler is not None and (scaler.resources, scaler.weights) != (RESOURCES, self.evictor.weights):
            raise ValueError(f"resources and weights of the autoscaler must be {RESOURCES!r} and those of the evictor, "
                             f"{self.evictor.weights!r}, got {scaler.resources!r} and {scaler.weights!r}")


SCHEDULERS: Mapping[str, MixedScheduler] = MappingProxyType({
    "trace": MixedScheduler(
        "the trace's own machines where it names them, else first fit on a fixed pool: services by their reservation, "
        "batch requests by what is used now; an evicted one is placed again with the same demand",
        autoscaler=None, evictor=Evictor(order="random"), is_first_fit=True, is_by_use=True, is_raised=False,
        is_long=False, is_by_trace=True),
    "k8s": MixedScheduler(
        "least requested without classes; reservations of services follow what they used (vertical autoscaling); one "
        "machine of the default type a cycle",
        autoscaler=homogeneous(), evictor=Evictor(order="largest-excess"), needs="vertical", is_long=False),
    "demand-blind": MixedScheduler(
        "as ctcl, but without predictions: batch requests get free room only, by what they asked for, evicted or not",
        is_raised=False, is_long=False),
    "ctcl": MixedScheduler(
        "batch requests may use the room that classes of services are predicted to leave idle", needs="idle"),
})
"""By name: the CTCL paper's two baselines, scheduling without knowledge of the demand, and CTCL."""
