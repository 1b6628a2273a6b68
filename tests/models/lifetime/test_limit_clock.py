"""The second clock: intervals of the share of a request's limit, the same bits on every way to an answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_c import CModels, needs_c
from made_limits import limited_trace
from sojourn.features import Trace
from sojourn.features.creation import FeatureRows, backoff_keys, build_rows, default_encoder
from sojourn.features.split import Examples, Split, split_by_time
from sojourn.flows.monitor.followed import logged_table
from sojourn.models import FitSettings, write_bundle
from sojourn.models.bundle_writer import table_of
from sojourn.models.curve_table import HazardTable
from sojourn.models.lifetime import HazardModel, limit_text, person_periods
from sojourn.models.lifetime.baselines import KaplanMeierModel
from sojourn.models.lifetime.intervals import LIMIT_SHARES, fit_intervals, limit_periods, wants_limit
from sojourn.serving import CurvePool, Predictor, load_bundle
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.c import c_source
from sojourn.serving.decisions import read_log
from sojourn.serving.inputs import HistoryState

UPTIMES_S = (0.0, 61.0, 449.5, 899.5, 901.0, 3_600.0, 90_000.0, 1e7)


@dataclass(frozen=True)
class Limited:
    """A trace with limits, its windows, a hazard model of the earlier ones and its bundle."""

    trace: Trace
    rows: FeatureRows
    split: Split
    model: HazardModel
    folder: Path

    def request(self, idx: int) -> dict[str, Any]:
        """The request of a test row."""
        row = self.trace.requests.iloc[int(self.rows.idx_request[self.split.test.idx_row[idx]])]
        return {name: row[name] for name in default_encoder(self.trace).columns()
                if name != "requested_s" or np.isfinite(row[name])}


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Limited:
    trace = limited_trace(3_000, seed=1)
    encoder = default_encoder(trace)
    history = HistoryState(encoder.history)
    rows = build_rows(trace, encoder, history)
    split = split_by_time(rows)
    settings = FitSettings(backoff_keys(encoder), 1, 0, {"num_leaves": 7, "learning_rate": 0.4}, rows.names)
    model = HazardModel(n_rounds=10).fit(split.train, split.valid, split.past, settings)
    folder = write_bundle(tmp_path_factory.mktemp("limit") / "b", "hazard", model.export(), encoder, history,
                          {"training": {"history_to_s": trace.horizon_s}})
    return Limited(trace, rows, split, model, folder)


def test_a_trace_that_ends_at_its_limits_gets_the_clock(limited: Limited) -> None:
    assert limited.model.export().kind == "hazard-limit"


def test_without_limits_the_rows_are_those_of_the_age_alone(limited: Limited) -> None:
    past = limited.split.past
    edges = fit_intervals(past).edges
    none = limit_periods(past, edges, np.array(LIMIT_SHARES), np.full(len(past), np.nan))
    aged = person_periods(past, edges)
    for part in ("idx", "interval", "is_end", "weight"):
        np.testing.assert_array_equal(getattr(none, part), getattr(aged, part))


def test_the_curve_falls_at_the_limit(limited: Limited) -> None:
    test = limited.split.test
    limit_s = test.features[:, limited.model.axis_.limit_place]
    asked = test.take(np.flatnonzero(limit_s == 3_600.0))
    table = limited.model.curve_table(asked)
    before, after = table.survival(3_590.0, 0.0), table.survival(3_660.0, 0.0)
    assert float(after.mean()) < 0.25 * float(before.mean())
    outlived = (asked.lifetime_s > 3_590.0).mean()
    assert abs(float(before.mean()) - float(outlived)) < 0.1


@pytest.mark.parametrize("is_compiled", [True, False])
def test_the_bundle_has_the_models_bits(limited: Limited, is_compiled: bool) -> None:
    bundle = load_bundle(limited.folder)
    builder = CurveBuilder(bundle.schema, bundle.model, is_compiled)
    test = limited.split.test
    fitted, served = limited.model.curve_table(test), table_of(bundle.schema, builder.forest, test.features)
    curves = [builder.curve(test.features[idx].tolist()) for idx in range(60)]
    for uptime_s in UPTIMES_S:
        for name, asked in (("remaining", (uptime_s,)), ("quantile", (0.9, uptime_s)), ("survival", (600.0, uptime_s))):
            expected = getattr(fitted, name)(*asked)
            np.testing.assert_array_equal(expected, getattr(served, name)(*asked))
            assert [getattr(curve, name)(*asked) for curve in curves] == expected[:60].tolist()


def test_predictor_pool_and_handles_agree(limited: Limited, tmp_path: Path) -> None:
    predictor = Predictor.load(limited.folder)
    requests = [limited.request(idx) for idx in range(60)]
    now_s = limited.trace.horizon_s
    vms = [predictor.admit(request, now_s) for request in requests]
    pools = [CurvePool(), CurvePool(is_compiled=False)]
    slots = [[pool.add(vm) for vm in vms] for pool in pools]
    for uptime_s in UPTIMES_S:
        expected = [vm.remaining(uptime_s) for vm in vms]
        assert [predictor.handle(str(vm.id)).remaining(uptime_s) for vm in vms] == expected
        for pool, own in zip(pools, slots, strict=True):
            at = [uptime_s] * len(vms)
            assert pool.remaining(own, at).tolist() == expected
            assert pool.quantile(0.9, own, at).tolist() == [vm.quantile(0.9, uptime_s) for vm in vms]
            assert pool.survival(600.0, own, at).tolist() == [vm.survival(600.0, uptime_s) for vm in vms]
            assert pool.next_change(own, at).tolist() == [vm.next_change(uptime_s) for vm in vms]
    fresh = Predictor.load(limited.folder)
    asked = fresh.remaining_many(requests, [61.0] * len(requests), now_s)
    assert asked.tolist() == [fresh.predict(request, now_s).remaining(61.0) for request in requests]
    predictor.snapshot(tmp_path / "live")
    again = Predictor.load(limited.folder, history=tmp_path / "live")
    assert [again.handle(str(vm.id)).remaining(61.0) for vm in vms] == [vm.remaining(61.0) for vm in vms]


@needs_c
def test_c_has_the_same_bits(limited: Limited, tmp_path: Path) -> None:
    bundle = load_bundle(limited.folder)
    models = CModels(tmp_path, [c_source(bundle, "limited")])
    features = np.ascontiguousarray(limited.split.test.features)
    table = limited.model.curve_table(limited.split.test)
    asked = np.array([(uptime_s, 0.9, 600.0) for uptime_s in UPTIMES_S])
    answers = models.answers("limited", features, asked)
    for place, uptime_s in enumerate(UPTIMES_S):
        np.testing.assert_array_equal(answers[:, place, 0], table.remaining(uptime_s))
        np.testing.assert_array_equal(answers[:, place, 1], table.quantile(0.9, uptime_s))
        np.testing.assert_array_equal(answers[:, place, 2], table.survival(600.0, uptime_s))


def test_the_log_gives_the_curves_that_were_served(limited: Limited, tmp_path: Path) -> None:
    predictor = Predictor.load(limited.folder)
    predictor.log_to(tmp_path / "log", flush_s=60.0)
    vms = [predictor.admit(limited.request(idx), limited.trace.horizon_s) for idx in range(60)]
    predictor.stop_logging()
    block = read_log(tmp_path / "log").decisions[0]
    table = logged_table(block.model, block.curves)
    for uptime_s in UPTIMES_S:
        found = table.remaining(uptime_s)
        assert np.abs(found - [vm.remaining(uptime_s) for vm in vms]).max() <= 1.0  # hazards are rates times widths


@pytest.mark.parametrize("limit_s", [0.0, -3_600.0, 1.0, np.nan, np.inf, -np.inf, 1e9, 1e300])
def test_what_is_no_limit_leaves_the_age_alone(limited: Limited, limit_s: float) -> None:
    test = limited.split.test.take(np.arange(20))
    place, axis = limited.model.axis_.limit_place, limited.model.axis_
    features = test.features.copy()
    features[:, place] = limit_s
    hazards = np.full((20, len(axis.intervals.offsets)), 0.1)
    odd = axis.table(hazards, replace(test, features=features))
    aged = HazardTable.from_hazards(axis.intervals.edges, hazards[:, :axis.n_ages], axis.intervals.tail_s,
                                    axis.intervals.grid)
    for uptime_s in (0.0, 901.0, 90_000.0):
        np.testing.assert_allclose(odd.survival(600.0, uptime_s), aged.survival(600.0, uptime_s), rtol=1e-12)
    answers = limited.model.curve_table(replace(test, features=features)).remaining(UPTIMES_S[-1])
    assert np.isfinite(answers).all()


def test_a_trace_gets_the_clock_only_where_many_ends_lie_at_limits(limited: Limited) -> None:
    past = limited.split.past
    n = len(past)
    at_limit = replace(past, lifetime_s=np.full(n, 7_200.0), is_event=np.ones(n, bool), entry_s=np.zeros(n))
    assert wants_limit(at_limit, np.full(n, 7_200.0))
    for none_s in (np.nan, 0.0, -7_200.0, 1e300, 3_600.0):  # the last: all outlive theirs twice over
        assert not wants_limit(at_limit, np.full(n, none_s))
    some_s = np.where(np.arange(n) % 50 == 0, 7_200.0, 72_000.0)
    assert not wants_limit(at_limit, some_s)
    assert not wants_limit(at_limit.take(np.arange(199)), np.full(199, 7_200.0))


def test_all_that_end_at_the_limit_are_expected_there(limited: Limited) -> None:
    past = limited.split.past
    n, place = len(past), limited.model.axis_.limit_place
    features = past.features.copy()
    features[:, place] = np.resize([3_600.0, 7_200.0], n)
    exact = replace(past, features=features, lifetime_s=features[:, place].copy(), is_event=np.ones(n, bool),
                    entry_s=np.zeros(n))
    settings = FitSettings((), 1, 0, {}, limited.rows.names)
    table = KaplanMeierModel().fit(exact, exact, exact, settings).curve_table(exact)
    np.testing.assert_allclose(table.quantile(0.5, 60.0), features[:, place] - 60.0, atol=30.0)


def test_the_sentence_on_limits_tells_minutes_from_seconds() -> None:
    """300 ends of 3,600 s: at the limit, at half of it (not near), and at 60 times a limit that is minutes."""
    n = 300
    rows = Examples(np.zeros((n, 1)), (), np.full(n, 3_600.0), np.ones(n, bool), np.zeros(n), np.zeros(n, np.int64),
                    np.arange(n))
    assert limit_text(rows, np.full(n, 3_600.0)) == (
        "Limits: 100.0% of 300 ends after 10 min lie within 3 % of requested_s; the model has a clock of the limit.")
    assert "0.0% of 300 ends" in limit_text(rows, np.full(n, 7_200.0))
    assert "does not have a clock" in limit_text(rows, np.full(n, 7_200.0))
    assert limit_text(rows, np.full(n, 60.0)) == (
        "requested_s must be seconds, but 100% of 300 ends after 10 min lie near 60 times its value, as if it were "
        "minutes.")
    assert limit_text(rows, np.full(n, np.nan)) == ""
