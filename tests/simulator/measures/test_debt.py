"""Placement debt worked out by hand: density of long requests, stranded hosts by each reading, sensitivity, owners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest

import sojourn.simulator as sim
from sojourn.features import Roles
from sojourn.simulator.measures import Debt, debt
from sojourn.simulator.workloads import long_lived, owner_numbers

DAY_S = 86_400
Rows = list[tuple[float, float, float]]


def workload_of(rows: Rows, days: float, n_hosts: int, owners: list[str] | None = None, role: str = "user",
                warmup_s: int = 0, capacity: Sequence[float] = ()) -> sim.Workload:
    """Requests of (arrival, departure, cores), in days; hosts of 8 cores, or of `capacity`. Memory never decides."""
    horizon_s = int(days * DAY_S)
    departure_s = pd.Series([int(d * DAY_S) for _, d, _ in rows], dtype="Int64")
    arrival_s = pd.Series([int(a * DAY_S) for a, _, _ in rows])
    table = pd.DataFrame({"request_id": range(len(rows)), "arrival_s": arrival_s,
                          "departure_s": departure_s.mask(departure_s > horizon_s),
                          "cpu_cores": [c for _, _, c in rows], "mem_gib": 1.0})
    roles = Roles() if owners is None else Roles(owners=(role,))
    if owners is not None:
        table[role] = owners
    cores = list(capacity) or [8.0] * n_hosts
    hosts = pd.DataFrame({"host_id": range(n_hosts), "cpu_cores": cores, "mem_gib": 64.0})
    return sim.Workload("trace", sim.Trace(table, horizon_s, roles), hosts,
                        (departure_s - arrival_s).to_numpy(np.int64), warmup_s)


def debt_of(workload: sim.Workload) -> Debt:
    return debt(workload, sim.simulate(workload))


def test_one_stranded_host_by_each_reading() -> None:
    # Host 0: 3 of 8 cores long, and 2 short ones beside it: 5 in use. Stranded by the long share only.
    # Host 1: 7 long cores. Host 2: empty. Nothing else runs for the second half of the day.
    rows = [(0.0, 9.0, 3.0), (0.0, 0.9, 2.0), (0.0, 9.0, 7.0)]
    found = debt_of(workload_of(rows, 0.5, 3))
    assert found.long_lived_h == 24
    assert found.stranded_hosts_pct == 50.0
    assert found.stranded_hosts_whole_pct == 0.0
    assert found.single_long_hosts_pct == 100.0
    assert found.long_packing_density_pct == pytest.approx(100 * 10 / 16)
    # without the short one host 0 has 3 of 8 cores in use: stranded either way
    alone = debt_of(workload_of([rows[0], rows[2]], 0.5, 3))
    assert (alone.stranded_hosts_pct, alone.stranded_hosts_whole_pct) == (50.0, 50.0)


def test_no_long_debt_at_the_density_of_the_bound() -> None:
    # 12 long cores on two hosts, and the bound needs two as well: density 12 / 16 for both.
    at_target = debt_of(workload_of([(0.0, 9.0, 5.0), (0.0, 9.0, 7.0)], 0.5, 4))
    assert at_target.bound_packing_density_pct == at_target.long_packing_density_pct == 75.0
    assert at_target.long_debt_hosts == 0.0
    # three hosts with 5 long cores each: density 15 / 24; the bound's two hosts reach 15 / 16. 3 x (1 - 2 / 3) = 1.
    apart = debt_of(workload_of([(0.0, 9.0, 5.0)] * 3, 0.5, 4))
    assert apart.long_debt_hosts == pytest.approx(1.0)
    assert (apart.host_h, apart.bound_host_h) == (3 * 12.0, 2 * 12.0)


def test_a_request_is_long_by_its_remaining_time() -> None:
    # 1.5 days long: long until 0.5 d, so over the 96 samples of a day's replay half of the time.
    found = debt_of(workload_of([(0.0, 1.5, 4.0), (0.0, 0.5, 1.0)], 1.0, 2))
    assert found.single_long_hosts_pct == pytest.approx(50.0, abs=1.1)
    assert found.long_lived_core_hours_pct == pytest.approx(100 * 4 / 4.5)


def test_hosts_that_differ_are_measured_against_90_pct() -> None:
    found = debt_of(workload_of([(0.0, 9.0, 4.5)], 1.0, 2, capacity=(10.0, 20.0)))
    # one host of 10 cores with 4.5 of them long: 1 x (1 - 0.45 / 0.9)
    assert found.long_debt_hosts == pytest.approx(0.5)
    assert np.isnan(found.bound_packing_density_pct)


def test_sensitivity_of_a_fall() -> None:
    # One of two hosts is in use: 6 cores for good, 1 core until day 20, and 1 core for a day at a time until day 13.
    # Long is a week. On day 13 the second is no longer long: the share falls from 7 / 16 to 6 / 16, and the density
    # from 8 / 8 to 7 / 8, as the third is gone: 0.125 / 0.0625. On day 20 the density falls again, but no share.
    rows = [(0.0, 99.0, 6.0), (0.0, 20.0, 1.0), *((float(day), day + 1.0, 1.0) for day in range(13))]
    found = debt_of(workload_of(sorted(rows), 40.0, 2))
    assert found.density_sensitivity_pct == pytest.approx(200.0)
    assert found.density_sensitivity_mean_pct == pytest.approx(200.0)
    # of 16 hosts: a fall of less than 1 pp is none
    assert np.isnan(debt_of(workload_of(sorted(rows), 40.0, 16)).density_sensitivity_pct)


def test_no_long_request_no_debt() -> None:
    found = debt_of(workload_of([(0.0, 0.2, 4.0)], 1.0, 2))
    assert found.long_debt_hosts == 0.0 and found.stranded_hosts_pct == 0.0
    assert np.isnan(found.long_packing_density_pct)


def test_the_longest_threshold_with_90_pct_of_core_hours() -> None:
    assert long_lived(workload_of([(0.0, 40.0, 8.0), (0.0, 1.0, 1.0)], 50.0, 2)).threshold_s == 30 * DAY_S
    week = long_lived(workload_of([(0.0, 8.0, 8.0), (0.0, 1.0, 1.0)], 50.0, 2))
    assert week.threshold_s == 7 * DAY_S and week.core_hours_pct == pytest.approx(100 * 64 / 65)
    assert long_lived(workload_of([(0.0, 0.5, 8.0)], 50.0, 2)).core_hours_pct == 0.0


def test_requests_of_one_owner_on_one_host_are_exposed_from_the_third_on() -> None:
    rows = [(0.0, 9.0, 2.0)] * 7  # four on host 0, three on host 1
    found = debt_of(workload_of(rows, 1.0, 2, list("aaabaab")))
    assert found.exposed_requests_pct == pytest.approx(100 * 3 / 7)  # a, a, a on host 0; a, a, b on host 1
    assert np.isnan(debt_of(workload_of(rows, 1.0, 2)).exposed_requests_pct)
    assert owner_numbers(workload_of(rows, 1.0, 2, list("aaabaab"), "shape")).tolist() == [-1] * 7


def test_debt_is_in_every_comparison_and_of_the_warmed_up_part() -> None:
    # before the warm-up's end (12 h) a stranded host, after it none
    workload = workload_of([(0.0, 0.4, 1.0), (0.0, 9.0, 8.0)], 1.0, 2, warmup_s=DAY_S // 2)
    table = sim.compare(workload, []).table
    assert asdict(debt_of(workload)).keys() <= set(table.columns)
    assert table["stranded_hosts_whole_pct"].tolist() == [0.0]


def test_a_result_of_another_workload_is_refused() -> None:
    one, other = workload_of([(0.0, 1.0, 2.0)], 1.0, 2), workload_of([(0.0, 1.0, 2.0)], 1.0, 3)
    with pytest.raises(ValueError, match="result must be of this workload"):
        debt(one, sim.simulate(other))
