"""Mixes of services and batch requests: what is made, what is read, and that needs do not see the future."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sojourn.features import Roles, Trace
from sojourn.features.usage import UsageGrid
from sojourn.serving.usage import DayClock
from sojourn.simulator.mixed import BatchRequests, MixedWorkload, Services
from studies.mixes import GangParameters, MixParameters, class_needs, fixed_pool, made_mix, real_mix

DAY = 96


def test_the_made_mix_has_the_shape_of_the_papers_trace() -> None:
    mix = made_mix(np.random.default_rng(0), MixParameters(n_services=200, n_batch=20_000))
    services, batch = mix.services, mix.batch
    stays = services.first == 0
    share = (services.used / services.reserved[:, None, :])[stays].mean(axis=(0, 1))
    assert share[0] == pytest.approx(0.095, abs=0.02)  # 9.5 % of the CPU and 80.6 % of the memory
    assert share[1] == pytest.approx(0.806, abs=0.03)
    assert 0.2 < 1 - stays.mean() < 0.4
    late = np.flatnonzero(~stays)[0]
    assert not services.used[late, :services.first[late]].any() and services.used[late, services.first[late]].all()
    assert (batch.used[:, 0] > batch.requested[:, 0]).mean() > 0.6  # most use more than they asked for
    hour = batch.arrival_ms // 3_600_000
    is_night = (hour % 24 >= 21) | (hour % 24 < 9)
    assert 1.7 < is_night.mean() / (1 - is_night.mean()) < 2.3
    assert (hour >= 7 * 24).mean() < 0.02  # almost none on the last day


def test_the_same_seed_makes_the_same_mix() -> None:
    first, second = (made_mix(np.random.default_rng(3), MixParameters(n_services=5, n_batch=50)) for _ in range(2))
    assert first.services.used.tobytes() == second.services.used.tobytes()
    assert first.batch.peak.tobytes() == second.batch.peak.tobytes()


def grid(cpu: np.ndarray, mem: np.ndarray | None, cores: list[float], gib: list[float]) -> UsageGrid:
    return UsageGrid(np.arange(len(cpu)), cpu.astype(np.float32), None if mem is None else mem.astype(np.float32),
                     np.array(cores), np.array(gib), 0, 900, DayClock())


def tasks(rows: list[tuple[str, int, int | None, float, float, float]]) -> Trace:
    """Name, arrival, departure, cores, share of a machine's memory and instances."""
    name, arrival, departure, cores, mem, instances = zip(*rows, strict=True)
    table = pd.DataFrame({
        "request_id": [f"j/{k}" for k in range(len(rows))], "arrival_s": pd.array(arrival, "Int64"),
        "departure_s": pd.array(departure, "Int64"), "cpu_cores": np.array(cores), "mem_gib": np.array(mem),
        "n_instances": np.array(instances), "task_name": pd.Series(name, dtype="category")})
    return Trace(table, 10**6, Roles(owners=("task_name",), numbers=("n_instances",)))


def test_services_and_requests_of_real_parts() -> None:
    cpu = np.full((4, DAY), 0.25)
    cpu[1, :10], cpu[1, 90:] = np.nan, np.nan
    cpu[2] = np.nan  # no sample: left out; the last has more memory than the default machine: left out
    made = real_mix([grid(cpu, np.full((4, DAY), 0.5), [4, 2, 2, 2], [8, 4, 4, 400])],
                    tasks([("M1", 100, 130, 1.0, 0.5, 25), ("M1", 50, 60, 20.0, 1.0, 1), ("R2", 60, None, 1, 1, 1)]),
                    np.random.default_rng(0))
    services, batch = made.services, made.batch
    assert services.reserved.tolist() == [[4000, 8192], [2000, 4096]]
    assert services.used[0, 0].tolist() == [1000, 4096]
    assert (services.first.tolist(), services.last.tolist()) == ([0, 10], [DAY, 90])
    assert "2 services (2 left out)" in made.description
    # in the order of arrival: one of 20 cores; 25 instances of 1 core and .5 % of 384 GiB in gangs of 10, 10 and 5
    assert batch.arrival_ms.tolist() == [50_000, 100_000, 100_000, 100_000]
    assert batch.requested[:, 0].tolist() == [20_000, 10_000, 10_000, 5_000]
    assert batch.requested[1].tolist() == [10_000, round(0.005 * 384 * 10 * 1024)]
    # the first run of M1 ended at 60 s after 10 s; the first has no run before it: an hour
    assert batch.longest_ms.tolist() == [3_600_000, 10_000, 10_000, 10_000]
    assert (batch.peak >= batch.used).all()


def test_a_task_holds_at_most_so_many_instances_at_once() -> None:
    one = [grid(np.full((1, DAY), 0.2), np.full((1, DAY), 0.2), [1.0], [1.0])]
    many = tasks([("M1", 0, 9, 1.0, 0.1, 5000)])
    assert len(real_mix(one, many, np.random.default_rng(0)).batch) == 10
    assert len(real_mix(one, many, np.random.default_rng(0), GangParameters(most_instances=35)).batch) == 4


@pytest.mark.parametrize("bad", [
    [], [grid(np.zeros((1, DAY)), None, [1.0], [1.0])],
    [grid(np.zeros((1, n)), np.zeros((1, n)), [1.0], [1.0]) for n in (DAY, 5)],
])
def test_grids_that_are_refused(bad: list[UsageGrid]) -> None:
    with pytest.raises(ValueError, match="grids must be one or more of 900 s steps with memory and of one length"):
        real_mix(bad, tasks([("M1", 0, 9, 1.0, 1.0, 1)]), np.random.default_rng(0))


def test_no_request_within_the_time_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a mix must .*, got 1 and 0"):
        real_mix([grid(np.zeros((1, DAY)), np.zeros((1, DAY)), [1.0], [1.0])],
                 tasks([("M1", 86_400, 86_500, 1.0, 1.0, 1)]), np.random.default_rng(0))


@pytest.mark.slow
def test_class_needs_do_not_see_the_future() -> None:
    mix = made_mix(np.random.default_rng(0), MixParameters(n_services=12, n_batch=5, n_days=3, late_share=0.0))
    used = mix.services.used.copy()
    changed_from = 2 * DAY + 30
    used[:, changed_from:] = mix.services.reserved[:, None, :]
    changed = replace(mix, services=replace(mix.services, used=used))
    first, second = (class_needs(each, n_classes=4, observed_s=43_200, rule="class") for each in (mix, changed))
    np.testing.assert_array_equal(first[:, :changed_from + 1], second[:, :changed_from + 1])
    assert np.nanmax(np.abs(first - second)) > 0
    assert np.isnan(first[:, :DAY]).all() and not np.isnan(first[:, DAY:]).any()


def test_a_fixed_pool_holds_the_services_by_first_fit_and_the_load_below_the_threshold() -> None:
    def mix(n_services: int, cores: int, n_batch: int) -> MixedWorkload:
        services = Services(np.full((n_services, 2), [cores * 1000, 1024]), np.zeros((n_services, 4, 2), np.int64),
                            np.zeros(n_services, np.int64), np.full(n_services, 4), np.full(n_services, -1))
        zeros = np.zeros(n_batch, np.int64)
        asked = np.full((n_batch, 2), [96_000, 0])
        return MixedWorkload(services, BatchRequests(zeros, zeros + 3_600_000, asked, asked, asked, zeros, zeros,
                                                     zeros - 1), 900, "made")

    assert fixed_pool(mix(3, 50, 0)) == 3  # two of 50 cores do not fit on 96
    assert fixed_pool(mix(4, 48, 0)) == 2
    assert fixed_pool(mix(1, 1, 10)) == 5  # .38 * 10 machines' cores / .8 = 4.75
