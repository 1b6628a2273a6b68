"""What best-fit loses to policies that need no lifetimes either, and whether host numbers help joint-fit.

    python -m studies rivals [synthetic:SEED | READER=PATH ...] [--past] [--n-seeds 3] [--loads 0.8 ...]

Hosts in use come first, then the lowest number: `first-in-use`. Or before the number the free share, in quarters:
`quarter-fit`. Both of the whole trace at each load, beside first-fit and a host in use at random. With `--past` the
trace is what was known when the later part began; of its own later part best-fit and they are compared with joint-fit,
whose near-ties host numbers break in several ways, with km learnt on the part before. A seed is a replica, of openb an
arrangement; intervals are 95 % t-intervals over them. Empty hosts over best-fit, percentage points.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence

import numpy as np

import sojourn.simulator as sim
from sojourn.flows.placement.workloads import known_by, replica
from sojourn.simulator import Cluster, PerResource, Policy, Request
from sojourn.simulator.policies import free_share_left
from sojourn.simulator.policies.baselines import draw
from sojourn.simulator.policies.joint import SCALE_S, joint_cost
from sojourn.simulator.policies.nilas import expected_extension, temporal_cost
from sojourn.simulator.policies.policy import opens_host
from studies.later_parts import later_parts, learning, of_name
from studies.own_policy import interval


@sim.kernel
def quarters(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """The free share left of the binding resource, in quarters of the host."""
    return math.floor(4.0 * free_share_left(cluster, host, request, 0))


@sim.kernel
def tenths(cluster: Cluster, host: int, request: Request, dimension: int) -> float:
    """The free share left of a resource, in tenths of the host."""
    return math.floor(10.0 * free_share_left(cluster, host, request, dimension))


@sim.kernel
def joint_tenths(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """joint-fit's score in steps of 0.1."""
    return math.floor(10.0 * joint_cost(cluster, host, request, now))


@sim.kernel
def joint_and_number(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """joint-fit's score and the host's number as a share of all."""
    return joint_cost(cluster, host, request, now) + host / len(cluster.n_running)


@sim.kernel
def joint_by_number(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """joint-fit's extension, and the host's number as a share of all in place of the free share."""
    extension_s = expected_extension(cluster, host, request, now)
    return math.log1p(extension_s / SCALE_S) + host / len(cluster.n_running)


PLAIN: tuple[str | Policy, ...] = (
    "first-fit",
    "first-in-use",
    Policy("quarter-fit", (opens_host, quarters)),
    Policy("tenth-fit", (opens_host, PerResource(tenths))),
)
ANY = Policy("any-in-use", (opens_host, draw))
ASKING: tuple[str | Policy, ...] = (
    "joint-fit",
    Policy("joint-fit in tenths", (joint_tenths,), predictions="current"),
    Policy("joint-fit and number", (joint_and_number,), predictions="current"),
    Policy("extension and number", (joint_by_number,), predictions="current"),
    "nilas",
    Policy("nilas, then first-in-use", (temporal_cost, opens_host), predictions="current"),
)
"""Ties go to the lowest number: a policy without PACKING at its end breaks its near-ties by it."""


def whole(name: str, load: float, n_seeds: int) -> Iterator[tuple[sim.Workload, None]]:
    """Replicas of the whole trace at a load, of openb its arrangements; from an empty pool."""
    config, trace = of_name(name)
    for seed in range(n_seeds):
        shape = config.shape if config.chosen_recipe == "trace" else {}
        workload = sim.build_workload(config.chosen_recipe, trace, load=load, seed=seed, **shape)
        yield (workload if config.chosen_recipe == "openb" else replica(workload, seed)), None


def past(name: str, n_seeds: int) -> Iterator[tuple[sim.Workload, sim.LifetimeSource]]:
    """The later part of what was known when the trace's own later part began, and what km says of it."""
    config, trace = of_name(name)
    before = known_by(trace, learning(config, trace)[1].test_from_s)
    for seed, (workload, source) in enumerate(later_parts(config, before, range(n_seeds), "km")):
        yield (workload if config.chosen_recipe == "openb" else replica(workload, seed)), source


def gains(cases: Sequence[tuple[sim.Workload, sim.LifetimeSource | None]],
          policies: Sequence[str | Policy]) -> dict[str, np.ndarray]:
    """Empty hosts of each policy over best-fit's, percentage points, one a case."""
    base = np.array([sim.simulate(workload).metrics.empty_hosts_pct for workload, _ in cases])
    found = {}
    for policy in policies:
        results = [sim.simulate(workload, policy, source) for workload, source in cases]
        found[results[0].policy] = np.array([result.metrics.empty_hosts_pct for result in results]) - base
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", default=["synthetic:0"])
    parser.add_argument("--past", action="store_true")
    parser.add_argument("--n-seeds", type=int, default=3)
    parser.add_argument("--loads", nargs="+", type=float, default=[0.8])
    given = parser.parse_args()
    for name in given.traces:
        for load in [0.8] if given.past else given.loads:
            cases = list(past(name, given.n_seeds) if given.past else whole(name, load, given.n_seeds))
            print(f"{name}, load {load:g}: {cases[0][0].description}", flush=True)
            for policy, values in gains(cases, (*PLAIN, *(ASKING if given.past else (ANY,)))).items():
                shown = interval(values) if len(values) > 1 else f"{values[0]:+.2f}"
                print(f"  {policy:<26}{shown}", flush=True)


if __name__ == "__main__":
    main()
