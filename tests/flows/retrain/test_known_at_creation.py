"""Columns that know the future, and columns that do not: what is asked about, and what confirming one does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sojourn.features import Trace
from sojourn.features.creation import backoff_keys, build_rows, default_encoder
from sojourn.features.split import split_by_time
from sojourn.features.synthetic import synthesize
from sojourn.flows.retrain.honest_columns import Suspect, check_confirmed, known_gate, suspects
from sojourn.models import LIFETIME_MODELS, FitSettings
from sojourn.models.lifetime import HazardModel

N = 6_000
"""So many that at least 20 of the test window still run at the trace's end: fewer tell nothing of a column."""
Column = Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]
"""From log10 lifetimes, whether they ended, and a generator, to the column's values."""


def _asked_about(made: dict[str, Column], is_category: bool = False,
                 confirmed: tuple[str, ...] = ()) -> tuple[Suspect, ...]:
    """What is asked about where a synthetic trace has further columns."""
    trace = synthesize(N, seed=0)
    rng = np.random.default_rng(1)
    log_s = np.log10(np.maximum(trace.lifetime_s(), 1))
    columns = {name: column(log_s, trace.is_event(), rng) for name, column in made.items()}
    roles = (replace(trace.roles, categories=(*trace.roles.categories, *columns)) if is_category
             else replace(trace.roles, numbers=(*trace.roles.numbers, *columns)))
    trace = Trace(trace.requests.assign(**columns), trace.horizon_s, roles)
    encoder = default_encoder(trace)
    rows = build_rows(trace, encoder)
    split = split_by_time(rows)
    settings = FitSettings(backoff_keys(encoder), 1, 0, names=rows.names, params={"num_leaves": 15})
    model = HazardModel(n_rounds=40).fit(split.train, split.valid, split.past, settings)
    return suspects(trace, encoder, rows, model, split, confirmed, 0)


def _score(noise: float) -> Column:
    return lambda log_s, _, rng: log_s + rng.normal(0.0, noise, len(log_s))


def _status(log_s: np.ndarray, ended: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.where(~ended, "running", np.where(log_s > 4.0, "evicted", np.where(rng.random(len(log_s)) < 0.1, "failed",
                                                                                 "ok")))


def _filled_at_the_end(log_s: np.ndarray, ended: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.where(ended, rng.normal(0.0, 1.0, len(log_s)), np.nan)


@pytest.mark.slow
@pytest.mark.parametrize(("column", "is_category"), [
    (_score(0.05), False), (_score(1.0), False), (_filled_at_the_end, False), (_status, True)])
def test_a_column_that_knows_the_future_is_asked_about(column: Column, is_category: bool) -> None:
    (found,) = _asked_about({"spot_score": column}, is_category)
    assert found.column == "spot_score"


@pytest.mark.slow
def test_columns_that_are_known_at_creation_are_not() -> None:
    noise: Column = lambda log_s, _, rng: rng.normal(0.0, 1.0, len(log_s))  # noqa: E731
    assert _asked_about({"noise": noise}) == ()
    assert _asked_about({"spot_score": _score(0.05)}, confirmed=("spot_score",)) == ()
    assert _asked_about({"requested_s": lambda log_s, _, rng: 10.0 ** (log_s + rng.normal(0.0, 0.3, len(log_s)))}) == ()


@pytest.mark.slow
@pytest.mark.parametrize(("column", "is_asked"), [(_status, True), (lambda log_s, _, rng: np.where(
    rng.random(len(log_s)) < 0.5, "a", "b"), False)])
def test_a_lookup_table_is_asked_about_the_columns_of_its_keys(column: Column, is_asked: bool) -> None:
    # it reads no feature, so that shuffling those would never show what its keys know
    trace = synthesize(N, seed=0)
    log_s = np.log10(np.maximum(trace.lifetime_s(), 1))
    status = column(log_s, trace.is_event(), np.random.default_rng(1))
    roles = replace(trace.roles, owners=(), categories=("status",))
    trace = Trace(trace.requests.assign(status=status), trace.horizon_s, roles)
    encoder = default_encoder(trace)
    rows = build_rows(trace, encoder)
    split = split_by_time(rows)
    model = LIFETIME_MODELS["km"]().fit(split.train, split.valid, split.past, FitSettings(backoff_keys(encoder)))
    found = [suspect.column for suspect in suspects(trace, encoder, rows, model, split, (), 0)]
    assert found == (["status"] if is_asked else [])


def test_the_gate_wants_it_confirmed() -> None:
    found = (Suspect("spot_score", "64% of the gain"),)
    gate = known_gate(found, ())
    assert (gate.is_passed, gate.finding) == (
        False, "spot_score: 64% of the gain. Is it known before a request begins? If not, keep it from the model "
               "(known_at_end); only if so, confirm it: --confirmed-column COLUMN")
    assert known_gate((), ("spot_score",)).finding == "confirmed: spot_score"
    encoder = default_encoder(Trace(pd.DataFrame({
        "request_id": [1], "arrival_s": [0], "departure_s": [5], "cpu_cores": [1.0], "mem_gib": [2.0]}), 9))
    check_confirmed(encoder, ("mem_gib",))
    with pytest.raises(ValueError, match=r"confirmed_columns must be columns of the trace \(cpu_cores, mem_gib\), got"):
        check_confirmed(encoder, ("spot_scroe",))
