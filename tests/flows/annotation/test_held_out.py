"""Coverage on held-out requests: what decides it, and what must not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from learnt_bundle import Learnt
from sojourn.features import Trace
from sojourn.flows.annotation.annotate import CONSUMERS
from sojourn.flows.annotation.bounds import CoverageReport, Replayed, corrected_report, coverage_report, running_bounds
from sojourn.models.measures import Coverage
from sojourn.serving import load_bundle
from sojourn.serving.answers import CurveBuilder


def _replayed(learnt: Learnt, requests: pd.DataFrame | None = None) -> Replayed:
    trace = learnt.trace
    if requests is not None:
        trace = Trace(requests, trace.horizon_s, trace.roles, meta=trace.meta)
    return Replayed.of(load_bundle(learnt.folder), trace)


@pytest.fixture(scope="module")
def replayed(learnt: Learnt) -> Replayed:
    return _replayed(learnt)


def test_a_bound_is_the_quantile_given_the_age(learnt: Learnt, replayed: Replayed) -> None:
    bounds = running_bounds(replayed, 0.9, 0.9)
    assert len(bounds) == int((~learnt.rows.is_event).sum()) > 3
    assert [each.request_id for each in bounds] == learnt.trace.requests["request_id"][
        learnt.trace.requests["departure_s"].isna() & learnt.trace.requests["arrival_s"].notna()].astype(str).tolist()
    builder = CurveBuilder(replayed.bundle.schema, replayed.bundle.model)
    ids = learnt.trace.requests["request_id"].astype(str).to_numpy()[learnt.rows.idx_request]
    for each in bounds[:5]:
        row = int(np.flatnonzero(ids == each.request_id)[0])
        curve = builder.curve(learnt.rows.features[row].tolist())
        assert each.uptime_s == learnt.trace.horizon_s - learnt.rows.arrival_s[row]
        assert each.remaining_s == max(curve.quantile(0.9, each.uptime_s), 1)
        assert each.end_unix_s == learnt.rows.arrival_s[row] + each.total_s


def test_a_pod_is_named_by_its_column(learnt: Learnt) -> None:
    named = learnt.trace.requests.assign(pod=[f"ns/pod-{idx}" for idx in range(len(learnt.trace))])
    found = running_bounds(_replayed(learnt, named), 0.9, 0.9)
    by_id = dict(zip(named["request_id"].astype(str), named["pod"], strict=True))
    assert found and [each.name for each in found] == [by_id[each.request_id] for each in found]
    assert (CONSUMERS["karpenter"].line(found[0]) or "").startswith(f"kubectl annotate pod {found[0].name[3:]} -n ns ")


def test_coverage_is_of_the_test_window_alone(learnt: Learnt, replayed: Replayed) -> None:
    found = coverage_report(replayed, 0.9)
    assert found.overall.n_rows == len(learnt.split.test)
    assert sum(each.n_rows for _, each in found.by_decile) == found.overall.n_rows
    assert found.by_age[0][0] == 0.0
    assert found.by_age[0][1].share == found.overall.share
    assert found.overall.low <= found.overall.share <= found.overall.high


def test_ends_of_the_training_window_decide_nothing(learnt: Learnt, replayed: Replayed) -> None:
    """Requests that had ended a day before the cut, made ten times as short: the labels that are judged stay."""
    requests = learnt.trace.requests.copy()
    is_old = (requests["departure_s"] < learnt.split.test_from_s - 86_400).fillna(False)
    start_s = requests["arrival_s"].fillna(0).clip(lower=learnt.trace.begin_s)
    requests.loc[is_old, "departure_s"] = start_s + (requests["departure_s"] - start_s) // 10
    changed, same = _replayed(learnt, requests).held_out(), replayed.held_out()
    np.testing.assert_array_equal(changed.lifetime_s, same.lifetime_s)
    np.testing.assert_array_equal(changed.is_event, same.is_event)


def test_the_corrected_level_sees_no_end_after_its_cut(learnt: Learnt, replayed: Replayed) -> None:
    """The later half's lifetimes, all cut to a tenth, change its coverage and not the level."""
    decided = np.sort(learnt.split.test.arrival_s)
    cut_s = int(np.quantile(decided, 0.5, method="higher"))
    requests = learnt.trace.requests.copy()
    is_later = (requests["arrival_s"] >= cut_s).fillna(False)
    requests.loc[is_later, "departure_s"] = requests["arrival_s"] + (
        requests["departure_s"] - requests["arrival_s"]) // 10
    still = (~is_later) & (requests["departure_s"] > cut_s).fillna(False)
    requests.loc[still, "departure_s"] = cut_s + (requests["departure_s"] - cut_s) // 10
    shortened, same = (corrected_report(each, 0.9) for each in (_replayed(learnt, requests), replayed))
    assert shortened.used == same.used
    assert abs(shortened.overall.share - same.overall.share) > 0.02


def test_a_correction_is_near_the_level_on_what_comes_later(replayed: Replayed) -> None:
    found = corrected_report(replayed, 0.9)
    assert 0.5 < found.used < 1.0 and found.level == 0.9
    assert found.overall.n_rows < coverage_report(replayed, 0.9).overall.n_rows
    assert abs(found.overall.share - 0.9) < 0.05


def test_a_list_of_what_runs_alone_says_nothing_of_coverage(learnt: Learnt) -> None:
    requests = learnt.trace.requests
    found = coverage_report(_replayed(learnt, requests[requests["departure_s"].isna()].reset_index(drop=True)), 0.9)
    assert np.isnan(found.overall.share) and not found.is_enough
    assert found.faults == ["coverage is not known: 0 held-out requests, at least 100 with ends are needed"]


@pytest.mark.parametrize(("share", "is_enough", "n_faults"), [(0.87, False, 1), (0.89, True, 0), (0.95, True, 1)])
def test_too_little_coverage_is_refused_and_too_much_is_told(share: float, is_enough: bool, n_faults: int) -> None:
    found = CoverageReport(0.9, 0.9, Coverage(share, share, share, 500, 0.0), (), ())
    assert (found.is_enough, len(found.faults)) == (is_enough, n_faults)
