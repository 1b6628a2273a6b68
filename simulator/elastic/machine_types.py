"""Machine types of an elastic pool: what a machine holds, what it costs, and how long it takes to boot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from sojourn.simulator.workloads import UNITS_PER


@dataclass(frozen=True, slots=True)
class BootLag:
    """Seconds from the order of a machine to its first request: normal, and drawn again outside low_s..high_s.

    The defaults are those of the CTCL paper (table III: "4-7 min", "generated under a normal distribution"). It names
    no mean and no spread; taken are the middle, and a spread by which 99.7 % of the draws lie within.

    >>> BootLag().drawn_s(np.random.default_rng(0), 3).round(1).tolist()
    [333.8, 326.0, 349.2]
    """

    mean_s: float = 330.0
    sd_s: float = 30.0
    low_s: float = 240.0
    high_s: float = 420.0

    def __post_init__(self) -> None:
        if not 0 <= self.low_s <= self.mean_s <= self.high_s < math.inf:
            raise ValueError(f"low_s, mean_s and high_s must be 0 or more, finite and in this order, got "
                             f"{self.low_s!r}, {self.mean_s!r} and {self.high_s!r}")
        if not 0 <= self.sd_s < math.inf or (self.sd_s > 0 and self.low_s == self.high_s):
            raise ValueError(f"sd_s must be 0 or more, finite, and 0 where low_s is high_s, got {self.sd_s!r}")

    def drawn_s(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """n lags, float64 (n,)."""
        lag_s = rng.normal(self.mean_s, self.sd_s, n)
        while (is_bad := (lag_s < self.low_s) | (lag_s > self.high_s)).any():
            lag_s[is_bad] = rng.normal(self.mean_s, self.sd_s, int(is_bad.sum()))
        return lag_s


@dataclass(frozen=True, slots=True)
class MachineType:
    """capacities: by resource, in a trace's units (`cpu_cores`, `mem_gib`, ...). price_per_h: in any one currency.

    >>> MachineType("small", {"cpu_cores": 2, "mem_gib": 8}, 0.1).capacities["mem_gib"]
    8
    """

    name: str
    capacities: Mapping[str, float]
    price_per_h: float
    boot_lag: BootLag = field(default=BootLag())

    def __post_init__(self) -> None:
        bad = [name for name, amount in self.capacities.items() if not 0 <= amount < math.inf]
        if bad or not any(self.capacities.values()):
            raise ValueError(f"capacities of {self.name} must be 0 or more, finite, and not all 0, got "
                             f"{dict(self.capacities)!r}")
        if not 0 <= self.price_per_h < math.inf:
            raise ValueError(f"price_per_h of {self.name} must be 0 or more and finite, got {self.price_per_h!r}")


MEM_UNIT_GIB = 384.0
"""The paper's unit of memory: it is normalised there, and its default type, ecs.ebmg5s.24xlarge, has 4 GiB per core."""
_TABLE_II = (("ecs.ebmc5s.24xlarge", 0.5, 0.885), ("ecs.ebmg5s.24xlarge", 1.0, 1.0), ("ecs.ebmr5s.24xlarge", 2.0, 1.31))
MACHINE_TYPES: Mapping[str, MachineType] = MappingProxyType({
    name: MachineType(name, MappingProxyType({"cpu_cores": 96.0, "mem_gib": units * MEM_UNIT_GIB}), price)
    for name, units, price in _TABLE_II})
"""Table II of the CTCL paper. It gives no prices: these are relative to the default type, as list prices of compute,
general and memory types with 2, 4 and 8 GiB per core commonly are. Give your own where the price matters."""
DEFAULT_TYPE = MACHINE_TYPES["ecs.ebmg5s.24xlarge"]


def type_capacities(types: Sequence[MachineType], resources: Sequence[str]) -> np.ndarray:
    """int64 (n_types, n_resources): milli-cores, MiB, milli-GPU, thousandths of all others; 0 where a type has none.

    Refused with ValueError: no type, and two of one name.

    >>> type_capacities([DEFAULT_TYPE], ("cpu_cores", "mem_gib", "gpu")).tolist()
    [[96000, 393216, 0]]
    """
    names = [each.name for each in types]
    if not names:
        raise ValueError("types must hold at least one machine type, got none")
    if len(set(names)) < len(names):
        raise ValueError(f"types must have different names, got {names!r}")
    return np.array([[round(each.capacities.get(name, 0.0) * UNITS_PER.get(name, 1000)) for name in resources]
                     for each in types], np.int64)


def fits_a_type(demand: np.ndarray, capacities: np.ndarray) -> np.ndarray:
    """Whether each demand fits on an empty machine of some type, bool (n,).

    demand: (n, n_resources). capacities: (n_types, n_resources), same units.

    >>> fits_a_type(np.array([[4, 1], [1, 4], [4, 4]]), np.array([[4, 2], [2, 4]])).tolist()
    [True, True, False]
    """
    return np.asarray(np.less_equal(demand[:, None, :], capacities[None, :, :]).all(axis=2).any(axis=-1))
