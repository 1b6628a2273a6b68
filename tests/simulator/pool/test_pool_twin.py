"""Every decision of an elastic pool equals the slow twin's, which recomputes everything at every event."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sojourn.simulator as sim
import studies.policies  # noqa: F401  # their names are known then
from made_workloads import cases, twin_of
from naive_pool import NaivePool
from sojourn.features.synthetic import synthesize
from sojourn.simulator.pool import MACHINE_TYPES, Consolidation, ElasticPool, MachineType, simulate_pool

POLICY_NAMES = ["best-fit", "dapp", "hybrid", "joint-exact", "la-binary", "lava", "nilas", "nilas-expected"]
"""One of each kind: without predictions, asked once, asked anew, asked for the distribution, and those with hooks."""


@st.composite
def pools(draw: Any, workload: sim.Workload) -> ElasticPool:
    """An elastic pool of the types of a workload's hosts."""
    unit = workload.trace.horizon_s // 40
    later = st.sampled_from([max(unit // 3, 1), unit, 3 * unit])
    seconds = st.one_of(st.just(0), later)
    shapes = dict.fromkeys(zip(workload.hosts["cpu_cores"], workload.hosts["mem_gib"], strict=True))
    types = tuple(MachineType(f"t{k}", {"cpu_cores": cpu, "mem_gib": mem}, draw(st.sampled_from([0.5, 1.0, 1.5])))
                  for k, (cpu, mem) in enumerate(shapes))
    consolidation = Consolidation(
        draw(st.sampled_from(["none", "empty", "timer", "regret", "regret", "balanced", "balanced"])), draw(seconds),
        draw(st.sampled_from([0.3, 0.6, 2.0])), draw(st.booleans()), draw(later),
        draw(st.sampled_from(["live", "restart"])), draw(later), draw(st.sampled_from([0, 0, unit])),
        draw(st.sampled_from([0.0, 0.5, 1.0])), draw(st.sampled_from([0.5, 1.0, 1.0])),
        draw(st.sampled_from([0.5, 1.0, 2.0])), draw(st.sampled_from(["uniform", "uptime", "predicted", "predicted"])),
        unit)
    return ElasticPool(types, draw(st.sampled_from(["cheapest", "efficient"])), draw(seconds), draw(seconds),
                       draw(st.sampled_from([None, None, 1, 3])), consolidation)


def pool_twin(workload: sim.Workload, per_request: list[Any], curves: sim.Curves, pool: ElasticPool) -> NaivePool:
    """The slow twin of a replay on the pool."""
    table = workload.hosts.iloc[:0].reindex(range(len(pool.types)))
    table = table.assign(host_id=[kind.name for kind in pool.types],
                         **{name: [kind.capacities[name] for kind in pool.types] for name in ("cpu_cores", "mem_gib")})
    plain = twin_of(asked := replace(workload, hosts=table), per_request, curves)
    return NaivePool(plain.start, plain.departure, plain.need, plain.capacity, plain.breakpoints, plain.horizon,
                     plain.overhang, prices=[kind.price_per_h for kind in pool.types],
                     n_places=pool.most_hosts or len(plain.start), boot=pool.boot_s, idle=pool.idle_release_s,
                     cpu=asked.resources.index("cpu_cores"), choice=pool.type_choice,
                     consolidation=pool.consolidation)


@sim.kernel
def nothing(cluster: sim.Cluster, host: int, request: sim.Request, now: int) -> float:
    """0 for every host: it changes no decision, but a chain that ends in it is not ranked."""
    return 0.0


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["best-fit", "nilas"])
def test_hosts_ranked_within_three_types_are_chosen_as_by_a_scan_of_all(policy: str) -> None:
    workload = sim.build_workload("synthetic", synthesize(8_000, seed=2))
    pool = ElasticPool(tuple(MACHINE_TYPES.values()), consolidation=Consolidation("regret", utilisation_max=0.85))
    ranked = sim.POLICIES[policy]
    scanned = replace(ranked, name="scanned", scorers=(*ranked.scorers, nothing))
    source = sim.NoisyOracle(workload, 1.0)
    one, other = (simulate_pool(workload, pool, each, source) for each in (ranked, scanned))
    assert one.host.tolist() == other.host.tolist()
    assert one.log.equals(other.log)
    assert min(one.host_h_by_type.values()) > 0
    assert one.n_moves > 10


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICY_NAMES)
@settings(deadline=None, max_examples=25)
@given(case=cases(), data=st.data())
def test_every_decision_equals_the_slow_twin(policy: str, case: Any, data: Any) -> None:
    workload, curves, per_request = case
    pool = data.draw(pools(workload))
    result = simulate_pool(workload, pool, policy, sim.Held(workload.request_ids, curves))
    twin = pool_twin(workload, per_request, curves, pool)
    assert result.host.tolist() == twin.run(policy)
    names = [kind.name for kind in pool.types]
    log = [(time, what, place, names[kind]) for time, what, place, kind in twin.log]
    assert list(result.log.itertuples(index=False, name=None)) == log
    assert result.wait_s.tolist() == twin.wait
    assert result.n_moves == sum(twin.moves)
    assert result.n_checks == twin.n_checks
    assert list(result.host_h_by_type.values()) == [seconds / 3600 for seconds in twin.host_s]
    assert result.lost_core_h == pytest.approx(sum(twin.lost) / 3_600_000)
