"""Host events and waiting requests, by small examples; every invariant is looked at after every event.

All go through one compiled form, that of the twin's test.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import naive
import sojourn.simulator as sim


def run(rows: list[Any], n_hosts: int, *upkeep: Any, horizon: int = 1_000, is_queueing: bool = False,
        warmup_s: int = 0, **migration: Any) -> sim.Result:
    """NILAS with an oracle on hosts of 4 cores and 4 GiB."""
    trace = naive.trace_of(rows, horizon)
    hosts = pd.DataFrame({"host_id": range(n_hosts), "cpu_cores": 4.0, "mem_gib": 4.0})
    workload = sim.Workload("test", trace, hosts, sim.true_totals(trace, np.random.default_rng(0)), warmup_s)
    # a drain that never comes: all is compiled, whatever else is asked for
    return sim.simulate(workload, replace(sim.POLICIES["nilas"], is_queueing=is_queueing), sim.Oracle(workload),
                        is_ranked=False, is_checked=True, upkeep=[*upkeep, sim.Drain(0, 10**9, 10**9 + 1)],
                        migration=sim.Migration(**migration))


def empty_s(result: sim.Result, n_hosts: int, horizon: int = 1_000) -> int:
    return round(result.metrics.empty_hosts_pct / 100 * n_hosts * horizon)


def test_who_waits_is_served_first_come_first_and_stays_its_time() -> None:
    # One host. 0 holds 3 cores to 100. 1 (4 cores, 50 s) and 2 (2 cores, 50 s) wait from 10 and 20; 3 (1 core) fits at
    # 30 and leaves at 60. At 100 request 1 is first, to 150; then 2, to 200. Waits: 0, 90, 130 and 0.
    rows = [(0, 100, 3.0, 1.0), (10, 60, 4.0, 1.0), (20, 70, 2.0, 1.0), (30, 60, 1.0, 1.0)]
    result = run(rows, 1, is_queueing=True)
    assert result.host.tolist() == [0, 0, 0, 0]
    assert result.metrics.mean_wait_s == 55.0
    assert empty_s(result, 1) == 800


def test_who_waits_comes_before_who_arrives() -> None:
    # at 100 the room goes to 1, which waited, and then 2 waits to 150, and stays to 200
    rows = [(0, 100, 4.0, 1.0), (50, 100, 4.0, 1.0), (100, 150, 4.0, 1.0)]
    result = run(rows, 1, is_queueing=True)
    assert (result.metrics.mean_wait_s, empty_s(result, 1)) == (100 / 3, 800)


def test_who_never_gets_a_host_is_rejected() -> None:
    result = run([(0, None, 4.0, 1.0), (50, 100, 4.0, 1.0)], 1, is_queueing=True)
    assert (result.host.tolist(), result.metrics.n_rejected, result.metrics.mean_wait_s) == ([0, -1], 1, 0.0)


def test_a_failure_moves_in_order_of_arrival_and_keeps_ends() -> None:
    # 0 and 1 (2 cores each) are on host 0, 2 (2 cores) on host 1. Host 0 fails at 10: 0 finds the last 2 cores of host
    # 1, 1 none and is lost. From 50 on host 0 is back; all leave at 100. Empty and usable: host 0 from 50 to 1,000 and
    # host 1 from 100 to 1,000.
    rows = [(0, 100, 2.0, 1.0), (0, 100, 2.0, 1.0), (0, 100, 2.0, 1.0)]
    result = run(rows, 2, sim.Failure(0, 10, 40))
    assert result.host.tolist() == [0, 0, 1]
    assert (result.metrics.n_rescheduled, result.metrics.n_lost) == (1, 1)
    assert empty_s(result, 2) == 950 + 900


@pytest.mark.parametrize(("repair_s", "n_rescheduled", "n_lost", "empty"), [
    # back at 60: it goes on to its end at 100, and the host is empty from then on
    (50, 1, 0, 900),
    # back at 100, which is too late; the host is empty from then on
    (90, 0, 1, 900),
    # never back; it is lost all the same, though nothing gives it another chance
    (5_000, 0, 1, 0),
])
def test_who_waits_after_a_failure_keeps_its_end(repair_s: int, n_rescheduled: int, n_lost: int, empty: int) -> None:
    result = run([(0, 100, 2.0, 1.0)], 1, sim.Failure(0, 10, repair_s), is_queueing=True)
    assert (result.metrics.n_rescheduled, result.metrics.n_lost) == (n_rescheduled, n_lost)
    assert empty_s(result, 1) == empty


@pytest.mark.parametrize("upkeep", [
    # a host is closed as long as anything closes it, in whatever order that is told: here from 10 to 80
    (sim.Drain(0, 10, 30), sim.Drain(0, 20, 80)),
    (sim.Drain(0, 20, 80), sim.Drain(0, 10, 30)),
    (sim.Failure(0, 10, 60), sim.Failure(0, 20, 60)),
    (sim.Drain(0, 10, 80), sim.Failure(0, 20, 20)),
    (sim.Failure(0, 10, 30), sim.Drain(0, 20, 80)),
    (sim.Failure(0, 40, 40), sim.Failure(0, 10, 30)),
])
def test_closures_of_one_host_may_overlap(upkeep: tuple[Any, ...]) -> None:
    rows = [(t, t + 1, 1.0, 1.0) for t in (9, 10, 31, 50, 79, 80)]
    result = run(rows, 1, *upkeep)
    assert result.host.tolist() == [0, -1, -1, -1, -1, 0]
    assert empty_s(result, 1) == 1_000 - 70 - 2


def test_a_drain_moves_what_it_can_and_both_hosts_are_busy() -> None:
    # 0 is on host 0, which is drained from 10 to 200; its migration to host 1 takes 30 s, from 10 to 40
    result = run([(0, 100, 1.0, 1.0)], 2, sim.Drain(0, 10, 200), duration_s=30)
    assert (result.metrics.n_planned_migrations, result.metrics.n_migrations) == (1, 1)
    assert result.metrics.migrated_gib == 1.0
    # host 0: empty and usable from 200; host 1: to 10 and from 100
    assert empty_s(result, 2) == 800 + 10 + 900


def test_who_ends_before_its_turn_is_spared() -> None:
    # one at a time, 30 s each, longest first: 0 (ends at 500) goes at 10, 1 (ends at 30) would at 40
    rows = [(0, 500, 1.0, 1.0), (0, 30, 1.0, 1.0)]
    result = run(rows, 2, sim.Drain(0, 10, 200), duration_s=30, n_at_once=1)
    assert (result.metrics.n_planned_migrations, result.metrics.n_migrations) == (2, 1)
    # in the order of the trace turned round, both go
    result = run(rows, 2, sim.Drain(0, 10, 200), duration_s=15, n_at_once=1, order="shortest-first")
    assert (result.metrics.n_planned_migrations, result.metrics.n_migrations) == (2, 2)


def test_who_migrates_to_a_host_that_fails_stays_where_it_was() -> None:
    # 0 leaves host 0 for host 1 from 10 to 40; host 1 fails at 20. It stays on host 0, which is drained, and when host
    # 1 is back at 60 it goes there after all, from 60 to 90. It never restarted.
    result = run([(0, 100, 1.0, 1.0)], 2, sim.Drain(0, 10, 300), sim.Failure(1, 20, 40), duration_s=30)
    metrics = result.metrics
    assert (metrics.n_migrations, metrics.n_planned_migrations, metrics.n_rescheduled, metrics.n_lost) == (2, 2, 0, 0)
    # host 0: from 300; host 1: to 10 and from 100
    assert empty_s(result, 2) == 700 + 10 + 900


def test_who_migrates_from_a_host_that_fails_goes_on_at_its_target() -> None:
    result = run([(0, 100, 1.0, 1.0)], 2, sim.Drain(0, 10, 300), sim.Failure(0, 20, 30), duration_s=30)
    metrics = result.metrics
    assert (metrics.n_migrations, metrics.n_rescheduled, metrics.n_lost) == (1, 1, 0)


@pytest.mark.parametrize(("is_across", "n_migrations"), [
    # 0 and 1 are on host 0 (3 cores), 2 and 3 on host 1 (4 cores). The wave at 10 takes all hosts: the empty ones are
    # done at once, and then one request migrates at a time, 50 s each. Longest across both: 1 (900) at 10, 3 (800) at
    # 60; at 110 the others have ended at 70.
    (True, 2),
    # Host 0 first, as less is in use: 1 at 10, then 0 at 60, which ends on its way at 70; then host 1: 3 at 70.
    (False, 3),
])
def test_a_wave_is_ordered_across_its_hosts_or_host_by_host(is_across: bool, n_migrations: int) -> None:
    rows = [(0, 70, 1.5, 1.0), (0, 900, 1.5, 1.0), (0, 70, 2.0, 1.0), (0, 800, 2.0, 1.0)]
    result = run(rows, 4, sim.Maintenance(10, 5_000, 1.0), duration_s=50, n_at_once=1, is_across=is_across)
    assert result.host.tolist() == [0, 0, 1, 1]
    assert (result.metrics.n_planned_migrations, result.metrics.n_migrations) == (4, n_migrations)


@pytest.mark.parametrize(("n_hosts", "share", "n_waves"), [
    # 2.5 hosts are 3, two waves; 1.25 are 2, where the fourth wave finds none; 3.33 are 4, three waves
    (5, 0.5, 2),
    (5, 0.25, 4),
    (10, 1 / 3, 3),
    # 0.07 * 100 is 7.000000000000001 in binary; 15 waves of 7 are 105
    (100, 0.07, 15),
    (3, 0.3, 4),
])
def test_waves_update_every_host_and_none_stays_closed(n_hosts: int, share: float, n_waves: int) -> None:
    # Half of the hosts run a request of 3 cores until 10 s after the last wave; it migrates in 1 s. 10 s later requests
    # of 4 cores ask for all hosts: none is closed. There is no further wave.
    last = 100 + (n_waves - 1) * 50
    rows = [(0, last + 10, 3.0, 1.0)] * (n_hosts // 2) + [(last + 20, last + 40, 4.0, 1.0)] * n_hosts
    result = run(rows, n_hosts, sim.Maintenance(100, 50, share), horizon=last + 49, duration_s=1, n_at_once=50)
    assert result.metrics.n_updated == n_hosts
    assert sorted(result.host[n_hosts // 2:].tolist()) == list(range(n_hosts))


def test_waves_go_on_until_hosts_that_stood_aside_are_updated() -> None:
    # Two waves at 100 and 200 would do for 2 hosts. Host 0 fails from 90 to 250 and is taken at 300; at 250 it is not.
    updated = [run([(0, 50, 1.0, 1.0)], 2, sim.Failure(0, 90, 160), sim.Maintenance(100, 100, 0.5),
                   horizon=horizon).metrics.n_updated for horizon in (299, 300)]
    assert updated == [1, 2]


@pytest.mark.parametrize(("warmup_s", "n_planned", "n_begun", "gib", "n_rescheduled", "n_lost", "core_h"), [
    # 0 and 1 (1 core, 1 GiB) are drained from host 0 at 100, one at a time, 50 s each; 1 goes at 150. Host 1 fails at
    # 300: 0 and 1 start again on host 2, 300 core-s each are void; host 2 fails at 500: both are lost, 200 each.
    (0, 2, 2, 2.0, 2, 2, 1_000 / 3_600),
    # the warm-up's last second does not belong to what is measured, its end does
    (100, 2, 2, 2.0, 2, 2, 1_000 / 3_600),
    (101, 0, 1, 1.0, 2, 2, 1_000 / 3_600),
    (150, 0, 1, 1.0, 2, 2, 1_000 / 3_600),
    (151, 0, 0, 0.0, 2, 2, 1_000 / 3_600),
    (300, 0, 0, 0.0, 2, 2, 1_000 / 3_600),
    (301, 0, 0, 0.0, 0, 2, 400 / 3_600),
    (501, 0, 0, 0.0, 0, 0, 0.0),
    (999, 0, 0, 0.0, 0, 0, 0.0),
])
def test_counts_begin_when_the_warm_up_ends(warmup_s: int, n_planned: int, n_begun: int, gib: float,
                                            n_rescheduled: int, n_lost: int, core_h: float) -> None:
    rows = [(0, 900, 1.0, 1.0), (0, 900, 1.0, 1.0)]
    upkeep = sim.Drain(0, 100, 990), sim.Failure(1, 300, 690), sim.Failure(2, 500, 490)
    result = run(rows, 3, *upkeep, warmup_s=warmup_s, duration_s=50, n_at_once=1)
    metrics = result.metrics
    assert (metrics.n_planned_migrations, metrics.n_migrations, metrics.migrated_gib) == (n_planned, n_begun, gib)
    assert (metrics.n_rescheduled, metrics.n_lost) == (n_rescheduled, n_lost)
    assert metrics.voided_core_h == pytest.approx(core_h)
    assert result.is_disturbed


@pytest.mark.parametrize(("rows", "upkeep", "is_disturbed"), [
    ([(0, 100, 4.0, 1.0), (100, 200, 4.0, 1.0)], (), False),
    # a failure of an empty host disturbs nobody
    ([(0, 100, 4.0, 1.0)], (sim.Failure(0, 100, 50),), False),
    # it waits to the end of the trace, neither lost nor started again
    ([(0, None, 4.0, 1.0)], (sim.Failure(0, 10, 5_000),), True),
    ([(0, 100, 4.0, 1.0), (50, 200, 4.0, 1.0)], (), True),
    # it waits and is never placed
    ([(0, None, 4.0, 1.0), (50, 200, 4.0, 1.0)], (), False),
])
def test_a_replay_is_disturbed_by_waiting_and_failures(rows: list[Any], upkeep: Any, is_disturbed: bool) -> None:
    assert run(rows, 1, *upkeep, is_queueing=True, warmup_s=999).is_disturbed == is_disturbed


def begun(result: sim.Result) -> list[tuple[str, int, float]]:
    """Planner, request and time of the migrations that began, by time."""
    assert result.migrations is not None
    table = result.migrations.dropna(subset="begun_s").sort_values("begun_s", kind="stable")
    return list(zip(*(table[name].tolist() for name in ("planner", "request_id", "begun_s")), strict=True))


def test_drains_and_waves_are_not_held_back_by_the_days_cap() -> None:
    rows = [(0, 900, 1.0, 1.0), (0, 800, 1.0, 1.0)]
    drain = run(rows, 2, sim.Drain(0, 10, 700), duration_s=30, n_a_day=0)
    assert begun(drain) == [("drain", 0, 10), ("drain", 1, 10)]
    wave = run(rows, 2, sim.Maintenance(10, 5_000, 1.0), duration_s=30, n_a_day=0)
    assert begun(wave) == [("maintenance", 0, 10), ("maintenance", 1, 10)]


@pytest.mark.parametrize(("n_a_day", "n_begun"), [(None, 2), (2, 2), (1, 0), (0, 0)])
def test_a_batch_takes_no_host_with_more_requests_than_the_day_has_left(n_a_day: int | None, n_begun: int) -> None:
    # 0 and 1 are on host 0; 2 holds all of host 1 to 20. One host is to be empty: host 0 is closed, and at 20 both go.
    rows = [(0, 900, 1.0, 1.0), (0, 800, 1.0, 1.0), (0, 20, 4.0, 1.0)]
    result = run(rows, 2, sim.Defragmentation(50.0, 1), duration_s=10, n_a_day=n_a_day)
    assert result.host.tolist() == [0, 0, 1]
    assert begun(result) == [("defragmentation", 0, 20), ("defragmentation", 1, 20)][:n_begun]


@pytest.mark.parametrize(("n_a_day", "third"), [(None, ("defragmentation", 2, 60)), (2, ("defragmentation", 2, 90_000)),
                                                (3, ("defragmentation", 2, 60))])
def test_what_the_cap_holds_back_begins_on_another_day(n_a_day: int | None, third: tuple[str, int, int]) -> None:
    # Host 0 has 0 (3 cores, to 60) and 1 (1 core), host 1 has 2 (2 cores) and 3 (1 core), hosts 2 and 3 have 3 cores in
    # use. One is to be empty. At 5 host 1 is closed, with the least in use: 3 goes to the one core left of host 2 or 3,
    # and 2 finds no room. At 20 host 0 is drained to 50: 1 goes to the other core. At 60 request 0 ends, and 2 has room
    # on host 0; but of two migrations a day none is left to midnight, 86,400. The next event is the arrival at 90,000.
    rows = [(0, 60, 3.0, 1.0), (1, 99_000, 1.0, 1.0), (2, 99_500, 2.0, 1.0), (3, 99_000, 1.0, 1.0),
            (4, 80_000, 3.0, 3.0), (5, 80_000, 3.0, 3.0), (90_000, 90_100, 1.0, 1.0)]
    result = run(rows, 4, sim.Defragmentation(25.0, 1), sim.Drain(0, 20, 50), duration_s=10, horizon=99_900,
                 n_a_day=n_a_day)
    assert result.host.tolist()[:6] == [0, 0, 1, 1, 2, 3]
    assert begun(result)[:3] == [("defragmentation", 3, 5), ("drain", 1, 20), third]


@pytest.mark.parametrize("n_a_day", [-1, 2.5, True])
def test_a_cap_that_is_no_number_of_migrations_is_refused(n_a_day: Any) -> None:
    rule = "n_a_day must be None or a whole number of migrations, 0 or more, got"
    with pytest.raises(ValueError, match=f"{rule} {n_a_day}"):
        sim.Migration(n_a_day=n_a_day)
