"""Limits of coming jobs by owner: mixtures, groups, the text, what decides them, and their coverage."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest

from learnt_bundle import Learnt
from sojourn.features import Trace
from sojourn.flows.annotation.bounds import (
    LEAST_REQUESTS,
    LimitTable,
    Replayed,
    _table,
    encoded,
    limit_table,
    mixture_quantiles,
    table_coverage,
)
from sojourn.models.curve_table import OnceTable
from sojourn.serving import load_bundle


def as_jobs(trace: Trace) -> Trace:
    """The trace's subscriptions as users, and its deployments as job names."""
    requests = trace.requests
    return Trace(requests.assign(user=requests["subscription"], job_name=requests["deployment"], account="lab"),
                 trace.horizon_s, trace.roles, meta=trace.meta)


@pytest.fixture(scope="module")
def replayed(learnt: Learnt) -> Replayed:
    return Replayed.of(load_bundle(learnt.folder), as_jobs(learnt.trace))


def test_a_group_has_the_quantile_of_the_mixture() -> None:
    """Nine of ten curves end at about 10 s, one at about 1,000: 80 % end by 10 s, 95 % by 1,000."""
    table = OnceTable(np.array([1.0] * 9 + [3.0]), 1.0, np.linspace(-0.01, 0.01, 21))
    group = np.zeros(10, np.int64)
    assert mixture_quantiles(table, group, 0.8)[0] == pytest.approx(10.0, rel=0.05)
    assert mixture_quantiles(table, group, 0.95)[0] == pytest.approx(1_000.0, rel=0.05)


def test_a_group_of_one_curve_has_that_curves_quantile(learnt: Learnt, replayed: Replayed) -> None:
    some = replayed.table(learnt.split.test.idx_row[:40])
    np.testing.assert_allclose(mixture_quantiles(some, np.arange(40), 0.9), some.quantile(0.9, 0.0), atol=1.0)


def test_small_groups_have_no_limit(replayed: Replayed) -> None:
    found = limit_table(replayed, 0.9)
    requests = replayed.trace.requests.iloc[replayed.rows.idx_request]
    assert found.columns == ("account", "user", "job_name")
    sizes = Counter(zip(requests["user"].tolist(), requests["job_name"].tolist(), strict=True))
    named = {key for key in found.minutes if "*" not in key}
    assert named == {f"lab|{encoded(user)}|{encoded(job)}" for (user, job), n in sizes.items() if n >= LEAST_REQUESTS}
    users = Counter(requests["user"].tolist())
    assert {key for key in found.minutes if key.endswith("|*")} == {
        f"lab|{encoded(user)}|*" for user, n in users.items() if n >= LEAST_REQUESTS}


def test_the_finest_group_answers() -> None:
    table = LimitTable(("account", "user", "job_name", "partition"), {
        "a|u|j|p": 1, "a|u|*|p": 2, "a|u|*|*": 3}, 0.9)
    rows = pd.DataFrame([("a", "u", "j", "p"), ("a", "u", "x", "p"), ("a", "u", "j", "q"), ("a", "v", "j", "p")],
                        columns=["account", "user", "job_name", "partition"])
    assert table.of(rows).tolist()[:3] == [60.0, 120.0, 180.0]
    assert np.isnan(table.of(rows)[3])


def test_coverage_is_of_tables_of_before_the_request(learnt: Learnt, replayed: Replayed) -> None:
    """Lifetimes of all held-out requests made a hundredth: the first week's table has not seen them."""
    found = table_coverage(replayed, 0.9)
    assert found.renewed_s == 7 * 86_400
    assert 0.5 < found.has_limit <= 1.0
    assert found.report.overall.n_rows == round(found.has_limit * len(learnt.split.test))
    trace, cut_s = replayed.trace, learnt.split.test_from_s
    requests = trace.requests.copy()
    is_held = (requests["arrival_s"] >= cut_s).fillna(False)
    requests.loc[is_held, "departure_s"] = requests["arrival_s"] + (
        requests["departure_s"] - requests["arrival_s"]) // 100
    shorter = Replayed.of(replayed.bundle, Trace(requests, trace.horizon_s, trace.roles, meta=trace.meta))
    assert _table(shorter, cut_s, 0.9) == _table(replayed, cut_s, 0.9)
    assert _table(shorter, cut_s + 7 * 86_400, 0.9) != _table(replayed, cut_s + 7 * 86_400, 0.9)
    changed = table_coverage(shorter, 0.9)
    assert changed.has_limit == found.has_limit
    assert changed.report.overall.share > 0.96 > found.report.overall.share + 0.02


def test_a_trace_without_owners_is_refused(learnt: Learnt) -> None:
    bare = Replayed.of(load_bundle(learnt.folder), learnt.trace)
    with pytest.raises(ValueError, match="trace must have one of the columns account, user, job_name, partition"):
        limit_table(bare, 0.9)


def test_names_cannot_end_a_key_or_a_line() -> None:
    strange = "a|b\tc\nd*é%"
    assert encoded(strange) == "a%7Cb%09c%0Ad%2A%C3%A9%25"
    text = LimitTable(("user",), {encoded(strange): 5}, 0.9).lines(1_000)
    assert text == ["made\t1000", "level\t0.9", "columns\tuser", "a%7Cb%09c%0Ad%2A%C3%A9%25\t5"]
