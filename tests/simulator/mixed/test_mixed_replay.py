"""Replays of services and batch requests: equal to the slow twin, sums that must agree, and arithmetic."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive_ctcl import NaiveMixed
from sojourn.simulator.mixed import (
    OUTCOMES,
    SCHEDULERS,
    Autoscaler,
    BatchRequests,
    Evictor,
    MixedResult,
    MixedScheduler,
    MixedWorkload,
    Services,
    Timing,
    own_maximum,
    replay_mixed,
    true_needs,
)
from sojourn.simulator.mixed.mixed_replay import _world
from sojourn.simulator.pool import BootLag, MachineType

LAG = BootLag(1800.0, 600.0, 600.0, 3000.0)
TYPES = (MachineType("low", {"cpu_cores": 0.02, "mem_gib": 20 / 1024}, 1.0, LAG),
         MachineType("high", {"cpu_cores": 0.02, "mem_gib": 40 / 1024}, 1.3, LAG))
"""Of 20 milli-cores, and 20 and 40 MiB: small numbers meet often."""
TIMING = Timing(cycle_ms=900_000, decision_ms=300_000, start_ms=1_000, eviction_ms=2_000)
HOUR_MS = 3_600_000


def scheduler_of(name: str) -> MixedScheduler:
    """The named one on small machines, with a cycle of 15 min, in which three requests are placed."""
    chosen = SCHEDULERS[name]
    scaler = chosen.autoscaler
    if scaler is not None:
        kinds = TYPES[:1] if len(scaler.types) == 1 else TYPES
        scaler = replace(scaler, types=kinds, idle_release_s=2700.0)
    return replace(chosen, autoscaler=scaler, timing=TIMING, fill=0.95, fixed_type=TYPES[0])


def drawn(seed: int, n_services: int, n_batch: int, *, has_machines: bool = False) -> MixedWorkload:
    """Three days in intervals of 6 h."""
    rng = np.random.default_rng(seed)
    n_intervals = 12
    reserved = rng.integers(1, 16, (n_services, 2))
    used = rng.integers(0, 1 + np.ceil(reserved[:, None, :] * 1.2), (n_services, n_intervals, 2))
    first = rng.choice([0, 0, 1, 4], n_services)
    last = np.minimum(first + rng.choice([0, 1, 5, 12], n_services), n_intervals)
    services = Services(reserved, used, first, last, rng.integers(-1, 3, n_services) if has_machines
                        else np.full(n_services, -1))
    arrival = np.sort(rng.integers(0, 60 * HOUR_MS, n_batch))
    duration = rng.integers(0, 14 * HOUR_MS, n_batch)
    requested = rng.integers(0, 12, (n_batch, 2)) * np.where(rng.random((n_batch, 1)) < 0.1, 4, 1)
    use = rng.integers(0, 14, (n_batch, 2))
    batch = BatchRequests(arrival, duration, requested, use, use + rng.integers(0, 5, (n_batch, 2)),
                          rng.integers(0, 20 * HOUR_MS, n_batch), duration + rng.integers(0, 9 * HOUR_MS, n_batch),
                          rng.integers(-1, 3, n_batch) if has_machines else np.full(n_batch, -1))
    return MixedWorkload(services, batch, 21_600, "drawn", n_machines=3)


def needs_of(workload: MixedWorkload, scheduler: MixedScheduler) -> np.ndarray | None:
    if scheduler.needs == "none":
        return None
    return own_maximum(workload.services, 1, 0.15 if scheduler.needs == "vertical" else 0.0)


CASES: Any = {"seed": st.integers(0, 2**32), "n_services": st.integers(0, 7), "n_batch": st.integers(0, 14),
              "name": st.sampled_from(list(SCHEDULERS)), "n_slots": st.integers(1, 5), "has_machines": st.booleans()}


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(**CASES)
def test_every_decision_equals_the_slow_twin(seed: int, n_services: int, n_batch: int, name: str, n_slots: int,
                                             has_machines: bool) -> None:
    workload, scheduler = drawn(seed, n_services, n_batch, has_machines=has_machines), scheduler_of(name)
    needs = needs_of(workload, scheduler)
    result = replay_mixed(workload, scheduler, needs, rng=np.random.default_rng(seed), most_machines=n_slots)
    n_hosts = 3 if scheduler.autoscaler is None else n_slots
    world = _world(workload, scheduler, needs, np.random.default_rng(seed), n_hosts)
    twin = NaiveMixed(workload, scheduler, world.need, world.ahead, world.capacities.tolist(), world.limits.tolist(),
                      world.lags.tolist(), world.batch["drawn_rank"].tolist(), n_hosts)
    twin.run()
    twin.pass_events(workload.horizon_s * 1000)
    assert result.service_outcome.tolist() + result.batch_outcome.tolist() == twin.status
    assert result.started_ms.tolist() == twin.started
    assert result.ended_ms.tolist() == twin.ended
    assert result.n_evicted.tolist() == twin.n_evicted
    assert result.cost_ms.tolist() == twin.cost
    assert result.n_ordered == twin.n_serials
    if scheduler.autoscaler is not None:
        assert result.most_machines == twin.most_ready
    assert result.batch_host.tolist() == [twin.machine[b].slot if b in twin.machine else -1
                                          for b in range(n_services, n_services + n_batch)]


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(**CASES)
def test_requests_end_once_and_what_is_used_never_exceeds_what_there_is(
        seed: int, n_services: int, n_batch: int, name: str, n_slots: int, has_machines: bool) -> None:
    workload, scheduler = drawn(seed, n_services, n_batch, has_machines=has_machines), scheduler_of(name)
    result = replay_mixed(workload, scheduler, needs_of(workload, scheduler), rng=np.random.default_rng(seed),
                          most_machines=n_slots)
    outcome = np.array(OUTCOMES)[result.batch_outcome]
    assert sum(result.outcomes().values()) == n_batch
    assert ((result.ended_ms >= 0) == (outcome == "ended")).all()
    is_ended = outcome == "ended"
    ran_ms = result.ended_ms - result.started_ms
    assert ran_ms[is_ended].tolist() == workload.batch.duration_ms[is_ended].tolist()  # the last run is a whole one
    assert (result.started_ms[is_ended] >= workload.batch.arrival_ms[is_ended]).all()
    assert ((result.batch_host >= 0) == (outcome == "running")).all()
    assert (result.cost_ms[result.n_evicted == 0] == 0).all() and (result.cost_ms >= 0).all()
    series = result.series
    assert (series[["cpu_pct", "mem_pct", "overloaded_pct"]].to_numpy() <= 100 + 1e-9).all()
    assert (series["overloaded_pct"] >= series["above_capacity_pct"]).all()
    assert (series["n_machines"] <= series["most_machines"] + 1e-9).all()
    assert result.n_machines * workload.horizon_s / 3600 == pytest.approx(sum(result.type_hours))


def stats(name: str, n_seeds: int = 40) -> list[MixedResult]:
    results = []
    for seed in range(n_seeds):
        workload, scheduler = drawn(seed, 6, 14), scheduler_of(name)
        results.append(replay_mixed(workload, scheduler, needs_of(workload, scheduler),
                                    rng=np.random.default_rng(seed), most_machines=5))
    return results


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEDULERS)
def test_the_drawn_workloads_reach_every_part_of_the_loop(name: str) -> None:
    found = stats(name)
    ends = np.concatenate([result.batch_outcome for result in found])
    assert {"running", "ended", "too large"} <= set(np.array(OUTCOMES)[ends])
    assert sum(result.n_rescheduled for result in found) > 20
    assert sum(result.n_multi_rescheduled for result in found) > 0
    assert max(result.most_machines for result in found) >= 3


# -- arithmetic -------------------------------------------------------------------------------------------------------

ONE_HOST = MachineType("one", {"cpu_cores": 0.1, "mem_gib": 100 / 1024}, 1.0, BootLag(300.0, 0.0, 300.0, 300.0))
"""Of 100 milli-cores and 100 MiB."""


def mix(services: list[tuple[int, int]], batch: list[tuple[int, int, int, int]]) -> MixedWorkload:
    """Four intervals of 900 s. services: reserved and used, in both resources. batch: arrival s, duration s, requested
    and used, in both resources."""
    of_services = Services(
        np.array([[reserved] * 2 for reserved, _ in services], np.int64).reshape(-1, 2),
        np.array([[[used] * 2] * 4 for _, used in services], np.int64).reshape(-1, 4, 2),
        np.zeros(len(services), np.int64), np.full(len(services), 4), np.full(len(services), -1))
    arrival, duration, requested, used = (np.array(column, np.int64) for column in zip(*batch, strict=True))
    both = np.stack([used, used], axis=1)
    of_batch = BatchRequests(arrival * 1000, duration * 1000, np.stack([requested, requested], axis=1), both, both,
                             duration * 1000, duration * 1000, np.full(len(batch), -1))
    return MixedWorkload(of_services, of_batch, 900, "made")


def on_one(name: str, **changes: Any) -> MixedScheduler:
    chosen = SCHEDULERS[name]
    scaler = None if chosen.autoscaler is None else Autoscaler((ONE_HOST,),
                                                               most_at_once=chosen.autoscaler.most_at_once)
    return replace(chosen, autoscaler=scaler, fixed_type=ONE_HOST, **changes)


@pytest.mark.slow
def test_a_batch_request_uses_idle_room_only_under_ctcl() -> None:
    # the service reserves 80 of 100 and uses 20; 50 fit beside it only if 60 of its 80 count as idle
    workload = mix([(80, 20)], [(1000, 60, 50, 50)])
    for name, needs, n_machines in (("ctcl", true_needs(workload.services), 1), ("demand-blind", None, 2)):
        result = replay_mixed(workload, on_one(name), needs, rng=np.random.default_rng(0))
        assert (result.n_ordered, result.outcomes()["ended"]) == (n_machines, 1)
        # ctcl: the decision takes 20 ms and the start 300; else the second machine boots for 300 s
        assert result.started_ms.tolist() == [1_000_320 if n_machines == 1 else 1_300_320]


@pytest.mark.slow
def test_an_evicted_request_loses_its_progress_and_asks_for_what_it_used() -> None:
    # 40 + 40 were asked for; the second uses 70, together 110 of 100: it leaves at the next cycle, 1 s after its
    # arrival, and waits for a machine of its own, ordered at once and ready after 300 s
    workload = mix([(1, 0)], [(1000, 600, 40, 40), (1100, 600, 40, 70)])
    result = replay_mixed(workload, on_one("demand-blind", is_raised=True), rng=np.random.default_rng(0))
    assert result.n_evicted.tolist() == [0, 1]
    # evicted at 1101 s after 680 ms, placed at 1401 s: 300 s + 20 ms + 300 ms until it runs again
    assert result.cost_ms.tolist() == [0, 680 + 300_320]
    assert result.mean_cost_s == pytest.approx(301.0)
    assert result.started_ms.tolist() == [1_000_320, 1_401_320]
    assert result.most_machines == 2


@pytest.mark.slow
def test_a_request_is_rescheduled_twice_although_its_demand_is_known() -> None:
    # First machine: a service that uses nothing, and B, which uses 70 of the 40 it asked for, until 1250 s. A comes at
    # 1000 s with 40: 110 of 100, A leaves; what was seen of it is 40. D comes at 1002 s with its true 20: 90 of 100 is
    # above 80 %, D leaves, with nothing to raise. Both start on the second machine at 1301 s, D after A. 100 s into its
    # run A needs 70, which no one had seen (equation 10): 90 of 100 again, and D has the shortest runtime (algorithm 2)
    made = mix([(1, 0)], [(900, 350, 40, 70), (1000, 600, 40, 40), (1002, 600, 20, 20)])
    peak = np.array([[70, 70], [70, 70], [20, 20]])
    rising = replace(made.batch, peak=peak, peak_ms=np.array([0, 100_000, 0]))
    result = replay_mixed(replace(made, batch=rising), on_one("demand-blind", is_raised=True, is_long=True),
                          rng=np.random.default_rng(0))
    assert result.n_evicted.tolist() == [0, 1, 2]
    # who asks for its peak, on machines filled to the threshold, is never evicted
    known = replace(rising, requested=peak)
    result = replay_mixed(replace(made, batch=known), on_one("demand-blind", is_raised=True, is_long=True, fill=0.8),
                          rng=np.random.default_rng(0))
    assert result.n_evicted.tolist() == [0, 0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEDULERS)
def test_what_was_seen_to_overload_an_empty_machine_ends_as_too_large(name: str) -> None:
    # 120 and 90 of 100: above the capacity, and above the threshold of 80 %; 70 stays and ends
    workload = mix([], [(0, 900, 10, 120), (0, 900, 10, 90), (1500, 900, 10, 70)])
    result = replay_mixed(workload, on_one(name), needs_of(workload, SCHEDULERS[name]), rng=np.random.default_rng(0),
                          n_machines=3)
    assert np.array(OUTCOMES)[result.batch_outcome].tolist() == ["too large", "too large", "ended"]
    assert result.n_evicted.tolist() == [1, 1, 0]
    # the use rises later: evicted once it is seen, not before
    rising = replace(workload.batch, used=np.full((3, 2), 10), peak_ms=np.full(3, 400_000))
    result = replay_mixed(replace(workload, batch=rising), on_one(name), needs_of(workload, SCHEDULERS[name]),
                          rng=np.random.default_rng(0), n_machines=3)
    assert np.array(OUTCOMES)[result.batch_outcome].tolist() == ["too large", "too large", "ended"]
    assert (result.cost_ms[:2] > 399_000).all()


@pytest.mark.slow
def test_an_idle_machine_is_given_back_after_five_minutes() -> None:
    result = replay_mixed(mix([], [(0, 60, 50, 50)]), on_one("demand-blind"), rng=np.random.default_rng(0))
    # ready at 300 s; the request runs to 360.32 s and the machine is released in the cycle at 661 s
    assert sum(result.type_hours) * 3600 == pytest.approx(361.0)
    assert result.price == pytest.approx(361 / 3600)


@pytest.mark.slow
def test_predictions_of_later_intervals_change_nothing_before() -> None:
    workload = drawn(5, 7, 14)
    scheduler = scheduler_of("ctcl")
    base = own_maximum(workload.services, 1)
    changed = base.copy()
    changed[:, 7:] = 0.0
    first, second = (replay_mixed(workload, scheduler, needs, rng=np.random.default_rng(0)).series.iloc[:7]
                     for needs in (base, changed))
    assert first.equals(second)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes() -> None:
    first, second = (replay_mixed(drawn(1, 6, 14), scheduler_of("trace"), rng=np.random.default_rng(9))
                     for _ in range(2))
    assert first.series.to_csv() == second.series.to_csv()
    assert first.cost_ms.tobytes() == second.cost_ms.tobytes()


# -- what is refused --------------------------------------------------------------------------------------------------


def test_what_a_replay_refuses() -> None:
    workload, rng = mix([(80, 20)], [(0, 60, 50, 50)]), np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"scheduler must .*, got 'x'"):
        replay_mixed(workload, "x", rng=rng)
    with pytest.raises(ValueError, match=r"n_machines must .*, got 0"):
        replay_mixed(workload, "trace", rng=rng)
    with pytest.raises(ValueError, match=r"needs must .*, got None"):
        replay_mixed(workload, "ctcl", rng=rng)
    with pytest.raises(ValueError, match=r"needs must .*, got -1\.0"):
        replay_mixed(workload, "ctcl", np.full((1, 4, 2), -1.0), rng=rng)
    with pytest.raises(ValueError, match="needs must be None for a scheduler that reads none"):
        replay_mixed(workload, "demand-blind", np.ones((1, 4, 2)), rng=rng)
    with pytest.raises(ValueError, match="cycle_ms must divide the interval"):
        replay_mixed(workload, replace(SCHEDULERS["demand-blind"], timing=Timing(cycle_ms=7000)), rng=rng)
    placed = replace(workload, services=replace(workload.services, machine=np.array([3])))
    with pytest.raises(ValueError, match=r"machine must .*, got 3"):
        replay_mixed(placed, "trace", rng=rng, n_machines=3)
    with pytest.raises(ValueError, match="fill must be above 0"):
        MixedScheduler("odd", fill=0.0)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, -0.5, 2.0**40])
def test_needs_that_are_no_amounts_are_refused(bad: float) -> None:
    workload = mix([(80, 20)], [(0, 60, 50, 50)])
    needs = np.full((1, 4, 2), np.nan)
    needs[0, 2, 1] = bad
    for name in ("ctcl", "k8s"):
        with pytest.raises(ValueError, match="needs must be 0 or more and below 2"):
            replay_mixed(workload, name, needs, rng=np.random.default_rng(0))


def test_needs_that_are_no_numbers_are_refused() -> None:
    workload = mix([(80, 20)], [(0, 60, 50, 50)])
    with pytest.raises(ValueError, match="needs must be numbers, got <U1"):
        replay_mixed(workload, "ctcl", np.full((1, 4, 2), "x"), rng=np.random.default_rng(0))


@pytest.mark.parametrize("bad", [0, -1, 2.5, float("nan"), "3"])
def test_numbers_of_machines_and_seconds_are_whole(bad: Any) -> None:
    workload, rng = mix([(80, 20)], [(0, 60, 50, 50)]), np.random.default_rng(0)
    with pytest.raises(ValueError, match="most_machines must be a whole number, at least 1, got"):
        replay_mixed(workload, "demand-blind", rng=rng, most_machines=bad)
    for name in ("trace", "demand-blind"):
        with pytest.raises(ValueError, match="n_machines must be a whole number, at least 1"):
            replay_mixed(workload, name, rng=rng, n_machines=bad)
    with pytest.raises(ValueError, match="interval_s must be a whole number, at least 1, got"):
        replace(workload, interval_s=bad)
    with pytest.raises(ValueError, match="cycle_ms must be a whole number, 1 or more, got"):
        Timing(cycle_ms=bad)
    if bad != 0:
        with pytest.raises(ValueError, match="n_machines must be a whole number, 0 or more, got"):
            replace(workload, n_machines=bad)
        with pytest.raises(ValueError, match="eviction_ms must be a whole number, 0 or more, got"):
            Timing(eviction_ms=bad)


def test_an_evictor_and_an_autoscaler_weigh_alike() -> None:
    with pytest.raises(ValueError, match="resources and weights of the autoscaler must be"):
        MixedScheduler("odd", evictor=Evictor(weights=(0.5, 0.5)))
    with pytest.raises(ValueError, match="weights of the evictor must be one of each of cpu_cores, mem_gib"):
        MixedScheduler("odd", evictor=Evictor(weights=(1.0,)))


@pytest.mark.slow
def test_one_service_and_one_batch_request_by_hand() -> None:
    services = Services(np.array([[4000, 8192]]), np.full((1, 96, 2), 1000), np.array([0]), np.array([96]),
                        np.array([-1]))
    batch = BatchRequests(np.array([600_000]), np.array([9000]), np.array([[500, 256]]), np.array([[600, 256]]),
                          np.array([[600, 256]]), np.array([0]), np.array([9000]), np.array([-1]))
    result = replay_mixed(MixedWorkload(services, batch, 900, "one of each"), "demand-blind",
                          rng=np.random.default_rng(0))
    assert (result.outcomes()["ended"], result.started_ms.tolist(), result.most_machines) == (1, [600_320], 1)
