"""Elastic pools small enough to be worked out by hand, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sojourn.simulator as sim
from sojourn.features.synthetic import synthesize
from sojourn.simulator.pool import Consolidation, ElasticPool, MachineType, PoolResult, simulate_pool

pytestmark = pytest.mark.slow  # the loops of elastic pools take most of a minute to compile

HOUR = 3600
TEN = MachineType("ten", {"cpu_cores": 10.0, "mem_gib": 10.0}, 1.0)
FOUR = MachineType("four", {"cpu_cores": 4.0, "mem_gib": 4.0}, 0.6)


def made(rows: list[tuple[int, int, float]], horizon_s: int = 10 * HOUR) -> sim.Workload:
    """Requests (arrival, departure, cores); they need as much memory."""
    table = pd.DataFrame(rows, columns=["arrival_s", "departure_s", "cpu_cores"])
    table = table.assign(request_id=range(len(rows)), mem_gib=table["cpu_cores"])
    return sim.build_workload("trace", sim.Trace(table, horizon_s), cpu_cores=10, mem_gib=10, n_hosts=1)


def run(workload: sim.Workload, consolidation: Consolidation, policy: str = "best-fit", **rules: Any) -> PoolResult:
    """On hosts of ten cores that boot at once and are released when they are empty, by perfect lifetimes."""
    settings: dict[str, Any] = {"types": (TEN,), "boot_s": 0, "idle_release_s": 0, **rules}
    return simulate_pool(workload, ElasticPool(**settings, consolidation=consolidation), policy, sim.Oracle(workload))


def said(result: PoolResult) -> list[tuple[int, str, int]]:
    """The log without types."""
    return list(result.log[["time_s", "what", "host"]].itertuples(index=False, name=None))


SPREAD = [(0, HOUR, 8.0), (0, 8 * HOUR, 2.0), (0, 6 * HOUR, 6.0), (0, HOUR, 4.0)]
"""After an hour two hosts in use hold 2 and 6 of 10 cores, until 8 h and 6 h."""


def test_a_host_is_paid_for_from_its_opening_to_its_release() -> None:
    # host 0 to 8 h, host 1 to 6 h
    assert run(made(SPREAD), Consolidation("empty")).host_h == 14.0
    # 10 min more each while they are empty
    assert run(made(SPREAD), Consolidation("empty"), idle_release_s=600).host_h == pytest.approx(14 + 1 / 3)
    # never released: both to the horizon at 10 h
    result = run(made(SPREAD), Consolidation("none"))
    assert result.host_h == 20.0
    # 8 + 16 + 36 + 4 core-hours in use of 200
    assert result.utilisation_pct["cpu_cores"] == pytest.approx(32.0)
    assert result.bound_host_h["cpu_cores"] == pytest.approx(6.4)


def test_requests_that_fit_nowhere_share_a_host_that_boots() -> None:
    result = run(made([(0, HOUR, 6.0), (60, HOUR, 4.0), (90, HOUR, 1.0)]), Consolidation("empty"), boot_s=300)
    assert result.wait_s.tolist() == [300, 240, 300]
    assert result.host.tolist() == [0, 0, 1]
    # a stay begins when the host is ready: both end at 3600 + 300 and 3600 + 240; the third, on its own host, at 3900
    assert said(result)[-2:] == [(3900, "released", 0), (3900, "released", 1)]
    assert result.hosts_over_time().to_numpy().tolist() == [[0, 1], [90, 2], [3900, 0]]


def test_a_timer_empties_a_host_whose_requests_fit_elsewhere() -> None:
    # from 1 h on host 0 uses 0.2; 10 min later its request goes to host 1, which then is on until 8 h
    live = run(made(SPREAD), Consolidation("timer"))
    assert said(live)[2:] == [(4200, "drained", 0), (5400, "released", 0), (8 * HOUR, "released", 1)]
    assert (live.n_moves, live.lost_core_h) == (1, 0.0)
    # starting over it runs for 8 h from 4200 s on: what it ran for is lost
    restart = run(made(SPREAD), Consolidation("timer", moving="restart"))
    assert said(restart)[2:] == [(4200, "drained", 0), (4200, "released", 0), (4200 + 8 * HOUR, "released", 1)]
    assert restart.lost_core_h == pytest.approx(2 * 4200 / 3600)


def test_regret_keeps_a_host_whose_emptying_does_not_pay() -> None:
    # The move keeps host 1 on 7,200 s longer, and lasts 1,200 s. At t the pool has had two hosts for t s, and host 0 is
    # on until 28,800: min(t, 28,800 - t) must be above 8,400. It is looked at every minute.
    drained = [time for time, what, _ in said(run(made(SPREAD), Consolidation("regret"))) if what == "drained"]
    assert drained == [8460]
    # half of the extension counts, and half of 28,800 - t: t above 4,800
    half = said(run(made(SPREAD), Consolidation("regret", trust=0.5)))
    assert [time for time, what, _ in half if what == "drained"] == [4860]
    # at most 14,400 - 8,400 s are left, at 14,400 s
    assert run(made(SPREAD), Consolidation("regret", move_cost_s=5_999)).n_drained == 1
    assert run(made(SPREAD), Consolidation("regret", move_cost_s=6_001)).n_drained == 0
    # a host that is empty in 20 min by itself
    short = [(0, HOUR, 8.0), (0, HOUR + 1800, 2.0), (0, 6 * HOUR, 6.0), (0, HOUR, 4.0)]
    assert run(made(short), Consolidation("timer")).n_drained == 1
    assert run(made(short), Consolidation("regret")).n_drained == 0


def test_balanced_keeps_a_host_whose_evictions_cost_more_than_it_saves() -> None:
    # After 4,200 s host 0 has one request and host 1 another: each host is half of the price. Uniform: each is half of
    # the cost, too, a score of 1: emptied from k = 1 on.
    assert run(made(SPREAD), Consolidation("balanced", k=1.0)).n_drained == 1
    assert run(made(SPREAD), Consolidation("balanced", k=0.99)).n_drained == 0
    # By uptime over an hour both cost 1 as well, from 5,092 s on (the root of 2 h) 2. By uptime over remaining time:
    # 4,200 / 24,600 is near 1/8, 4,200 / 17,400 near 1/4. Host 0 has 1.125 of 2.375, a score of 1.056.
    assert run(made(SPREAD), Consolidation("balanced", k=1.0, cost="uptime", cost_unit_s=HOUR)).n_drained == 1
    by_ratio = run(made(SPREAD), Consolidation("balanced", k=0.95, cost="predicted", cost_unit_s=9 * HOUR))
    assert said(by_ratio)[2] == (4200, "drained", 0)
    # of the other host 1.25 are too much, until it costs as much
    kept = Consolidation("balanced", k=0.94, cost="predicted", cost_unit_s=9 * HOUR, recheck_s=9 * HOUR)
    assert run(made(SPREAD), kept).n_drained == 0
    # of the remaining time an hour counts: as by uptime
    assert run(made(SPREAD), Consolidation("balanced", k=1.0, cost="predicted", cost_unit_s=HOUR)).n_drained == 1


def test_a_host_is_not_emptied_onto_an_empty_one() -> None:
    # worst-fit would take the empty host 1, which is kept on
    rows = [(0, 9 * HOUR, 2.0), (0, HOUR, 10.0)]
    for policy in ("best-fit", "worst-fit"):
        assert run(made(rows), Consolidation("timer"), policy, idle_release_s=5 * HOUR).n_drained == 0


def test_the_type_of_a_new_host_is_the_cheapest_or_the_most_efficient() -> None:
    # 2 cores: 0.6 on four, against 1.0; of their shares 0.5 x 0.6 = 0.3 against 0.2 x 1.0
    row = [(0, HOUR, 2.0)]
    for choice, name in (("cheapest", "four"), ("efficient", "ten")):
        result = run(made(row), Consolidation("empty"), types=(TEN, FOUR), type_choice=choice)
        assert {kind: hours for kind, hours in result.host_h_by_type.items() if hours} == {name: 1.0}
        assert result.price == pytest.approx(1.0 if name == "ten" else 0.6)
    # 5 cores do not fit on four
    assert run(made([(0, HOUR, 5.0)]), Consolidation("empty"), types=(TEN, FOUR), type_choice="cheapest").price == 1.0


@pytest.mark.parametrize(("rows", "place"), [
    ([(0, 9 * HOUR, 2.0), (0, 9 * HOUR, 5.0), (HOUR, 2 * HOUR, 1.0)], 0),
    ([(0, 9 * HOUR, 5.0), (0, 60, 3.0), (0, 9 * HOUR, 2.0), (HOUR, 2 * HOUR, 1.0)], 0),
    ([(0, 9 * HOUR, 5.0), (0, 60, 3.0), (0, 9 * HOUR, 3.0), (HOUR, 2 * HOUR, 1.0)], 1),
])  # fmt: skip
def test_the_best_host_of_all_types_is_chosen_and_the_first_of_equals(rows: Any, place: int) -> None:
    # The last request takes 1 of 2 free on a host of four, or of 3 free on one of eight: both have 0.25 left. Where it
    # takes the last one of four, 0 is left, which is less.
    eight = MachineType("eight", {"cpu_cores": 8.0, "mem_gib": 8.0}, 1.0)
    result = run(made(rows), Consolidation("empty"), types=(FOUR, eight), type_choice="cheapest")
    assert result.host.tolist()[-1] == place
    assert result.most_hosts == 2


def test_a_pool_at_its_most_rejects() -> None:
    result = run(made([(0, HOUR, 8.0), (0, HOUR, 8.0), (60, HOUR, 2.0)]), Consolidation("empty"), most_hosts=1)
    assert (result.n_rejected, result.wait_s.tolist()) == (1, [0, -1, 0])


def test_a_pool_that_may_be_huge_takes_no_more_memory_than_its_requests_need() -> None:
    result = run(made(SPREAD), Consolidation("timer"), most_hosts=2**40 - 1)
    assert result.host.tolist() == run(made(SPREAD), Consolidation("timer")).host.tolist()


@pytest.mark.parametrize("mode", ["timer", "regret", "balanced"])
@pytest.mark.parametrize("moving", ["live", "restart"])
@pytest.mark.parametrize("policy", ["best-fit", "nilas"])
def test_what_comes_later_does_not_change_what_was_done(mode: Any, moving: Any, policy: str) -> None:
    workload = sim.build_workload("synthetic", synthesize(3_000, seed=1))
    cut = int(np.quantile(workload.placed_s, 0.6))
    curves = sim.NoisyOracle(workload, 1.0).curves(workload.trace.requests)
    pool = ElasticPool((MachineType("h", {"cpu_cores": 24.0, "mem_gib": 96.0}, 1.0),), most_hosts=400,
                       consolidation=Consolidation(mode, utilisation_max=0.8, moving=moving, cost="predicted"))

    def done(changed: sim.Workload) -> tuple[list[Any], list[Any]]:
        result = simulate_pool(changed, pool, policy, sim.Held(workload.request_ids, curves))
        own = result.log[result.log["time_s"] < cut]
        return own.to_numpy().tolist(), result.host[workload.placed_s < cut].tolist()

    rng = np.random.default_rng(0)
    # who runs at the cut stays longer, who comes later stays otherwise; predictions of those before it are the same
    later = np.where(workload.departure_s > cut, workload.total_s + rng.integers(1, 90_000, len(workload.total_s)),
                     workload.total_s)
    end_s = workload.start_s + later
    table = workload.trace.requests.assign(departure_s=pd.array(end_s, "Int64").astype("Int64"))
    table.loc[end_s > workload.trace.horizon_s, "departure_s"] = pd.NA
    changed = replace(workload, trace=sim.Trace(table, workload.trace.horizon_s), total_s=later)
    log, hosts = done(workload)
    assert done(changed) == (log, hosts)
    assert sum(what == "drained" for _, what, _, _ in log) > 5


@pytest.mark.parametrize(("build", "words"), [
    (lambda: ElasticPool(()), "types must be at least one type of host, got none"),
    (lambda: ElasticPool((TEN, TEN)), "types must have different names, got ten, ten"),
    (lambda: ElasticPool((TEN,), "smallest"),  # type: ignore[arg-type]
     "type_choice must be one of cheapest, efficient, got 'smallest'"),
    (lambda: ElasticPool((TEN,), boot_s=-1), "boot_s must be a whole number, 0 or more, got -1"),
    (lambda: ElasticPool((TEN,), idle_release_s=-5), "idle_release_s must be a whole number, 0 or more, got -5"),
    (lambda: ElasticPool((TEN,), most_hosts=0), "most_hosts must be a whole number, at least 1, got 0"),
    (lambda: ElasticPool((TEN,), most_hosts=2.5),  # type: ignore[arg-type]
     "most_hosts must be a whole number, at least 1, got 2.5"),
    (lambda: ElasticPool((TEN,), boot_s=1.5),  # type: ignore[arg-type]
     "boot_s must be a whole number, 0 or more, got 1.5"),
    (lambda: Consolidation(after_s=float("nan")),  # type: ignore[arg-type]
     "after_s must be a whole number, 0 or more, got nan"),
    (lambda: MachineType("free", {"cpu_cores": 1.0}, -0.1),
     "price_per_h of free must be 0 or more and finite, got -0.1"),
    (lambda: Consolidation("slow"), "mode must be one of none, empty, timer, regret, balanced, got 'slow'"),  # type: ignore[arg-type]
    (lambda: Consolidation(moving="fast"), "moving must be one of live, restart, got 'fast'"),  # type: ignore[arg-type]
    (lambda: Consolidation(after_s=-1), "after_s must be a whole number, 0 or more, got -1"),
    (lambda: Consolidation(recheck_s=0), "recheck_s must be a whole number, 1 or more, got 0"),
    (lambda: Consolidation(move_s=0), "move_s must be a whole number, 1 or more, got 0"),
    (lambda: Consolidation(move_cost_s=-1), "move_cost_s must be a whole number, 0 or more, got -1"),
    (lambda: Consolidation(k=0.0), "k must be finite and above 0, got 0.0"),
    (lambda: Consolidation(k=float("nan")), "k must be finite and above 0, got nan"),
    (lambda: Consolidation(cost="high"),  # type: ignore[arg-type]
     "cost must be one of uniform, uptime, predicted, got 'high'"),
    (lambda: Consolidation(cost_unit_s=0), "cost_unit_s must be a whole number, 1 or more, got 0"),
    (lambda: Consolidation(trust=1.5), "trust must be in 0..1, got 1.5"),
    (lambda: Consolidation(room_weight=-0.1), "room_weight must be in 0..1, got -0.1"),
    (lambda: Consolidation(utilisation_max=0.0), "utilisation_max must be finite and above 0, got 0.0"),
    (lambda: simulate_pool(made([(0, HOUR, 8.0)]), ElasticPool((FOUR,))),
     "each request must fit on an empty host, got 0 larger than every host"),
    (lambda: simulate_pool(made([(0, HOUR, 8.0)]), ElasticPool((TEN,), consolidation=Consolidation("regret"))),
     "source must be given for consolidation by regret, which uses predictions; got None"),
    (lambda: simulate_pool(made([(0, HOUR, 8.0)]), ElasticPool((TEN,), consolidation=Consolidation(
        "balanced", cost="predicted"))),
     "source must be given for consolidation by balanced, which uses predictions; got None"),
    (lambda: simulate_pool(made([(0, HOUR, 8.0)]), ElasticPool((TEN,)), "nilas"),
     "source must be given for policy 'nilas', which uses predictions; got None"),
])  # fmt: skip
def test_bad_input_is_refused(build: Any, words: str) -> None:
    with pytest.raises(ValueError, match=f"^{words}$"):
        build()


def test_a_type_on_which_nothing_fits_is_never_opened() -> None:
    result = run(made([(0, HOUR, 8.0)]), Consolidation("empty"), types=(FOUR, TEN), type_choice="cheapest")
    assert result.host_h_by_type == {"four": 0.0, "ten": 1.0}


def test_rules_besides_room_are_refused() -> None:
    workload = made([(0, HOUR, 8.0)])
    table = workload.trace.requests.assign(job="a")
    ruled = replace(workload, trace=sim.Trace(table, workload.trace.horizon_s),
                    constraints=sim.Constraints(apart_by="job"))
    with pytest.raises(ValueError, match="constraints must be none in an elastic pool, got"):
        simulate_pool(ruled, ElasticPool((TEN,)))


@pytest.mark.parametrize("moving", ["live", "restart"])
@pytest.mark.parametrize("mode", ["empty", "timer", "regret"])
def test_thousands_of_requests_at_one_time_that_end_at_once_need_hosts_while_these_boot(mode: Any, moving: Any) -> None:
    rows = [(100, 100, 1.0)] * 5_000
    result = run(made(rows), Consolidation(mode, after_s=0, moving=moving), boot_s=120, idle_release_s=600)
    # a stay of 0 s is read as one of 1 s: 500 hosts, from 100 s to 821 s
    assert (result.most_hosts, result.n_opened, result.n_moves) == (500, 500, 0)
    assert result.host_h == pytest.approx(500 * 721 / 3600)
    assert set(result.wait_s.tolist()) == {120}


@pytest.mark.parametrize("mode", ["timer", "regret"])
def test_a_boot_longer_than_the_trace_is_paid_for_and_waited_for(mode: Any) -> None:
    result = run(made(SPREAD), Consolidation(mode, after_s=0), boot_s=11 * HOUR)
    assert (result.host_h, result.n_drained, result.log["what"].tolist()) == (20.0, 0, ["opened", "opened"])
    assert result.wait_s.tolist() == [11 * HOUR] * 4
    # the last host boots until after the horizon and still counts as on
    assert result.hosts_over_time().to_numpy().tolist() == [[0, 2]]


def test_a_timer_of_0_empties_a_host_at_once_and_ends() -> None:
    # at 1 h host 0 falls to 0.2, and is emptied then
    result = run(made(SPREAD), Consolidation("timer", after_s=0, moving="restart"))
    assert said(result)[2:4] == [(HOUR, "drained", 0), (HOUR, "released", 0)]
    # every event resets it: each host is looked at each time, and after the same second again
    many = made([(k, k + HOUR, 1.0) for k in range(3_000)])
    busy = run(many, Consolidation("timer", after_s=0, is_reset_by_events=True, utilisation_max=2.0, recheck_s=1))
    assert busy.n_checks > 3_000
    assert busy.n_rejected == 0


def test_a_host_that_costs_nothing_is_never_emptied_by_regret() -> None:
    free = MachineType("free", {"cpu_cores": 10.0, "mem_gib": 10.0}, 0.0)
    result = run(made(SPREAD), Consolidation("regret"), types=(free,))
    assert (result.price, result.n_drained) == (0.0, 0)
    assert run(made(SPREAD), Consolidation("timer"), types=(free,)).n_drained == 1
