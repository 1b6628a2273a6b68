"""The record of a rectifier's migrations, by hand: when each began, when its host was empty, and what it freed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

import naive
import sojourn.simulator as sim
from sojourn.flows.compare.cells import migration_arrays
from sojourn.simulator.measures.hosts import migration_figures

HOUR = 3_600
DAY = 24 * HOUR
ROWS = [(0, 300 * HOUR, 5.0, 1.0), (0, 20 * HOUR, 3.0, 1.0), (0, 20 * HOUR, 5.0, 1.0), (HOUR, 300 * HOUR, 3.0, 1.0)]
"""First fit: host 0 has 0 (5 cores) and 1 (3 cores, ends at 20 h), host 1 has 2 (ends at 20 h) and the long request 3,
which came at 1 h. From 20 h on host 0 has room for request 3."""


def _workload(rows: list[Any], n_hosts: int = 3, warmup_s: int = 0) -> sim.Workload:
    trace = naive.trace_of(rows, 400 * HOUR)
    hosts = pd.DataFrame({"host_id": list("abcdefgh")[:n_hosts], "cpu_cores": 8.0, "mem_gib": 64.0})
    return sim.Workload("test", trace, hosts, sim.true_totals(trace, np.random.default_rng(0)), warmup_s)


def _result(workload: sim.Workload, source: sim.LifetimeSource | None = None, **rectify: Any) -> sim.Result:
    given = {"non_migratable_share": 0.0, "budget": 1, **rectify}
    return sim.simulate(workload, "first-fit", source or sim.Oracle(workload), rectify=sim.Rectify(**given))


def _table(*arguments: Any, **rectify: Any) -> pd.DataFrame:
    table = _result(*arguments, **rectify).migrations
    assert table is not None
    return table


def test_a_migration_is_recorded_with_what_it_was_worth() -> None:
    # At 24 h request 3 (276 h to go) leaves host b for host a, which request 0 holds to 300 h. The migration is over at
    # 24 h 20 min, and host b is empty from then on: 23 h 40 min of the day. Without it b is held to 300 h.
    table = _table(_workload(ROWS))
    assert len(table) == 1
    row = table.iloc[0]
    assert row[["planned_s", "group", "from_host", "to_host", "n_together"]].tolist() == [DAY, 0, "b", "a", 1]
    assert row["remaining_s"] == 276 * HOUR
    assert (row["chance"], row["chance_without"], row["likely_s"]) == (1.0, 0.0, 1_200.0)
    assert row["expected_h"] == pytest.approx(24 - 1 / 3)
    assert (row["begun_s"], row["empty_s"]) == (DAY, DAY + 1_200)
    assert row["freed_h"] == pytest.approx(24 - 1 / 3)


@pytest.mark.parametrize("planner", ["pdre", "value"])
def test_a_long_migration_is_expected_to_free_what_it_frees(planner: str) -> None:
    # As above, but it takes 4 h: host b is empty from 28 h on, 20 h of the day.
    workload = _workload(ROWS)
    table = sim.simulate(workload, "first-fit", sim.Oracle(workload), migration=sim.Migration(duration_s=4 * HOUR),
                         rectify=sim.Rectify(planner, 1, non_migratable_share=0.0)).migrations
    assert table is not None
    assert table[["expected_h", "freed_h"]].iloc[0].tolist() == pytest.approx([20, 20])


def test_what_comes_to_the_host_is_not_freed() -> None:
    # A request of 8 cores comes to host b at 30 h for 10 h: b is empty from 24 h 20 min to 30 h, and from 40 h to 48 h.
    table = _table(_workload([*ROWS, (30 * HOUR, 40 * HOUR, 8.0, 1.0)], n_hosts=2))
    assert table["freed_h"].iloc[0] == pytest.approx((30 - 24 - 1 / 3) + (48 - 40))
    assert table["expected_h"].iloc[0] == pytest.approx(24 - 1 / 3)  # it did not know


def test_what_ends_soon_after_all_freed_no_more_than_it_would_have_held() -> None:
    # Request 3 is predicted to stay to 300 h and ends at 26 h: without the migration b was empty from then on.
    workload = _workload([*ROWS[:3], (HOUR, 26 * HOUR, 3.0, 1.0)])
    source = sim.Held(workload.request_ids, sim.one_step(np.array([300, 20, 20, 299]) * HOUR))
    assert _table(workload, source)["freed_h"].iloc[0] == pytest.approx(26 - 24 - 1 / 3)


def test_what_the_target_loses_is_taken_off() -> None:
    # Request 0 ends at 30 h though predicted to stay: from then on host a is held by request 3 alone, and would have
    # been empty to 48 h, 18 h.
    workload = _workload([(0, 30 * HOUR, 5.0, 1.0), *ROWS[1:]])
    source = sim.Held(workload.request_ids, sim.one_step(np.array([300, 20, 20, 299]) * HOUR))
    assert _table(workload, source)["freed_h"].iloc[0] == pytest.approx(24 - 1 / 3 - 18)


def test_a_migration_that_is_dropped_never_began(monkeypatch: pytest.MonkeyPatch) -> None:
    from sojourn.simulator.engine import upkeep as rectifying
    from sojourn.simulator.rectification import MigrationGroup

    # Host c is empty, and never a target when the time comes.
    monkeypatch.setattr(rectifying, "RECTIFIERS", {"pdre": lambda view, budget, long_s: [
        MigrationGroup(1, (int(np.flatnonzero(view.host == 1)[0]),), (2,), math.nan)
    ] if (view.host == 1).any() else []})
    workload = _workload(ROWS[:3])
    table = _table(workload, hour=1)
    assert table[["begun_s", "empty_s", "freed_h"]].isna().all(axis=None)
    figures = migration_figures(workload, _result(workload, hour=1))
    assert (figures["n_dropped"], figures["n_freed_host"], figures["n_freed_none"]) == (len(table), 0, 0)


def test_a_migration_that_would_end_after_its_request_frees_both_hosts_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from sojourn.simulator.engine import upkeep as rectifying
    from sojourn.simulator.rectification import MigrationGroup

    # First fit: host a has requests 0 and 1 (4 cores each), host b request 2. It migrates at 2 h, and ends 10 of the 20
    # minutes later, when request 0 alone runs.
    monkeypatch.setattr(rectifying, "RECTIFIERS", {"pdre": lambda view, budget, long_s: [
        MigrationGroup(1, (int(np.flatnonzero(view.host == 1)[0]),), (0,), math.nan)
    ] if (view.host == 1).any() else []})
    workload = _workload([(0, 300 * HOUR, 4.0, 1.0), (0, HOUR, 4.0, 1.0), (0, 2 * HOUR + 600, 4.0, 1.0)], 2)
    found = _result(workload, hour=2)
    assert found.migrations is not None
    assert found.migrations[["request_id", "begun_s", "freed_h"]].to_numpy().tolist() == [[2, 2 * HOUR, 0.0]]
    empty_s = (400 * HOUR - 2 * HOUR - 600) + 100 * HOUR
    assert found.metrics.empty_hosts_pct == pytest.approx(100 * empty_s / (2 * 400 * HOUR))


def test_a_request_that_migrates_twice_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    from sojourn.simulator.engine import upkeep as rectifying
    from sojourn.simulator.rectification import MigrationGroup

    # First fit: 0 and 1 on host a, 2 on b, 3 on c. Request 0 goes from a to b at 21 h, and on to c at 45 h. Host a
    # stays in use, and b would have been empty from 30 h on, when 2 ends: 15 h less. Then b is empty
    # from 45 h 20 min to 69 h.
    rows = [(0, 300 * HOUR, 3.0, 1.0), (0, 300 * HOUR, 5.0, 1.0), (0, 30 * HOUR, 4.0, 1.0), (0, 300 * HOUR, 5.0, 1.0)]
    plans = iter([[MigrationGroup(0, (0,), (1,), math.nan)], [MigrationGroup(1, (0,), (2,), math.nan)]])
    monkeypatch.setattr(rectifying, "RECTIFIERS", {"pdre": lambda view, budget, long_s: next(plans, [])})
    table = _table(_workload(rows), hour=21)
    assert table["begun_s"].tolist() == [21 * HOUR, 45 * HOUR]
    assert table["empty_s"].fillna(-1).tolist() == [-1, 45 * HOUR + 1_200]
    assert table["freed_h"].tolist() == pytest.approx([-15, 24 - 1 / 3])


def test_a_table_without_migrations_can_be_kept() -> None:
    table = _table(_workload(ROWS), long_s=10_000 * HOUR)
    assert len(table) == 0
    assert [str(name) for name, values in migration_arrays(table).items() if values.dtype == object] == []


def test_figures_count_what_was_planned_after_the_warm_up() -> None:
    # 400 h: one migration, planned at 24 h
    workload, later = _workload(ROWS), _workload(ROWS, warmup_s=25 * HOUR)
    figures = migration_figures(workload, _result(workload))
    assert figures["migrations_a_day"] == pytest.approx(24 / 400)
    assert (figures["n_dropped"], figures["n_freed_host"], figures["n_freed_none"]) == (0, 1, 0)
    assert (figures["moved_expected_h"], figures["moved_freed_h"]) == pytest.approx((24 - 1 / 3, 24 - 1 / 3))
    assert migration_figures(later, _result(later))["migrations_a_day"] == 0
    assert migration_figures(workload, sim.simulate(workload, "first-fit")) == {}


def _upkept(rows: list[Any], upkeep: list[Any], n_hosts: int = 3, **rectify: Any) -> pd.DataFrame:
    workload = _workload(rows, n_hosts)
    given = {"non_migratable_share": 0.0, "budget": 1, **rectify}
    result = sim.simulate(workload, "first-fit", sim.Oracle(workload), upkeep=upkeep, rectify=sim.Rectify(**given),
                          is_checked=True)
    assert result.migrations is not None
    assert result.metrics.n_migrations == result.migrations["begun_s"].notna().sum()
    return result.migrations


def test_a_drain_of_an_empty_host_changes_nothing() -> None:
    workload = _workload(ROWS)
    found = _upkept(ROWS, [sim.Drain(2, 398 * HOUR, 399 * HOUR)])
    pd.testing.assert_frame_equal(found, _table(workload))


def test_migrations_of_upkeep_stand_beside_the_rectifiers() -> None:
    # Request 3 goes from b to a at 24 h, as above. Host a is drained from 30 h to 200 h: 0 and 3 go to b, the first
    # that has room. So b is empty from 24 h 20 min to 30 h alone. Request 0 keeps a to 30 h 20 min: a loses nothing.
    found = _upkept(ROWS, [sim.Drain(0, 30 * HOUR, 200 * HOUR)])
    assert found[["planner", "planned_s", "request_id", "from_host", "to_host", "begun_s"]].to_numpy().tolist() == [
        ["pdre", DAY, 3, "b", "a", DAY], ["drain", 30 * HOUR, 0, "a", "b", 30 * HOUR],
        ["drain", 30 * HOUR, 3, "a", "b", 30 * HOUR]]
    assert found["group"].tolist() == [0, -1, -1]
    assert found["freed_h"].iloc[0] == pytest.approx(30 - 24 - 1 / 3)
    only_a_rectifiers = ["n_together", "remaining_s", "chance", "chance_without", "likely_s", "expected_h", "empty_s",
                         "freed_h"]
    assert found.loc[1:, only_a_rectifiers].isna().all(axis=None)
    assert found.loc[0, only_a_rectifiers].notna().all()


def test_a_failed_or_drained_host_is_not_freed() -> None:
    # Host b is empty from 24 h 20 min on. It is drained from 26 h to 28 h and failed from 27 h to 30 h: 4 h less.
    found = _upkept(ROWS, [sim.Drain(1, 26 * HOUR, 28 * HOUR), sim.Failure(1, 27 * HOUR, 3 * HOUR)])
    assert found["freed_h"].tolist() == pytest.approx([24 - 1 / 3 - 4])
    assert found["empty_s"].tolist() == [DAY + 1_200]


def test_what_a_failure_ends_for_good_frees_nothing_from_then_on() -> None:
    # Two hosts. At 40 h host a fails with requests 0 (5 of 8 cores) and 3 (3 cores), and both start again on b. So b is
    # empty to 40 h.
    found = _upkept(ROWS, [sim.Failure(0, 40 * HOUR, HOUR)], n_hosts=2)
    assert found["freed_h"].iloc[0] == pytest.approx(40 - 24 - 1 / 3)
    more = [*ROWS, (39 * HOUR, 39 * HOUR + 1_800, 8.0, 1.0), (39 * HOUR + 3_000, 42 * HOUR, 8.0, 1.0)]
    # Others hold all of b from 39 h to 39 h 30 min and from 39 h 50 min to 42 h, so 0 and 3 are lost at 40 h: what b is
    # empty for from 42 h on was not freed.
    found = _upkept(more, [sim.Failure(0, 40 * HOUR, HOUR)], n_hosts=2)
    assert found["freed_h"].iloc[0] == pytest.approx((39 - 24 - 1 / 3) + 20 / 60)


def test_upkeep_alone_has_its_migrations_and_no_figures() -> None:
    workload = _workload(ROWS)
    drain = sim.Drain(0, 30 * HOUR, 200 * HOUR)
    result = sim.simulate(workload, "first-fit", sim.Oracle(workload), upkeep=[drain])
    assert result.migrations is not None
    # request 3 stays on b, where request 0 comes to
    assert result.migrations[["planner", "request_id", "from_host", "to_host"]].to_numpy().tolist() == [
        ["drain", 0, "a", "b"]]
    assert migration_figures(workload, result) == {}
    rectify = sim.Rectify(budget=1, non_migratable_share=0.0)
    both = sim.simulate(workload, "first-fit", sim.Oracle(workload), upkeep=[drain], rectify=rectify)
    assert migration_figures(workload, both)["n_freed_host"] == 1


def test_more_migrations_than_the_log_holds_are_all_kept() -> None:
    # One request on two hosts, each drained in turn ten times: 20 migrations of 60 s, and the log holds four a request.
    rows = [(0, 300 * HOUR, 8.0, 1.0)]
    drains = [sim.Drain(k % 2, (1 + k) * HOUR, (1 + k) * HOUR + 1_800) for k in range(20)]
    workload = _workload(rows, 2)
    result = sim.simulate(workload, "first-fit", upkeep=drains, migration=sim.Migration("trace", duration_s=60))
    assert result.migrations is not None
    assert result.migrations["begun_s"].tolist() == [(1 + k) * HOUR for k in range(20)]
    assert result.migrations["to_host"].tolist() == ["b", "a"] * 10


def test_an_explained_request_tells_what_its_migration_was_worth() -> None:
    workload = _workload(ROWS)
    rectify = sim.Rectify(budget=1, non_migratable_share=0.0)
    ids = workload.request_ids
    found = sim.explain(workload, "first-fit", sim.Oracle(workload), ids[3], rectify=rectify)
    assert found.host_id == "b"
    assert found.migrations is not None
    assert found.migrations[["from_host", "to_host", "chance"]].to_numpy().tolist() == [["b", "a", 1.0]]
    stays = sim.explain(workload, "first-fit", sim.Oracle(workload), ids[0], rectify=rectify)
    assert stays.migrations is not None
    assert len(stays.migrations) == 0
    assert sim.explain(workload, "first-fit", None, ids[0]).migrations is None
