"""What is placed by usage: what each request really uses, what a policy believes it uses, and the hosts."""

from __future__ import annotations

from dataclasses import dataclass, field
from reprlib import repr as shortened
from typing import Any

import numpy as np

from sojourn.simulator.whole_numbers import check_setting

UNITS = 1 << 16
"""Of one host's capacity: use is counted in whole units of that size, so that sums are exact and ties are real."""
MOST_CAPACITIES = 16
"""The most that one request may use, in hosts' capacities: its sum over a tile of slots stays within 32 bits."""


@dataclass(frozen=True, slots=True)
class Colocation:
    """Requests that are placed once and then use what their series say, on hosts that are all alike.

    use: what they really use, float (n, n_slots) of one resource, or (n, n_resources, n_slots); cores, GiB and so on.
    model: what a policy believes, in the same unit and form; its number of slots may be another: a profile that repeats
        (a day's, or one common multiple of all periods) is given once. Default: `use` itself.
    capacity: of each host, one number or one a resource, in the unit of `use`.
    n_hosts: at least 1.

    Derived: used and modelled, int32 (n, n_columns), in 1/65,536 of a host's capacity, rounded; the columns of a
    resource stand together, so that several resources are normalised by their capacity and summed (period-aware
    placement, section III-B).

    Refused with ValueError: no requests, use that is no numbers, negative or not finite, more than 16 hosts' capacity
    by one request, a number of hosts that is not whole.

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
        """How many resources."""
        return self.use.shape[1] if self.use.ndim == 3 else 1

    @property
    def slots(self) -> int:
        """Of the real use."""
        return int(self.use.shape[-1])

    @property
    def model_slots(self) -> int:
        """Of the model."""
        return int((self.use if self.model is None else self.model).shape[-1])

    def __len__(self) -> int:
        return len(self.use)


def in_units(use: np.ndarray, capacity: np.ndarray, name: str) -> np.ndarray:
    """Use in 1/65,536 of a host's capacity, int32 (n, n_resources x n_slots); see `Colocation` for what is refused.

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
        own = series if series.ndim == 2 else series[:, resource]
        np.rint(own * (UNITS / capacity[resource]), out=whole[:, resource], casting="unsafe")
    return whole.reshape(len(series), -1)


def numbers(values: Any, name: str) -> np.ndarray:
    """The values as an array of whole or real numbers; ValueError for text, objects, truth values and ragged lists.

    >>> numbers([[1, 2]], "use").tolist()
    [[1, 2]]
    """
    try:
        found = np.asarray(values)
    except ValueError:  # ragged
        found = np.empty(0, object)
    if found.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be numbers, got {shortened(values)}")
    return found


def whole_numbers(values: Any, shape: tuple[int, ...], name: str) -> np.ndarray:
    """The values as int64 of that shape; ValueError for another shape and for what is no whole number.

    >>> whole_numbers([1, 0], (2,), "order").tolist()
    [1, 0]
    """
    found = numbers(values, name)
    if found.dtype.kind not in "iu" or found.shape != shape:
        raise ValueError(f"{name} must be whole numbers of the shape {shape}, got {shortened(found.tolist())}")
    return found.astype(np.int64)
