"""Run times of a queue from curves: asked exactly when outlived, and backfilling by the chance to end in time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest

from sojourn.features.creation import build_rows, default_encoder
from sojourn.features.readers import read_trace
from sojourn.features.split import split_by_time
from sojourn.features.trace import Trace
from sojourn.flows.placement.predictors import (
    N_ASKED_MAX,
    Learning,
    LiveRunTimes,
    fitted_tables,
    learnt_bundle,
    outlived_curves,
    parse_predictor,
    queue_source,
)
from sojourn.models.bundle_writer import table_of
from sojourn.models.curve_table import HazardTable, PointTable
from sojourn.serving import load_bundle
from sojourn.serving.answers import CurveBuilder
from sojourn.simulator.queueing import (
    QueueJobs,
    QueueRules,
    compare_queues,
    queue_jobs,
    replay_queue,
    requested,
)

EDGES_S = np.array([0.0, 100.5, 1_000.5, 10_000.5])
NASA = Path(__file__).resolve().parents[3] / "examples" / "nasa-ipsc-1993.swf.gz"


def drawn_table(n: int, seed: int) -> HazardTable:
    return HazardTable.from_hazards(EDGES_S, np.random.default_rng(seed).exponential(0.7, (n, 3)), 20_000.0, EDGES_S)


@pytest.mark.parametrize("quantile", [None, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("ages_s", [(), (60, 600, 3_600)])
def test_each_prediction_is_the_curves_own_at_that_uptime(quantile: float | None, ages_s: tuple[int, ...]) -> None:
    table, limit_s = drawn_table(20, 1), np.full(20, 40_000)
    curves = outlived_curves(table, limit_s, quantile, ages_s)
    for row in range(20):
        at = slice(curves.offsets[row], curves.offsets[row + 1])
        own = table.take(np.array([row]))
        expected = 0
        for uptime_s, total_s in zip(curves.uptime_s[at].tolist(), curves.total_s[at].tolist(), strict=True):
            assert uptime_s == expected
            left = own.remaining(uptime_s) if quantile is None else own.quantile(quantile, float(uptime_s))
            assert total_s == min(uptime_s + max(float(left[0]), 1.0), 40_000)
            expected = min([total_s, *(age for age in ages_s if age > uptime_s)])
        assert expected == 40_000 or at.stop - at.start == N_ASKED_MAX


def test_a_curve_without_an_answer_names_its_row() -> None:
    table = PointTable(np.zeros(0), np.array([[2.0], [np.nan]]), 1.0, np.zeros(3))
    with pytest.raises(ValueError, match=r"a curve must have an answer, got NaN \(row 1\)"):
        outlived_curves(table, np.array([900, 900]))


def test_a_job_without_a_curve_is_named() -> None:
    jobs = made_jobs(3, 2)
    with pytest.raises(ValueError, match="every job must have a curve, got none for job 2"):
        queue_source(jobs, pd.Series([0, 1]), drawn_table(2, 0))


def made_jobs(n: int, seed: int) -> QueueJobs:
    rng = np.random.default_rng(seed)
    run_s = rng.integers(1, 20_000, n)
    return QueueJobs(np.cumsum(rng.integers(0, 4_000, n)), run_s, run_s + rng.integers(0, 90_000, n),
                     rng.integers(1, 9, n), 16)


def test_a_quantile_as_the_second_source_backfills_by_the_chance_to_end_in_time() -> None:
    jobs, table = made_jobs(400, 4), drawn_table(400, 4)
    ids = pd.Series(jobs.request_ids)
    for chance in (0.3, 0.9):
        curves = queue_source(jobs, ids, table, chance).curves(jobs.requests())
        fit_s = curves.total_s[curves.offsets[curves.curve_of()]]
        is_open = fit_s < jobs.limit_s
        assert is_open.sum() > 100
        for offset_s in (-2.0, 2.0):  # seconds are whole
            ends = 1.0 - table.survival(np.maximum(fit_s + offset_s, 0.0), 0.0)
            assert ((ends >= chance) if offset_s > 0 else (ends <= chance) | (fit_s <= 2))[is_open].all()
    median, rules = queue_source(jobs, ids, table, 0.5), QueueRules(backfill_order="sjf")
    cautious, bold = (replay_queue(jobs, rules, (median, queue_source(jobs, ids, table, chance)))
                      for chance in (0.99, 0.05))
    n_passing = [(one.start_s < np.maximum.accumulate(one.start_s)).sum() for one in (cautious, bold)]
    assert 0 < n_passing[0] < n_passing[1]


@pytest.mark.slow
def test_a_family_learnt_on_the_earlier_part_predicts_every_later_job() -> None:
    trace = read_trace("swf", NASA)[0]
    encoder = default_encoder(trace)
    rows = build_rows(trace, encoder)
    split = split_by_time(rows, 0.2)
    known = Learning(trace, "", encoder, rows, split, 0)
    jobs, (ids, table, _) = queue_jobs(trace), fitted_tables(parse_predictor("km"), known, 1)
    jobs = jobs.take(jobs.submission_s >= split.test_from_s)
    assert len(jobs) > 2_000
    source = queue_source(jobs, ids, table, 0.5)
    found = compare_queues(jobs, [QueueRules()], {"requested": requested(jobs), "km": source})
    assert found["mean_slowdown"].between(1, 2).all()


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> tuple[Learning, Path]:
    """The first third of a log, and a small model learnt on its earlier part."""
    whole = read_trace("swf", NASA)[0]
    until_s = int(np.quantile(whole.start_s(), 1 / 3))
    trace = replace(whole.select(whole.end_s() <= until_s), horizon_s=until_s)
    encoder = default_encoder(trace)
    rows = build_rows(trace, encoder)
    known = Learning(trace, "", encoder, rows, split_by_time(rows, 0.1), 0)
    with mock.patch("sojourn.models.lifetime.hazard.N_PERIODS_MAX", 40_000):
        return known, learnt_bundle(tmp_path_factory.mktemp("learnt") / "bundle", parse_predictor("hazard"), known, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("quantile", "ages_s"), [(0.5, ()), (None, (600, 3_600))])
def test_a_served_model_in_the_loop_predicts_as_if_the_log_had_been_as_replayed(
    quantile: float | None, ages_s: tuple[int, ...], learnt: tuple[Learning, Path],
) -> None:
    known, folder = learnt
    trace, from_s = known.trace, known.split.test_from_s
    jobs = queue_jobs(trace).take(queue_jobs(trace).submission_s >= from_s)
    jobs = replace(jobs, size=np.minimum(4 * jobs.size, 128))  # jobs of this log hardly wait
    rules = QueueRules("sjf", "sjf")
    schedule = replay_queue(jobs, rules, LiveRunTimes(folder, trace.requests, quantile, ages_s))
    assert (schedule.wait_s > 0).mean() > 0.1

    place = pd.Index(trace.requests["request_id"]).get_indexer(jobs.request_ids)
    times_s = trace.requests[["arrival_s", "departure_s"]].to_numpy()
    is_kept = trace.is_event() & (trace.end_s() <= from_s)
    times_s[place] = np.column_stack([schedule.start_s, schedule.end_s])
    is_kept[place] = True
    requests = trace.requests.assign(arrival_s=times_s[:, 0], departure_s=times_s[:, 1])[is_kept]
    as_replayed = Trace(requests, int(schedule.end_s.max()) + 1, trace.roles, meta=trace.meta)
    again, bundle = build_rows(as_replayed, known.encoder), load_bundle(folder)
    table = table_of(bundle.schema, CurveBuilder(bundle.schema, bundle.model).forest, again.features)
    source = queue_source(jobs, as_replayed.requests["request_id"].iloc[again.idx_request], table, quantile, ages_s)
    assert replay_queue(jobs, rules, source).start_s.tolist() == schedule.start_s.tolist()
    recorded = queue_source(jobs, trace.requests["request_id"].iloc[known.rows.idx_request],
                            table_of(bundle.schema, CurveBuilder(bundle.schema, bundle.model).forest,
                                     known.rows.features), quantile, ages_s)
    assert replay_queue(jobs, rules, recorded).start_s.tolist() != schedule.start_s.tolist()


@pytest.mark.slow
def test_a_job_that_the_served_model_has_no_request_of_is_named(learnt: tuple[Learning, Path]) -> None:
    jobs, requests = queue_jobs(learnt[0].trace), learnt[0].trace.requests
    with pytest.raises(ValueError, match=f"every job must have a request, got none for job {jobs.request_ids[0]}"):
        replay_queue(jobs, QueueRules(), LiveRunTimes(learnt[1], requests.iloc[5_000:]))
