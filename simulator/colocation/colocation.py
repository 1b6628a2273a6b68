"""Placement by usage: requests with their real and modelled use, policies by name, violations.

Policies by peaks count each request at all times with its expected maximum. Policies by use over
time minimise the increase of violations above a capacity, or of squared load.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from reprlib import repr as shortened
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from sojourn.simulator.colocation._colocation_kernels import (
    place_block,
    place_by_peaks,
    score_products,
    score_violations,
)
from sojourn.simulator.whole_numbers import check_setting

UNITS = 1 << 16
"""Units in one host's capacity. Use is counted in whole units, so sums and ties are exact."""
MOST_CAPACITIES = 16
"""The most use of one request, in hosts' capacities; its sum over a tile fits into 32 bits."""


@dataclass(frozen=True, slots=True)
class Colocation:
    """Requests that are placed once and then use resources by their series, on equal hosts.

    use: their real use, float (n, n_slots) of one resource, or (n, n_resources, n_slots); cores,
        GiB and so on.
    model: the use that a policy assumes, in the same unit and form; its number of slots may differ:
        a profile that repeats (a day's, or one common multiple of all periods) is given once.
        Default: `use`.
    capacity: of each host, one number or one per resource, in the unit of `use`.
    n_hosts: at least 1.

    Derived: used and modelled, int32 (n, n_columns), in 1/65,536 of a host's capacity, rounded; the
    columns of a resource are adjacent, so several resources are normalised by their capacity and
    summed (period-aware placement, section III-B).

    Refused with ValueError: no requests; use that is not numbers, negative or not finite, or above
    16 hosts' capacity for one request; a number of hosts that is not whole.

    >>> two = Colocation(np.array([[1.0, 3.0], [2.0, 0.0]]), 2, 4.0)
    >>> two.used.tolist(), two.model_slots
    ([[16384, 49152], [32768, 0]], 2)
    """

    use: np.ndarray
    n_hosts: int
    capacity: float | np.ndarray
    model: np.ndarray | None = None
    used: np.ndarray = field(init=False, repr=False)
    modelled: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_setting(self.n_hosts, 1, "n_hosts", 2**31)
        room = np.atleast_1d(numbers(self.capacity, "capacity").astype(np.float64))
        object.__setattr__(self, "use", numbers(self.use, "use"))
        if self.model is not None:
            object.__setattr__(self, "model", numbers(self.model, "model"))
        if room.ndim != 1 or not np.isfinite(room).all() or (room <= 0).any():
            raise ValueError(f"capacity must be finite and above 0, got {self.capacity!r}")
        used = in_units(self.use, room, "use")
        object.__setattr__(self, "used", used)
        modelled = used if self.model is None else in_units(self.model, room, "model")
        if len(modelled) != len(used):
            raise ValueError(f"model must be of the {len(used)} requests of use, got {len(modelled)}")
        object.__setattr__(self, "modelled", modelled)

    @property
    def n_resources(self) -> int:
        return self.use.shape[1] if self.use.ndim == 3 else 1

    @property
    def slots(self) -> int:
        """Slots of the real use."""
        return int(self.use.shape[-1])

    @property
    def model_slots(self) -> int:
        """Slots of the model."""
        return int((self.use if self.model is None else self.model).shape[-1])

    def __len__(self) -> int:
        return len(self.use)


def in_units(use: np.ndarray, capacity: np.ndarray, name: str) -> np.ndarray:
    """Use in 1/65,536 of a host's capacity, int32 (n, n_resources x n_slots); see `Colocation`.

    >>> in_units(np.array([[0.5, 1.0]]), np.array([2.0]), "use").tolist()
    [[16384, 32768]]
    """
    series = numbers(use, name)
    if series.ndim not in (2, 3) or 0 in series.shape:
        raise ValueError(f"{name} must have the shape (n, n_slots) or (n, n_resources, n_slots), none of them 0, got "
                         f"{series.shape}")
    n_resources = 1 if series.ndim == 2 else series.shape[1]
    if len(capacity) != n_resources:
        raise ValueError(f"capacity must have one number for each of the {n_resources} resources of {name}, got "
                         f"{len(capacity)}")
    least, most = float(series.min()), float((series.reshape(len(series), n_resources, -1)
                                              / capacity[:, None]).max())
    if not np.isfinite(most) or np.isnan(least) or least < 0:
        raise ValueError(f"{name} must be finite and at least 0, got {least if least < 0 else most!r}")
    if most > MOST_CAPACITIES:
        raise ValueError(f"{name} must be at most {MOST_CAPACITIES} hosts' capacity for one request, got {most:.6g}")
    whole = np.empty((len(series), n_resources, series.shape[-1]), np.int32)
    for resource in range(n_resources):
        column = series if series.ndim == 2 else series[:, resource]
        np.rint(column * (UNITS / capacity[resource]), out=whole[:, resource], casting="unsafe")
    return whole.reshape(len(series), -1)


def numbers(values: Any, name: str) -> np.ndarray:
    """The values as an array of whole or real numbers; ValueError for text, objects, truth values and ragged lists.

    >>> numbers([[1, 2]], "use").tolist()
    [[1, 2]]
    """
    try:
        array = np.asarray(values)
    except ValueError:  # ragged
        array = np.empty(0, object)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be numbers, got {shortened(values)}")
    return array


def whole_numbers(values: Any, shape: tuple[int, ...], name: str) -> np.ndarray:
    """The values as int64 of that shape; ValueError for other shapes and values that are not whole.

    >>> whole_numbers([1, 0], (2,), "order").tolist()
    [1, 0]
    """
    array = numbers(values, name)
    if array.dtype.kind not in "iu" or array.shape != shape:
        raise ValueError(f"{name} must be whole numbers of the shape {shape}, got {shortened(array.tolist())}")
    return array.astype(np.int64)


def borg_peak(colocation: Colocation, order: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Hosts by the greatest expected remaining capacity: capacity less the sum of their peaks.

    A peak is the maximum of the request's model (period-aware placement, sections III-B and IV:
    "places the job on a server to maximize the expected remaining capacity"); several resources are
    normalised by capacity and summed.

    >>> three = Colocation(np.array([[3.0, 1.0], [1.0, 2.0], [1.0, 1.0]]), 2, 4.0)
    >>> borg_peak(three, np.arange(3), np.random.default_rng(0)).tolist()
    [0, 1, 1]
    """
    return _placed(_peaks(colocation.modelled, colocation.n_resources), colocation, order, is_packing=False)


def best_fit_peak(colocation: Colocation, order: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Hosts by the least remaining capacity on which the peak fits; if none fits, by the greatest.

    >>> three = Colocation(np.array([[3.0, 1.0], [1.0, 2.0], [1.0, 1.0]]), 2, 4.0)
    >>> best_fit_peak(three, np.arange(3), np.random.default_rng(0)).tolist()
    [0, 1, 0]
    """
    return _placed(_peaks(colocation.modelled, colocation.n_resources), colocation, order, is_packing=True)


def oracle_peak(colocation: Colocation, order: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """As `borg_peak`, by the largest real use of each request. No bound, as peaks ignore times.

    >>> two = Colocation(np.array([[3.0], [1.0]]), 2, 4.0, model=np.array([[1.0], [1.0]]))
    >>> oracle_peak(two, np.arange(2), np.random.default_rng(0)).tolist()
    [0, 1]
    """
    return _placed(_peaks(colocation.used, colocation.n_resources), colocation, order, is_packing=False)


def random_host(colocation: Colocation, order: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Hosts drawn at random, each with the same probability.

    >>> two = Colocation(np.array([[3.0], [1.0]]), 9, 4.0)
    >>> random_host(two, np.arange(2), np.random.default_rng(0)).tolist()
    [7, 5]
    """
    hosts = np.empty(len(colocation), np.int64)
    hosts[order] = rng.integers(0, colocation.n_hosts, len(colocation))
    return hosts


def _peaks(series: np.ndarray, n_resources: int) -> np.ndarray:
    return series.reshape(len(series), n_resources, -1).max(axis=2).astype(np.int64)


def _placed(peaks: np.ndarray, colocation: Colocation, order: np.ndarray, is_packing: bool) -> np.ndarray:
    chosen = np.empty(len(order), np.int64)
    place_by_peaks(peaks[order], UNITS, is_packing, np.zeros((colocation.n_hosts, peaks.shape[1]), np.int64), chosen)
    hosts = np.empty(len(order), np.int64)
    hosts[order] = chosen
    return hosts


_MOST_BLOCK = 64
"""The most requests per block; see the kernels. A block has at most a 32nd of the hosts."""


def period_aware(colocation: Colocation, order: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Hosts by the least increase of aggregate violation severity (period-aware placement, Algorithm 1).

    increase(i) = sum over t of max(0, L_i(t) + f(t) - C(t)) - max(0, L_i(t) - C(t)), with the virtual capacity C(t) =
    the sum of f_k(t) of all requests so far and this one, over the number of hosts. The paper prints 1/m over the
    requests: see `period_aware_per_request`.

    >>> day = np.array([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [0.0, 4.0]])
    >>> period_aware(Colocation(day, 2, 4.0), np.arange(4), np.random.default_rng(0)).tolist()
    [0, 1, 0, 1]
    """
    return _greedy(colocation.modelled, colocation.n_hosts, order, "hosts")


def period_aware_per_request(colocation: Colocation, order: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """As `period_aware`, with C(t) = the mean use of a request, as the paper prints it.

    With several requests per host nearly all load is above that line. So the increase is nearly the
    request's whole use on every host, and the differences are noise.

    >>> day = np.array([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [0.0, 4.0]])
    >>> period_aware_per_request(Colocation(day, 2, 4.0), np.arange(4), np.random.default_rng(0)).tolist()
    [0, 1, 0, 1]
    """
    return _greedy(colocation.modelled, colocation.n_hosts, order, "requests")


def squares(colocation: Colocation, order: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Hosts by the least increase of the sum over time of squared load; ours.

    increase(i) = sum over t of 2 L_i(t) f(t) + f(t)^2; the last term is the same for every host. It needs no capacity.

    >>> day = np.array([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [0.0, 4.0]])
    >>> squares(Colocation(day, 2, 4.0), np.arange(4), np.random.default_rng(0)).tolist()
    [0, 1, 0, 1]
    """
    return _greedy(colocation.modelled, colocation.n_hosts, order, "squares")


def violation_fit(colocation: Colocation, order: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Hosts by the least increase of violations above the real capacity; ties by the greatest load.

    increase(i) = sum over t of max(0, L_i(t) + f(t) - c) - max(0, L_i(t) - c). Most hosts tie at 0;
    the fullest of them takes the request, so hosts stay empty for later requests that need most of
    one.

    >>> day = np.array([[2.0, 0.0], [0.0, 4.0], [1.0, 0.0], [4.0, 0.0]])
    >>> violation_fit(Colocation(day, 2, 4.0), np.arange(4), np.random.default_rng(0)).tolist()
    [0, 0, 0, 1]
    """
    return _greedy(colocation.modelled, colocation.n_hosts, order, "capacity")


def oracle_series(colocation: Colocation, order: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """As `squares`, by the real use: the gain of a greedy policy with a perfect model.

    >>> day = np.array([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [0.0, 4.0]])
    >>> blind = Colocation(day, 2, 4.0, model=np.full((4, 1), 4.0))
    >>> oracle_series(blind, np.arange(4), np.random.default_rng(0)).tolist()
    [0, 1, 0, 1]
    """
    return _greedy(colocation.used, colocation.n_hosts, order, "squares")


def _greedy(series: np.ndarray, n_hosts: int, order: np.ndarray,
            by: Literal["hosts", "requests", "squares", "capacity"]) -> np.ndarray:
    """series: int32 (n, n_columns), in units of a host's capacity."""
    n_columns = series.shape[1]
    loads = np.zeros((n_hosts, n_columns), np.int32)
    sums, is_changed = np.zeros(n_hosts, np.int64), np.zeros(n_hosts, np.bool_)
    total = np.zeros(n_columns, np.int64)
    hosts = np.empty(len(order), np.int64)
    n_block = min(max(n_hosts // 32, 1), _MOST_BLOCK)
    for start in range(0, len(order), n_block):
        rows = order[start:start + n_block]
        use = series[rows]
        room = np.empty((0, n_columns), np.int32)
        scores = np.zeros((len(rows), n_hosts), np.int64)
        if by == "squares":
            score_products(loads, use, scores)
        else:
            if by == "capacity":
                room = np.int32(UNITS) - use
            else:
                sofar = total + np.cumsum(use, axis=0, dtype=np.int64)
                total = sofar[-1]
                among = np.int64(n_hosts) if by == "hosts" else np.arange(start + 1, start + len(rows) + 1)[:, None]
                room = (sofar // among - use).astype(np.int32)
            score_violations(loads, use, room, scores)
        chosen = np.empty(len(rows), np.int64)
        place_block(loads, sums, use, room, scores, is_changed, np.empty(len(rows), np.int64), by == "capacity",
                    chosen)
        hosts[rows] = chosen
    return hosts


Rule = Callable[[Colocation, np.ndarray, np.random.Generator], np.ndarray]
"""From requests in their order, int64 (n,), to hosts, int64 (n,); ties go to the host with the
least load by the rule's use, then to the lowest index."""


@dataclass(frozen=True, slots=True)
class ColocationPolicy:
    """A rule with its description. is_oracle: whether it reads the real use of the judged time."""

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
    """Host of each request, int64 (n,), by the policy of that name; order: int64 (n,), of arrival.

    seed: of `random`. Refused with ValueError: an unknown name, an order without each request once,
    a seed that is not whole or below 0.

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


@dataclass(frozen=True, slots=True)
class Violations:
    """Violations of one placement, over all slots; lower is better, except for used_pct.

    host_rate_pct: share of hosts x slots in which a host's requests demand more than it has
        (section III-B).
    request_rate_pct: share of the slots in which this holds for a request's host, mean over
        requests (section V-B: "the average job's violation rate").
    severity_pct: demand above capacity, of all demand: aggregate severity over the total workload
        (section III-B).
    host_severity_pct: this share of each host's load, mean over the hosts with requests.
    request_severity_pct: this share of each request's use, mean over requests with use; the
        requests of a host share its excess in proportion to their use at the time.
    used_pct: mean utilisation of hosts: load x (1 - severity), as excess demand is not served.
    """

    host_rate_pct: float
    request_rate_pct: float
    severity_pct: float
    host_severity_pct: float
    request_severity_pct: float
    used_pct: float


def checked_hosts(hosts: np.ndarray, n_requests: int, n_hosts: int, name: str = "hosts") -> np.ndarray:
    """The host of each request, int64 (n_requests,); ValueError for another number of them, and for
    hosts that are not whole or not in 0 .. n_hosts - 1.

    >>> checked_hosts(np.array([0, -1]), 2, 2)
    Traceback (most recent call last):
    ValueError: hosts must be 0 .. n_hosts - 1, 1, got -1 of request 1
    """
    host_of = whole_numbers(hosts, (n_requests,), name)
    for request in np.flatnonzero((host_of < 0) | (host_of >= n_hosts)).tolist():
        raise ValueError(f"{name} must be 0 .. n_hosts - 1, {n_hosts - 1}, got {int(host_of[request])!r} of request "
                         f"{request}")
    return host_of


def host_loads(used: np.ndarray, hosts: np.ndarray, n_hosts: int) -> np.ndarray:
    """Load of each host, int64 (n_hosts, n_columns), in the unit of `used` (n, n_columns).

    Refused with ValueError: hosts that `checked_hosts` refuses, n_hosts below 1, and `used` that is
    not a table of whole numbers, 0 or more.

    >>> host_loads(np.array([[1, 2], [3, 4], [5, 6]]), np.array([1, 0, 1]), 3).tolist()
    [[3, 4], [6, 8], [0, 0]]
    """
    check_setting(n_hosts, 1, "n_hosts", 2**31)
    used = numbers(used, "used")
    if used.dtype.kind not in "iu" or used.ndim != 2 or 0 in used.shape or used.min() < 0:
        raise ValueError(f"used must be whole numbers, 0 or more, of the shape (n, n_columns), none of them 0, got "
                         f"{used.dtype} {used.shape}, least {used.min(initial=0):g}")
    loads = np.zeros((n_hosts, used.shape[1]), np.int64)
    for request, host in enumerate(checked_hosts(hosts, len(used), n_hosts).tolist()):
        loads[host] += used[request]
    return loads


def violations(used: np.ndarray, hosts: np.ndarray, n_hosts: int, n_resources: int = 1) -> Violations:
    """Violations of a placement.

    used: int (n, n_resources x n_slots), in 1/65,536 of a host's capacity: `Colocation.used`, or
        `modelled` to judge by the model. hosts: int64 (n,).
    Several resources: a slot is violated if one of them is; excess and load, in shares of capacity,
    are summed.

    Refused with ValueError: all that `host_loads` refuses, n_resources that does not divide the
    columns.

    >>> half = UNITS // 2
    >>> both = violations(np.array([[half, 3 * half], [half, half]]), np.array([0, 0]), 2)
    >>> both.host_rate_pct, both.request_rate_pct, round(both.severity_pct, 2)  # load 1 and 2: excess 0 and 1
    (25.0, 50.0, 33.33)
    """
    loads = host_loads(used, hosts, n_hosts)
    used, hosts = np.asarray(used), np.asarray(hosts)
    check_setting(n_resources, 1, "n_resources", 2**31)
    if used.shape[1] % n_resources:
        raise ValueError(f"n_resources must divide the {used.shape[1]} columns of used, got {n_resources!r}")
    excess = np.maximum(loads - UNITS, 0)
    is_violated = (excess > 0).reshape(n_hosts, n_resources, -1).any(axis=1)
    total, host_total = int(loads.sum()), loads.sum(axis=1)
    is_loaded = host_total > 0
    severity = float(excess.sum()) / total if total else 0.0
    unserved = np.divide(excess, loads, out=np.zeros(loads.shape), where=loads > 0)
    use = used.sum(axis=1, dtype=np.int64)
    lost = np.array([float(used[k] @ unserved[host]) for k, host in enumerate(hosts.tolist())])
    load = total / (n_hosts * used.shape[1] * UNITS)
    return Violations(
        100.0 * float(is_violated.mean()), 100.0 * float(is_violated.mean(axis=1)[hosts].mean()), 100.0 * severity,
        100.0 * _mean(excess.sum(axis=1)[is_loaded] / host_total[is_loaded]),
        100.0 * _mean(lost[use > 0] / use[use > 0]), 100.0 * load * (1.0 - severity))


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else 0.0
