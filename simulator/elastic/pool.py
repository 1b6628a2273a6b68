"""An elastic pool: hosts open when a request fits on none, and close when they are empty or emptied.

Any placement policy chooses among the hosts that are on, with any predictor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np
import pandas as pd

from sojourn.simulator.elastic.consolidation import Consolidation
from sojourn.simulator.elastic.machine_types import MachineType
from sojourn.simulator.elastic.pool_result import PoolResult, pool_result
from sojourn.simulator.elastic.pool_world import pool_run
from sojourn.simulator.engine import named_policy
from sojourn.simulator.loop import CHEAPEST, EFFICIENT
from sojourn.simulator.policies import Policy
from sojourn.simulator.predictions import LifetimeSource
from sojourn.simulator.whole_numbers import check_setting, is_whole
from sojourn.simulator.workloads import NO_CONSTRAINTS, Workload

TypeChoice = Literal["cheapest", "efficient"]
_CHOICES = {"cheapest": CHEAPEST, "efficient": EFFICIENT}
_ROOM = 4
"""Places for hosts, in hosts that demand needs at its peak."""


@dataclass(frozen=True, slots=True)
class ElasticPool:
    """What hosts can be opened, and when they open and close.

    types: at least one. type_choice: the type of a new host, among those on which the request fits: `cheapest`, or
        `efficient`, the least price of the share that the request takes (its largest share of any resource x price);
        ties go to the type listed first.
    boot_s: from opening a host until it takes requests, for every type (their own `boot_lag`, which is random, is not
        read); it is paid for meanwhile. A request that fits on no host that is on takes room on one that boots, or
        opens a new one, and begins when that is ready.
    idle_release_s: how long a host is empty before it is released.
    most_hosts: on at once, booting ones included; None = four times what demand needs at its peak. A request that
        finds no room then is rejected.

    >>> from sojourn.simulator.elastic.machine_types import DEFAULT_TYPE
    >>> ElasticPool((DEFAULT_TYPE,)).boot_s
    120
    """

    types: tuple[MachineType, ...]
    type_choice: TypeChoice = "efficient"
    boot_s: int = 120
    idle_release_s: int = 600
    most_hosts: int | None = None
    consolidation: Consolidation = field(default_factory=Consolidation)

    def __post_init__(self) -> None:
        if not self.types:
            raise ValueError("types must be at least one type of host, got none")
        if len({kind.name for kind in self.types}) < len(self.types):
            raise ValueError(f"types must have different names, got {', '.join(kind.name for kind in self.types)}")
        if self.type_choice not in get_args(TypeChoice):
            raise ValueError(f"type_choice must be one of {', '.join(get_args(TypeChoice))}, got {self.type_choice!r}")
        for name, seconds in (("boot_s", self.boot_s), ("idle_release_s", self.idle_release_s)):
            if not is_whole(seconds, 0):
                raise ValueError(f"{name} must be a whole number, 0 or more, got {seconds!r}")
        if self.most_hosts is not None:
            check_setting(self.most_hosts, 1, "most_hosts")


def simulate_pool(workload: Workload, pool: ElasticPool, policy: str | Policy = "best-fit",
                  source: LifetimeSource | None = None) -> PoolResult:
    """The outcome of replaying a workload's requests on an elastic pool, which begins with no host on.

    The workload's own hosts play no part. source: needed by the policies that use predictions, and by regret.
    Refused with ValueError: a request larger than every type, rules besides room, and what `simulate` refuses.

    >>> import sojourn.simulator as sim
    >>> table = pd.DataFrame({"request_id": [1, 2], "arrival_s": [0, 3600], "departure_s": [3600, 10800],
    ...                       "cpu_cores": [6.0, 2.0], "mem_gib": [8.0, 8.0]})
    >>> workload = sim.build_workload("trace", sim.Trace(table, 14400), cpu_cores=8, mem_gib=32, n_hosts=1)
    >>> pool = ElasticPool((MachineType("h", {"cpu_cores": 8.0, "mem_gib": 32.0}, 1.0),), boot_s=0, idle_release_s=600)
    >>> simulate_pool(workload, pool).host_h  # on from 0 to 3 h, and 10 min empty
    3.1666666666666665
    """
    if workload.constraints != NO_CONSTRAINTS:
        raise ValueError(f"constraints must be none in an elastic pool, got {workload.constraints}")
    asked = replace(workload, hosts=_table(pool.types, workload.resources))
    n_places = min(pool.most_hosts or _places(asked), len(workload.placed_s))  # each host is opened by a request
    run = pool_run(asked, np.array([kind.price_per_h for kind in pool.types]), named_policy(policy), source,
                   n_places=n_places, boot_s=pool.boot_s, idle_release_s=pool.idle_release_s,
                   type_choice=_CHOICES[pool.type_choice], consolidation=pool.consolidation)
    elapsed_s = run.run()
    return pool_result(run, [kind.name for kind in pool.types], elapsed_s)


def _table(types: Sequence[MachineType], resources: Sequence[str]) -> pd.DataFrame:
    columns = {name: [float(kind.capacities.get(name, 0.0)) for kind in types] for name in sorted(resources)}
    return pd.DataFrame({"host_id": [kind.name for kind in types], **columns})


def _places(workload: Workload) -> int:
    """Places for hosts: `_ROOM` times what demand needs at its peak on the type that holds least, and a few."""
    peak, most = workload.demand.peak(), 1
    for amount, rooms in zip(peak.tolist(), workload.capacity.T.tolist(), strict=True):
        least = min((room for room in rooms if room > 0), default=0)
        most = max(most, -(-amount // least) if least else 0)
    return int(_ROOM * most + 16)
