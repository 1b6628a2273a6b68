"""Moves planned while a replay pauses: carried out as the slow twin does, charged as live migrations, blind to the
future."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

import naive
import sojourn.simulator as sim
from made_workloads import check_full, full_cases
from naive_replay import Replay
from sojourn.simulator.engine import upkeep as rectifying
from sojourn.simulator.rectification import RECTIFIERS, MigrationGroup, PoolView, Refill

HOUR = 3_600


def every_second(view: PoolView, budget: int, long_s: int) -> list[MigrationGroup]:
    """A planner for the twin: every second request goes to the first host in use that has room for it alone."""
    moves: dict[int, list[tuple[int, int]]] = {}
    for position in range(len(view.host)):
        hosts = np.flatnonzero(view.may_take(position, view.free))
        if not view.is_fixed[position] and position % 2 == 0 and len(hosts) and budget > 0:
            moves.setdefault(int(view.host[position]), []).append((position, int(hosts[0])))
            budget -= 1
    return [MigrationGroup(source, tuple(p for p, _ in own), tuple(t for _, t in own), 0.0)
            for source, own in moves.items()]


def twin_moves(twin: Replay) -> list[tuple[int, int]]:
    """The same, of the slow twin's objects."""
    running = sorted(i for host in twin.hosts for i in host.running)
    planned = {entry[0] for entry in twin.plan}
    moves: dict[int, list[tuple[int, int]]] = {}
    n_left = min(4, twin.left_to_plan())
    for position, i in enumerate(running):
        source = twin.host_of(i)
        assert source is not None
        hosts = [host.index for host in twin.hosts
                 if host is not source and not host.is_empty and twin.fits(i, host) and twin.may(i, host)]
        if twin.can_migrate(i) and i not in planned and position % 2 == 0 and hosts and n_left > 0:
            moves.setdefault(source.index, []).append((i, hosts[0]))
            n_left -= 1
    return [pair for own in moves.values() for pair in own]


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "is_ranked"), [("nilas", False), ("best-fit", True), ("lava", True)])
@settings(deadline=None, max_examples=40)
@given(case=full_cases(are_hosts_alike=True))
def test_moves_are_carried_out_as_by_the_slow_twin(policy: str, is_ranked: bool, case: Any) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rectifying, "RECTIFIERS", MappingProxyType({"pdre": every_second}))
        check_full(sim.POLICIES[policy], case, is_ranked=is_ranked, twin_moves=twin_moves,
                   rectify=sim.Rectify("pdre", 4, non_migratable_share=0.2))


def workload_of(rows: list[Any], n_hosts: int, horizon: int = 400 * HOUR) -> sim.Workload:
    trace = naive.trace_of(rows, horizon)
    hosts = pd.DataFrame({"host_id": range(n_hosts), "cpu_cores": 8.0, "mem_gib": 64.0})
    return sim.Workload("test", trace, hosts, sim.true_totals(trace, np.random.default_rng(0)))


SHORT_TWO = (HOUR, 300 * HOUR, 3.0, 1.0)
ROWS = [(0, 300 * HOUR, 5.0, 1.0), (0, 20 * HOUR, 3.0, 1.0), (0, 20 * HOUR, 5.0, 1.0), SHORT_TWO]
"""First fit: host 0 has 0 (5 cores) and 1 (3 cores, ends at 20 h), host 1 has 2 (ends at 20 h) and the long request 3,
which came at 1 h: 3 of 8 cores are long there, so host 1 is stranded. From 20 h on host 0 has room for request 3."""


def rectified(rows: list[Any] = ROWS, n_hosts: int = 3, policy: str = "first-fit", **rectify: Any) -> sim.Result:
    workload = workload_of(rows, n_hosts)
    given = {"non_migratable_share": 0.0, **rectify}
    return sim.simulate(workload, policy, sim.Oracle(workload), rectify=sim.Rectify(**given), is_checked=True)


def test_a_stranded_host_is_emptied_and_both_ends_are_held_while_it_migrates() -> None:
    # Moves are planned at 0 h, 24 h, ...; at 24 h request 3 goes from host 1 to host 0, and holds both for 20 min.
    # Host 2 is never used (400 h), host 1 is in use to 24 h 20 min, host 0 to 300 h.
    plain, found = rectified(budget=0), rectified(budget=1)
    assert (plain.metrics.n_migrations, found.metrics.n_migrations) == (0, 1)
    empty_h = [result.metrics.empty_hosts_pct / 100 * 3 * 400 for result in (plain, found)]
    assert empty_h == pytest.approx([400 + 100 + 100, 400 + (400 - 24 - 1 / 3) + 100])


def test_the_hour_is_when_moves_are_planned() -> None:
    found = rectified(budget=1, hour=21)  # 21 h: after the short ones have ended
    assert found.metrics.empty_hosts_pct / 100 * 3 * 400 == pytest.approx(400 + (400 - 21 - 1 / 3) + 100)


def test_planned_every_hour_moves_begin_when_they_can_and_no_more_of_them_than_a_day_may_have() -> None:
    found = rectified(budget=1, every_s=HOUR)  # from 20 h on there is room
    assert found.metrics.empty_hosts_pct / 100 * 3 * 400 == pytest.approx(400 + (400 - 20 - 1 / 3) + 100)
    # Ten hosts, each with a long request of 2 cores and, for an hour, a short one of 6 that keeps others out. Then five
    # hosts a day are emptied, days from `hour` to `hour`.
    rows = [row for k in range(10) for row in ((k, 300 * HOUR, 2.0, 1.0), (k, 1 * HOUR, 6.0, 1.0))]
    for hour, firsts in ((0, [1] * 5 + [24]), (2, [2] * 5 + [26])):
        result = rectified(rows, 10, budget=5, every_s=HOUR, hour=hour)
        assert result.migrations is not None
        begun_s = result.migrations["begun_s"].dropna().to_numpy()
        per_day = np.bincount(((begun_s - hour * HOUR) // 86_400).astype(int))
        assert per_day.tolist() == [5, 2]
        assert [int(at // HOUR) for at in begun_s[:6]] == firsts


def test_a_day_without_moves_left_plans_none_and_a_cap_of_none_never_asks() -> None:
    assert sim.Rectify(budget=0, every_s=HOUR).times_s(400 * HOUR) == []
    assert sim.Rectify(every_s=6 * HOUR, hour=1).times_s(20 * HOUR) == [HOUR, 7 * HOUR, 13 * HOUR, 19 * HOUR]
    for wrong in (0, 7 * HOUR, 2 * 86_400, 0.5):
        with pytest.raises(ValueError, match=r"every_s must be .* divides a day, got"):
            sim.Rectify(every_s=wrong)  # type: ignore[arg-type]


def test_a_planner_that_plans_a_request_twice_is_refused() -> None:
    def twice(view: PoolView, budget: int, long_s: int) -> list[MigrationGroup]:
        return [MigrationGroup(int(view.host[0]), (0,), (1,), 0.0)] * 2 if len(view.host) else []

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rectifying, "RECTIFIERS", {"pdre": twice})
        with pytest.raises(ValueError, match="planner 'pdre' must plan a request once, got one twice at 86400 s"):
            rectified(budget=5, rows=[(3 * HOUR, 300 * HOUR, 5.0, 1.0), (3 * HOUR, 300 * HOUR, 5.0, 1.0)])


@pytest.mark.parametrize("settings", [{"non_migratable_share": 1.0}, {"long_s": 10_000 * HOUR}])
def test_nothing_moves_where_nothing_can_or_is_long(settings: dict[str, Any]) -> None:
    assert rectified(budget=5, **settings).metrics.n_planned_migrations == 0


def test_one_host_has_nowhere_to_move_to() -> None:
    assert rectified([SHORT_TWO], 1, budget=5).metrics.n_planned_migrations == 0


def test_a_policy_without_predictions_is_asked_for_a_source() -> None:
    with pytest.raises(ValueError, match="source must be given for policy 'first-fit'"):
        sim.simulate(workload_of(ROWS, 3), "first-fit", rectify=sim.Rectify())


def test_moves_do_not_see_the_future() -> None:
    # Two worlds that are alike up to 24 h, and predicted alike: in one of them request 3 really ends at 25 h. What is
    # planned at 24 h is the same.
    seen: list[list[MigrationGroup]] = []
    for end in (300, 25):
        workload = workload_of([*ROWS[:3], (HOUR, end * HOUR, 3.0, 1.0)], 3)
        source = sim.Held(workload.request_ids, sim.one_step(np.array([300, 20, 20, 299]) * HOUR))
        seen.append([replace(each, gain_s=0.0) for each in planned(workload, source)])
    assert seen[0] == seen[1] == [MigrationGroup(1, (1,), (0,), 0.0)]


def planned(workload: sim.Workload, source: sim.LifetimeSource) -> list[MigrationGroup]:
    """All that PDRE plans in a replay."""
    found: list[MigrationGroup] = []
    pdre = RECTIFIERS["pdre"]

    def noted(view: PoolView, budget: int, long_s: int) -> list[MigrationGroup]:
        plan = pdre(view, budget, long_s)
        found.extend(plan)
        return plan

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rectifying, "RECTIFIERS", {"pdre": noted})
        sim.simulate(workload, "first-fit", source, rectify=sim.Rectify(non_migratable_share=0.0))
    return found


def refills(rows: list[Any]) -> list[Refill | None]:
    """What a rectifier is told of refills each day: predictions of 300 h for all."""
    found: list[Refill | None] = []
    workload = workload_of(rows, 3, 120 * HOUR)

    def noted(view: PoolView, budget: int, long_s: int) -> list[MigrationGroup]:
        found.append(view.refill)
        return []

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rectifying, "RECTIFIERS", {"pdre": noted})
        source = sim.Held(workload.request_ids, sim.one_step(np.full(len(rows), 300 * HOUR)))
        sim.simulate(workload, "first-fit", source, rectify=sim.Rectify())
    return found


def test_what_a_pool_has_shown_is_told_a_day_later() -> None:
    # Host 0 is in use to 5 h, from 6 h to 100 h. It becomes empty once, at 5 h, and is in use again from 1 h after on.
    found = refills([(0, 5 * HOUR, 5.0, 1.0), (6 * HOUR, 100 * HOUR, 5.0, 1.0)])
    told = [np.round(each.still_empty[[0, -1]], 3).tolist() for each in found if each is not None]
    assert len(found) == len(told) == 6
    # At 0 h and 24 h nothing is known of a whole day; from 48 h on that host, and one that is taken to stay empty.
    assert told == [[1.0, 1.0]] * 2 + [[1.0, 0.5]] * 4
    left = [each.left_empty[[0, -1]].tolist() for each in found if each is not None]
    assert left == [[1.0, 1.0]] * 6  # when the request of 0 h left nobody else was there


def test_what_is_told_of_refills_does_not_see_the_future() -> None:
    # Alike up to 48 h, when the second day is counted: in one of them the last request ends at 49 h, in the other late,
    # and another comes at 50 h.
    rows = [(0, 5 * HOUR, 5.0, 1.0), (6 * HOUR, 20 * HOUR, 5.0, 1.0), (7 * HOUR, 30 * HOUR, 5.0, 1.0)]
    one = refills([*rows, (9 * HOUR, 49 * HOUR, 3.0, 1.0)])
    other = refills([*rows, (9 * HOUR, 110 * HOUR, 3.0, 1.0), (50 * HOUR, 60 * HOUR, 8.0, 1.0)])
    told = [[None if each is None else (each.left_empty.tolist(), each.still_empty.tolist()) for each in found[:3]]
            for found in (one, other)]
    assert told[0] == told[1]
    assert one[2] is not None
    assert one[2].still_empty[-1] < 1.0


@pytest.mark.parametrize(("n_a_day", "begun_h"), [(None, 21), (2, 21), (1, 45), (0, None)])
def test_a_rectifier_plans_what_upkeep_has_left_of_the_day(n_a_day: int | None, begun_h: int | None) -> None:
    # As above, and request 4 holds host 2, which is drained at 20 h 30 min: it goes to host 3, the first migration of
    # day 0. At 21 h a cap of 2 leaves one for request 3; a cap of 1 leaves none before 24 h, so it goes at 45 h.
    workload = workload_of([*ROWS, (2 * HOUR, 300 * HOUR, 8.0, 1.0)], 4)
    drain = sim.Drain(2, 20 * HOUR + 1_800, 390 * HOUR)
    result = sim.simulate(workload, "first-fit", sim.Oracle(workload), upkeep=[drain], is_checked=True,
                          migration=sim.Migration(n_a_day=n_a_day),
                          rectify=sim.Rectify(budget=5, hour=21, non_migratable_share=0.0))
    assert result.migrations is not None
    found = result.migrations[["planner", "request_id", "begun_s"]].to_numpy().tolist()
    drained = [["drain", 4, 20 * HOUR + 1_800]]
    assert found == drained + ([] if begun_h is None else [["pdre", 3, begun_h * HOUR]])
    assert result.metrics.n_planned_migrations == len(found)


def test_a_rectifiers_budget_is_cut_to_the_cap() -> None:
    seen: list[int] = []

    def noted(view: PoolView, budget: int, long_s: int) -> list[MigrationGroup]:
        seen.append(budget)
        return []

    workload = workload_of(ROWS, 3)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rectifying, "RECTIFIERS", {"pdre": noted})
        for n_a_day in (None, 3, 0):
            sim.simulate(workload, "first-fit", sim.Oracle(workload), migration=sim.Migration(n_a_day=n_a_day),
                         rectify=sim.Rectify(budget=5))
    assert seen == [5] * 17 + [3] * 17 + [0] * 17  # at 0 h, 24 h, ..., 384 h
