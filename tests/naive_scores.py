"""Slow twins of the policies: the score vector of one host, from everything that is on it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import naive_dapp
import naive_gpu
import naive_joint_exact
import naive_lava
import naive_min_usage
from naive import HOUR, NILAS_BUCKETS, mixed, overhang_at

if TYPE_CHECKING:
    from naive_replay import Replay


@dataclass
class Host:
    """One host, what runs on it, and who only holds room there while it migrates away."""

    index: int
    capacity: list[int]
    running: list[int] = field(default_factory=list)
    leaving: list[int] = field(default_factory=list)
    n_failures: int = 0
    n_drains: int = 0
    emptied_for: str = ""  # "batch" or "wave", while it is closed for one
    is_updated: bool = False
    # LAVA's
    state: str = "empty"
    lifetime_class: int = 0
    opened: int = 0
    deadline: float = math.inf
    residuals: set[int] = field(default_factory=set)
    # DAPP's
    tag: int = 0
    # joint-exact's, of each request the logarithms of its chances
    known: list[list[int]] = field(default_factory=list)
    # which GPUs each request holds there
    gpus: dict[int, list[int]] = field(default_factory=dict)
    # what its first request opened it for, in MinUsageTime packing
    opened_for: Any = None
    # a cached exit, and when it is asked for again
    cached: int = 0
    cached_until: float = -math.inf

    @property
    def is_empty(self) -> bool:
        """Whether nothing holds room."""
        return not self.running and not self.leaving

    @property
    def is_out(self) -> bool:
        """Whether it has failed or is drained."""
        return self.n_failures > 0 or self.n_drains > 0

    @property
    def is_open(self) -> bool:
        """Whether it takes requests."""
        return not self.is_out and not self.emptied_for


def score(replay: Replay, i: int, host: Host) -> tuple[Any, ...]:
    """The host's score vector for request i; lower is better."""
    packing, policy = packing_of(replay, i, host), replay.policy
    if policy == "first-fit":
        return ()
    if policy == "first-in-use":
        return (host.is_empty,)
    if policy == "best-fit":
        return packing
    if policy == "worst-fit":
        return tuple(1 - share for share in packing[1:])
    if policy == "random":
        return (mixed(i, host.index),)
    if policy == "la-binary":
        return (class_order(replay, i, host, [2 * HOUR]), *packing)
    if policy == "la":
        return (class_order(replay, i, host, [2**power * HOUR for power in range(1, 60)]), *packing)
    if policy in ("nilas", "nilas-one-shot", "nilas-60s"):
        return (bucket(extension_of(replay, i, host)), *packing)
    if policy == "nilas-unbucketed":
        return (extension_of(replay, i, host), *packing)
    if policy == "nilas-second":
        return (packing[0], bucket(extension_of(replay, i, host)), *packing[1:])
    if policy == "nilas-last":
        return (*packing, bucket(extension_of(replay, i, host)))
    if policy == "nilas-expected":
        return (bucket(expected_extension(replay, i, host)), *packing)
    if policy == "waste-min":
        return (packing[0], added_waste(replay, i, host), *packing)
    if policy == "fgd":
        return (naive_gpu.step(replay, i, host), naive_gpu.left(replay, i, host), *packing)
    if policy == "open-fgd":
        return (packing[0], naive_gpu.step(replay, i, host), naive_gpu.left(replay, i, host), *packing)
    if policy == "joint-fit":
        return (math.log1p(expected_extension(replay, i, host) / 7200) + float(packing[1]), *packing)
    if policy == "joint-exact":
        extensions = (expected_extension(replay, i, host), naive_joint_exact.exact_extension(replay, i, host))
        logarithms = math.log1p(extensions[0] / 7200) + math.log1p(extensions[1] / 7200)
        return (2 * logarithms + float(packing[1]), *packing)
    if policy == "aligned-fit":
        extension = expected_extension(replay, i, host)
        slack = max(replay.exit_of_host(host) - replay.exit_of(i) + extension, 0)
        return ((extension + 0.03 * slack) / 7200 + float(packing[1]), *packing)
    if policy == "lava-soft-expected":
        return (naive_lava.class_preference(replay, i, host), bucket(expected_extension(replay, i, host)), *packing)
    if policy == "lava-soft-joint":
        joint = math.log1p(expected_extension(replay, i, host) / 7200) + float(packing[1])
        return (naive_lava.class_preference(replay, i, host), joint, *packing)
    if policy in naive_min_usage.POLICIES:
        return (naive_min_usage.score(replay, i, host),)
    if policy.startswith("dapp"):
        return (naive_dapp.debt_cost(replay, i, host), *packing)
    if policy.startswith("lava"):
        return (naive_lava.class_preference(replay, i, host), bucket(extension_of(replay, i, host)), *packing)
    raise ValueError(policy)


def packing_of(replay: Replay, i: int, host: Host) -> tuple[Any, ...]:
    """Non-empty first, then least free share left, resource by resource."""
    left = [free - need for free, need in zip(replay.free(host), replay.need[i], strict=True)]
    shares = [Fraction(amount, room) if room else 0 for amount, room in zip(left, host.capacity, strict=True)]
    return (host.is_empty, *shares)


def added_waste(replay: Replay, i: int, host: Host) -> float:
    """Room that becomes useless to the mean shape of all requests placed so far, in fiftieths of the host."""
    placed = [replay.need[r] for r, first in enumerate(replay.first) if first >= 0]
    mix = [sum(need[d] for need in placed) for d in range(len(host.capacity))]

    def waste(free: list[int]) -> float:
        n_mixes = min((own / part for own, part in zip(free, mix, strict=True) if part), default=None)
        if n_mixes is None:
            return 0.0
        return max(0.0, *((own - n_mixes * part) / room
                          for own, part, room in zip(free, mix, host.capacity, strict=True) if room))

    free = replay.free(host)
    left = [own - asked for own, asked in zip(free, replay.need[i], strict=True)]
    return round(50 * (1.0 + (waste(left) - waste(free))))


def class_order(replay: Replay, i: int, host: Host, bounds: list[int]) -> int:
    """Same class, then another class, then an empty host. bounds: s, upper bounds of all classes but the last."""
    if host.is_empty:
        return 2

    def class_of(exit_s: int) -> int:
        return sum(exit_s - replay.now >= bound for bound in bounds)

    return int(class_of(replay.exit_of(i)) != class_of(replay.exit_of_host(host)))


def extension_of(replay: Replay, i: int, host: Host) -> int:
    """By how much the request outstays the host, 0 if it does not."""
    host_exit = host.cached if replay.policy == "nilas-60s" and host.running else replay.exit_of_host(host)
    return max(replay.exit_of(i) - host_exit, 0)


def bucket(extension_s: float) -> int:
    """Index of the bucket."""
    return max(k for k, edge in enumerate(NILAS_BUCKETS) if extension_s >= edge)


def expected_extension(replay: Replay, i: int, host: Host) -> float:
    """The same as expected, where the predictor tells whole distributions."""
    if replay.overhang is None:
        return extension_of(replay, i, host)
    age, uptimes = replay.now - replay.begins[i], [uptime for uptime, _ in replay.breakpoints[i]]
    remaining = replay.exit_of_host(host) - replay.now
    extension = overhang_at(uptimes, replay.overhang[i], age + remaining)
    if age == 0:
        return extension
    reached = overhang_at(uptimes, replay.overhang[i], age)
    left = replay.exit_of(i) - replay.now
    return extension / reached * left if reached > 0 else max(left - remaining, 0)
