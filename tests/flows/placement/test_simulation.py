"""From tables to the simulator's curves, the later part of a trace, and replicas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sojourn.features import Roles, Trace
from sojourn.features.creation import build_rows, default_encoder
from sojourn.features.synthetic import synthesize
from sojourn.flows.placement.predictors import TableSource, asked_rows, held_curves
from sojourn.flows.placement.workloads import compare_replicas, later_part, later_workload, replica
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.models.curve_table import HazardTable, OnceTable, PointTable
from sojourn.simulator import Oracle, Workload, build_workload, compare
from sojourn.simulator.workloads.recipes import OPENB_START_S


def _hazard_table() -> HazardTable:
    edges = np.array([0.0, 10.5, 100.5])
    return HazardTable.from_hazards(edges, np.array([[0.1, 0.5], [2.0, 0.1]]), 1_000.0, np.array([0.0, 10.5, 50.0]))


def test_held_exits_are_the_models_own_at_each_sampling_uptime() -> None:
    table = _hazard_table()
    curves = held_curves(table)
    for row in range(2):
        for uptime_s in table.held_uptimes().tolist():
            expected = uptime_s + max(table.remaining(float(uptime_s))[row], 1.0)
            assert curves.total_at(row, uptime_s) >= expected
            if uptime_s == 50:
                assert curves.total_at(row, uptime_s) == expected


def test_a_held_total_reaches_the_next_uptime() -> None:
    # 3 s predicted at 0, asked again at 11 s: held until then
    table = PointTable(np.array([10.0]), np.log10(np.array([[3.0, 7.0]])), 1.0, np.zeros(201))
    curves = held_curves(table)
    assert curves.uptime_s.tolist() == [0, 11]
    assert curves.total_s.tolist() == [11, 18]
    assert curves.overhang_s is None  # two scores are two distributions


def test_held_overhangs_are_what_the_distribution_expects() -> None:
    """E[max(T - u, 0)] = S(u) E[T - u | T > u], against the integral of the survival curve from u on."""
    table = _hazard_table()
    curves = held_curves(table)
    assert curves.overhang_s is not None
    grid = np.arange(0.0, 30_000.0)
    survival = np.array([table.survival(float(time_s), 0.0) for time_s in grid])
    for row in range(2):
        first = curves.offsets[row]
        for k, uptime_s in enumerate(table.held_uptimes().tolist()):
            integral = np.trapezoid(survival[grid >= uptime_s, row])
            assert curves.overhang_s[first + k] == pytest.approx(integral, abs=2.0)


def test_a_one_shot_total_has_one_step() -> None:
    curves = held_curves(OnceTable(np.log10([100.0]), 1.0, np.zeros(201)))
    assert curves.total_s.tolist() == [100]
    assert curves.total_at(0, 100) == 200


def test_a_request_without_prediction_is_named() -> None:
    source = TableSource(_hazard_table(), pd.Series(["a", "b"]))
    with pytest.raises(ValueError, match="prediction: request_id must be known, got 'c'"):
        source.curves(pd.DataFrame({"request_id": ["a", "c"]}))


def test_the_later_part_keeps_ages_and_drops_what_ended() -> None:
    table = pd.DataFrame({"request_id": [1, 2, 3], "arrival_s": [0, 10, 80], "departure_s": [20, 90, None],
                          "cpu_cores": 1.0, "mem_gib": 1.0})
    part = later_part(Trace(table, 100), 50)
    assert part.requests["request_id"].tolist() == [2, 3]
    assert part.requests["arrival_s"].tolist() == [-40, 30]
    assert part.requests["departure_s"].tolist() == [40, pd.NA]
    assert part.horizon_s == 50


def test_the_workload_holds_nothing_that_arrived_before_but_what_still_runs() -> None:
    trace = synthesize(2_000, seed=0)
    from_s = trace.horizon_s // 2
    workload = later_workload("synthetic", RetrainConfig(), trace, from_s)
    start = workload.trace.start_s()
    end = workload.trace.end_s()
    assert (end[start < 0] > 0).all()
    rows = build_rows(trace, default_encoder(trace))
    asked = asked_rows(workload, trace, rows)
    assert set(asked.request_ids) == set(workload.trace.requests["request_id"])
    # the features are those of the whole trace's replay: history from before the cut is in them
    np.testing.assert_array_equal(asked.rows.features, rows.features[asked.rows.idx_row])
    ids = trace.requests["request_id"].iloc[rows.idx_request[asked.rows.idx_row[asked.idx]]]
    assert ids.tolist() == asked.request_ids.tolist()


def test_copies_of_a_recipe_have_the_row_of_their_original() -> None:
    # a history replayed over the copies would see each pod's near-copies end before it
    table = pd.DataFrame({"request_id": ["a", "b#1"], "arrival_s": [OPENB_START_S + 5, OPENB_START_S + 50],
                          "departure_s": [OPENB_START_S + 40, OPENB_START_S + 90], "cpu_cores": [1.0, 2.0],
                          "mem_gib": 1.0, "user": "u"})
    trace = Trace(table, OPENB_START_S + 100, Roles(owners=("user",)))
    rows = build_rows(trace, default_encoder(trace))
    workload = build_workload("openb", trace, n_copies=2, n_laps=2)
    asked = asked_rows(workload, trace, rows)
    assert len(asked.request_ids) == len(asked.idx) == len(workload.trace) == 8
    np.testing.assert_array_equal(asked.rows.features, rows.features)  # each once: two, for eight requests
    assert asked.idx.tolist() == [0 if name.startswith("a#") else 1 for name in asked.request_ids]


def test_replicas_move_a_little_and_the_first_not_at_all() -> None:
    workload = build_workload("synthetic", synthesize(1_500, seed=0))
    assert replica(workload, 0) is workload
    moved = replica(workload, 1)
    assert len(moved.trace) == len(workload.trace)
    before = pd.Series(workload.trace.start_s(), workload.trace.requests["request_id"])
    after = pd.Series(moved.trace.start_s(), moved.trace.requests["request_id"])
    shift = (after - before).abs()
    assert 0 < shift.max() <= 300
    total = pd.Series(moved.total_s, moved.trace.requests["request_id"]) / pd.Series(
        workload.total_s, workload.trace.requests["request_id"])
    assert total[total.index[workload.total_s > 1_000]].between(0.97, 1.03).all()
    pd.testing.assert_frame_equal(moved.trace.requests, replica(workload, 1).trace.requests)


def test_what_runs_on_at_the_horizon_does_so_in_every_replica() -> None:
    # 100,000 s to the horizon at 100,000, and 1 s more: a stretch below 1 alone would end half of them before it
    table = pd.DataFrame({"request_id": range(40), "arrival_s": [0, -5_000, 50_000, 99_990] * 10,
                          "departure_s": pd.array([None] * 36 + [10, 60_000, 60_000, 99_999], "Int64"),
                          "cpu_cores": 1.0, "mem_gib": 1.0})
    trace = Trace(table, 100_000)
    hosts = pd.DataFrame({"host_id": range(10), "cpu_cores": 4.0, "mem_gib": 4.0})
    workload = Workload("trace", trace, hosts, np.where(trace.is_event(), trace.lifetime_s(),
                                                        100_001 - trace.start_s()))
    for seed in range(1, 6):
        moved = replica(workload, seed)
        ids = moved.trace.requests["request_id"].to_numpy()
        is_censored = np.isin(ids, workload.trace.requests["request_id"][~workload.trace.is_event()])
        assert is_censored.sum() == 36
        assert (moved.departure_s[is_censored] > 100_000).all()
        assert not moved.trace.is_event()[is_censored].any()


def test_usage_moves_with_its_requests() -> None:
    table = pd.DataFrame({"request_id": ["a", "b", "c"], "arrival_s": [0, 2_000, 4_000],
                          "departure_s": [1_000, 9_000, 8_000], "cpu_cores": 1.0, "mem_gib": 1.0})
    usage = pd.DataFrame({"request_id": ["a", "b", "b", "c"], "time_s": [500, 2_500, 6_000, 4_500], "cpu_frac": 0.5})
    trace = Trace(table, 10_000, usage=usage)
    later = later_part(trace, 3_000).usage
    assert later is not None
    assert later[["request_id", "time_s"]].to_numpy().tolist() == [["b", -500], ["b", 3_000], ["c", 1_500]]
    moved = replica(build_workload("trace", trace, cpu_cores=8, mem_gib=8), 1).trace
    assert moved.usage is not None
    start_s = moved.requests.set_index("request_id")["arrival_s"]
    shift_s = {name: int(start_s[name]) - before for name, before in (("a", 0), ("b", 2_000), ("c", 4_000))}
    assert shift_s["a"] == 0  # it ran at 0
    assert shift_s["b"] != shift_s["c"] != 0
    assert moved.usage["time_s"].tolist() == [500, 2_500 + shift_s["b"], 6_000 + shift_s["b"], 4_500 + shift_s["c"]]


def test_gains_are_paired_within_replicas() -> None:
    workload = build_workload("synthetic", synthesize(1_500, seed=0))
    found = compare_replicas(workload, lambda moved: [("nilas", "oracle", Oracle(moved)), ("first-fit", "", None)], 3)
    assert found.gain_pp.shape == (3, 3)
    assert (found.gain_pp[:, 0] == 0.0).all()  # best-fit against itself
    gains = found.gain_pp[:, 1]
    # t quantile for 2 degrees of freedom: 4.303
    half = 4.302653 * gains.std(ddof=1) / np.sqrt(3)
    row = found.table.loc["nilas (oracle)"]
    assert row["gain_pp"] == pytest.approx(gains.mean())
    assert row["gain_high_pp"] == pytest.approx(gains.mean() + half, abs=1e-5)
    replicas = [compare(replica(workload, seed), []) for seed in range(3)]
    gaps = [one.bound_empty_hosts_pct - one.table["empty_hosts_pct"].iloc[0] for one in replicas]
    assert row["gap_closed_pct"] == pytest.approx(100.0 * gains.mean() / np.mean(gaps))  # not the mean of ratios
    mean, low, high = found.difference("nilas (oracle)", "best-fit")
    assert (mean, low, high) == pytest.approx((row["gain_pp"], row["gain_low_pp"], row["gain_high_pp"]))


def test_replicas_in_threads_are_those_of_one() -> None:
    workload = build_workload("synthetic", synthesize(1_500, seed=0))
    one, three = (compare_replicas(workload, lambda moved: [("nilas", "oracle", Oracle(moved))], 4, n_threads=n_threads)
                  for n_threads in (1, 3))
    np.testing.assert_array_equal(one.gain_pp, three.gain_pp)
    timed = ["decision_us", "events_per_s"]
    pd.testing.assert_frame_equal(one.table.drop(columns=timed), three.table.drop(columns=timed))
