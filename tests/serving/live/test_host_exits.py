"""Host exits against a twin that walks every curve anew, under random comings and goings; golden times; refusals."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_exits
from made_bundles import Made
from made_curves import OtherCurve, curves, vm_of
from sojourn.flows.placement.predictors import held_curves
from sojourn.models.bundle_writer import table_of
from sojourn.serving import HostExits, Lifetime, load_bundle
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.curves import HazardCurve, LifetimeCurve, PointCurve
from sojourn.serving.curves.curve import OnceCurve

PATHS = pytest.mark.parametrize("is_compiled", [True, False], ids=["numba", "numpy"])
N_HOSTS = 3
# 150 s up to 60 s, 1,500 up to 100.5, then 4,743: exits at 150, at 61 + 1,500 = 1,561 and at 101 + 4,743 = 4,844
POINT = PointCurve.from_scores((60.0, 100.5), (2.0, 3.0, 3.5), 1.5, (-0.1, 0.0, 0.1))
ONCE = OnceCurve.from_score(2.0, 1.0, (-0.1, 0.0, 0.1))


@PATHS
@given(pool=st.lists(curves, min_size=1, max_size=5), seed=st.integers(0, 2**32), n_steps=st.integers(1, 60))
@settings(deadline=None, max_examples=60)
def test_exits_are_those_of_the_twin(is_compiled: bool, pool: list[LifetimeCurve], seed: int, n_steps: int) -> None:
    rng = np.random.default_rng(seed)
    exits, hosts = HostExits(N_HOSTS, is_compiled=is_compiled), [list[Lifetime]() for _ in range(N_HOSTS)]
    now_s = int(rng.integers(0, 10**8))
    for _ in range(n_steps):
        is_set_back = now_s > 0 and rng.random() < 0.2
        now_s = int(rng.integers(now_s)) if is_set_back else now_s + int(10.0 ** rng.uniform(0.0, 6.5)) - 1
        for _ in range(int(rng.integers(0, 4))):
            host = int(rng.integers(N_HOSTS))
            if hosts[host] and rng.random() < 0.45:
                exits.leave(hosts[host].pop(int(rng.integers(len(hosts[host])))))
            else:
                age_s = int(10.0 ** rng.uniform(0.0, 6.0)) - 1
                vm = vm_of(pool[int(rng.integers(len(pool)))], now_s - age_s)
                exits.place(host, vm)
                hosts[host].append(vm)
        assert len(exits) == sum(map(len, hosts))
        assert exits.at(now_s).tolist() == naive_exits.host_exits(hosts, now_s)


@PATHS
def test_both_paths_know_the_same_of_crowded_hosts(made: Made, is_compiled: bool) -> None:
    """More requests on a host than it had room for at first, of models of every kind, through all their changes."""
    vms = []
    for kind in ("hazard", "hazard-limit", "uptime", "once"):
        bundle = load_bundle(made.folders[kind])
        builder = CurveBuilder(bundle.schema, bundle.model)
        vms += [vm_of(builder.curve(row), 7 * idx) for idx, row in enumerate(made.rows.features[:30].tolist())]
    exits, hosts = HostExits(N_HOSTS, is_compiled=is_compiled), [list[Lifetime]() for _ in range(N_HOSTS)]
    for idx, vm in enumerate(vms):
        exits.place(idx % 7 % N_HOSTS, vm)
        hosts[idx % 7 % N_HOSTS].append(vm)
    for now_s in (210, 211, 300, 1_000, 5_000, 20_000, 100_000, 10**6, 10**7):
        assert exits.at(now_s).tolist() == naive_exits.host_exits(hosts, now_s)


def test_hosts_of_many_blocks_are_looked_at_where_one_is_due() -> None:
    """300 hosts are three blocks: each block's time bounds those of its hosts, and the exits are the twin's."""
    n_hosts, rng = 300, np.random.default_rng(5)
    exits, hosts = HostExits(n_hosts), [list[Lifetime]() for _ in range(n_hosts)]
    now_s = 0
    for _ in range(300):
        now_s += int(rng.integers(0, 40))
        host = int(rng.choice([0, 127, 128, 255, 256, 299, int(rng.integers(n_hosts))]))
        if hosts[host] and rng.random() < 0.4:
            exits.leave(hosts[host].pop())
        else:
            hosts[host].append(vm_of((POINT, ONCE)[int(rng.integers(2))], now_s))
            exits.place(host, hosts[host][-1])
        assert exits.at(now_s).tolist() == naive_exits.host_exits(hosts, now_s)
        known = exits._hosts
        assert all(known.soon_s[host // 128] <= due_s for host, due_s in enumerate(known.due_s.tolist()))
    assert len(known.soon_s) == 3


def test_arrays_that_were_replaced_are_neither_read_nor_written() -> None:
    """Rows, members, changes and widths grow; what was replaced is overwritten at once, and must stay as it is then."""
    exits, hosts, replaced = HostExits(N_HOSTS), [list[Lifetime]() for _ in range(N_HOSTS)], list[np.ndarray]()
    for idx in range(200):
        now_s, vm, before = 20 * idx, vm_of((ONCE, POINT)[idx >= 50], 20 * idx), exits._hosts
        exits.place(idx % 7 % N_HOSTS, vm)
        hosts[idx % 7 % N_HOSTS].append(vm)
        for array, kept in zip(before, exits._hosts, strict=True):
            if array is not kept:
                array.fill(77)
                replaced.append(array)
        assert exits._places[:, 0].tolist() == [array.ctypes.data for array in exits._hosts]
        assert exits.at(now_s).tolist() == naive_exits.host_exits(hosts, now_s)
        if idx % 3 == 0:
            exits.leave(hosts[idx % 7 % N_HOSTS].pop(0))
            assert exits.at(now_s).tolist() == naive_exits.host_exits(hosts, now_s)
    assert len(replaced) > 8
    assert all((array == 77).all() for array in replaced)


@PATHS
def test_a_copy_has_arrays_of_its_own(is_compiled: bool) -> None:
    exits, vm = HostExits(2, is_compiled=is_compiled), vm_of(ONCE)
    exits.place(0, vm)
    assert exits.at(10).tolist() == [100.0, 10.0]
    other, of_other = copy.deepcopy((exits, vm))
    other.leave(of_other)
    other.place(1, vm_of(POINT, 5))
    assert other.at(20).tolist() == [20.0, 155.0]
    assert exits.at(20).tolist() == [100.0, 20.0]


@PATHS
def test_golden_exits(is_compiled: bool) -> None:
    exits = HostExits(2, is_compiled=is_compiled)
    point, once = vm_of(POINT, 1_000), vm_of(ONCE, 1_020)
    exits.place(0, point)
    assert exits.at(1_020).tolist() == [1_150.0, 1_020.0]
    exits.place(0, once)
    assert exits.at(1_060).tolist() == [1_150.0, 1_060.0]
    assert exits.at(1_061).tolist() == [2_561.0, 1_061.0]
    exits.leave(point)
    assert exits.at(1_119).tolist() == [1_120.0, 1_119.0]
    assert exits.at(1_120).tolist() == [1_220.0, 1_120.0]  # 100 s outlived: 200
    exits.leave(once)
    assert exits.at(1_120).tolist() == [1_120.0, 1_120.0]


@PATHS
def test_a_request_that_takes_the_place_of_one_that_left_keeps_its_own_times(is_compiled: bool) -> None:
    """Totals of 989, 1,000 and 100 s; the last doubles to 200, 400, 800 and, at 800 s, to 1,600, before 989 s."""
    exits = HostExits(1, is_compiled=is_compiled)
    vms = [vm_of(OnceCurve.from_score(score, 1.0, (-0.1, 0.0, 0.1)), 0) for score in (2.995, 3.0, 2.0)]
    for vm in vms:
        exits.place(0, vm)
    assert exits.at(0).tolist() == [1_000.0]
    exits.leave(vms[0])
    assert exits.at(900).tolist() == [1_600.0]


@PATHS
def test_an_exit_to_come_is_known_before_the_arrival(is_compiled: bool) -> None:
    exits = HostExits(1, is_compiled=is_compiled)
    exits.place(0, vm_of(POINT, 500))
    assert exits.at(100).tolist() == [650.0]
    assert exits.at(560).tolist() == [650.0]
    assert exits.at(561).tolist() == [500.0 + 1_561.0]


@PATHS
def test_a_clock_that_was_ahead_once_leaves_nothing_behind(is_compiled: bool) -> None:
    exits = HostExits(2, is_compiled=is_compiled)
    exits.place(0, vm_of(POINT))
    assert exits.at(10).tolist() == [150.0, 10.0]
    # 1 h ahead for one question: the point curve's last total, 4,743 s from uptime 101 on, holds then
    assert exits.at(3_610).tolist() == [101.0 + 4_743.0, 3_610.0]
    assert exits.at(11).tolist() == [150.0, 11.0]
    exits.place(1, vm_of(ONCE, 11))
    assert exits.at(12).tolist() == [150.0, 111.0]


@PATHS
def test_a_request_that_waited_runs_from_its_start(is_compiled: bool) -> None:
    exits = HostExits(1, is_compiled=is_compiled)
    exits.place(0, vm_of(ONCE, 0), arrival_s=1_000)
    assert exits.at(1_050).tolist() == [1_100.0]


@PATHS
def test_hosts_are_looked_at_only_when_due(is_compiled: bool) -> None:
    """A request that is asked again every second does not make its host due while its exit stays below the host's."""
    exits = HostExits(1, is_compiled=is_compiled)
    grid = tuple(np.arange(100.0).tolist())
    exits.place(0, vm_of(HazardCurve.from_hazards((0.0, 100.0), (5.0,), 20.0, grid)))
    exits.place(0, vm_of(OnceCurve.from_score(6.0, 1.0, (-0.1, 0.1))))
    exits.at(1)
    assert exits._hosts.due_s.tolist() == [119.0]  # last asked at 99, 20 s left; outlived then


@pytest.mark.parametrize("kind", ["uptime", "once"])
def test_held_exits_are_the_simulators(made: Made, kind: str) -> None:
    bundle = load_bundle(made.folders[kind])
    builder = CurveBuilder(bundle.schema, bundle.model)
    features = made.rows.features[:12]
    held = held_curves(table_of(bundle.schema, builder.forest, features))
    exits = HostExits(len(features))
    for host, row in enumerate(features.tolist()):
        exits.place(host, vm_of(builder.curve(row)))
    for now_s in (0, 1, 59, 60, 61, 3_599, 3_600, 86_400, 10**6, 10**7):
        assert exits.at(now_s).tolist() == [held.total_at(row, now_s) for row in range(len(features))]


def test_refusals_name_what_is_wrong() -> None:
    exits = HostExits(2)
    vm = vm_of(ONCE)
    bad: Any
    for bad in (-1, 2, 10**30, 0.0, None):
        with pytest.raises(ValueError, match=rf"host must be in 0..1, got {bad}"):
            exits.place(bad, vm)
    with pytest.raises(ValueError, match="vm must be on a host, got one that is on none"):
        exits.leave(vm)
    exits.place(1, vm)
    with pytest.raises(ValueError, match="vm must be on no host yet, got one on host 1"):
        exits.place(0, vm)
    for bad_s in (float("nan"), "11", None):
        with pytest.raises(ValueError, match="now_s must be seconds or a datetime with a time zone, got"):
            exits.at(bad_s)  # type: ignore[arg-type]
    for n_hosts in (0, -1, 2.0):
        with pytest.raises(ValueError, match=f"n_hosts must be a whole number >= 1, got {n_hosts}"):
            HostExits(n_hosts)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"curve must .*, got OtherCurve"):
        exits.place(0, vm_of(OtherCurve()))
    assert len(exits) == 1
