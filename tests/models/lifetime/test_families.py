"""One contract for all lifetime families, and what each must know about censoring and the clock."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sojourn.features.creation import FeatureRows, backoff_keys, build_rows, default_encoder
from sojourn.features.split import Examples, Split, split_by_time
from sojourn.features.synthetic import synthesize
from sojourn.models import LIFETIME_MODELS, FitSettings, LifetimeModel, score_model
from sojourn.models.curve_table import CurveTable
from sojourn.models.lifetime import SERVED, NetworkModel, Rows, person_periods
from sojourn.models.lifetime.gbdt import boost
from sojourn.models.lifetime.intervals import fit_intervals
from sojourn.models.lifetime.survival import SurvivalModel

pytestmark = pytest.mark.slow  # every family is fitted

FAST = {"num_leaves": 7, "learning_rate": 0.4}


@pytest.fixture(scope="module")
def split() -> Split:
    trace = synthesize(2_500, seed=1)
    return split_by_time(_with_requested(build_rows(trace, default_encoder(trace))))


def _with_requested(rows: FeatureRows) -> FeatureRows:
    """The rows with one more feature: a requested time, half a decade to two above the lifetime; a tenth unknown."""
    rng = np.random.default_rng(0)
    requested_s = rows.lifetime_s * 10.0 ** rng.uniform(0.5, 2.0, len(rows))
    requested_s[rng.random(len(rows)) < 0.1] = np.nan
    return replace(rows, features=np.column_stack([rows.features, requested_s]), names=(*rows.names, "requested_s"))


@pytest.fixture(scope="module")
def settings() -> FitSettings:
    encoder = default_encoder(synthesize(1_000, seed=1))
    return FitSettings(backoff_keys(encoder), 1, 0, FAST, (*encoder.feature_names(), "requested_s"))


@pytest.fixture(scope="module")
def fitted(split: Split, settings: FitSettings) -> dict[str, LifetimeModel]:
    return {name: _made(name).fit(split.train, split.valid, split.past, settings) for name in LIFETIME_MODELS}


def _made(name: str) -> LifetimeModel:
    """A family to be fitted, on few rows where it takes a subsample at all."""
    model = LIFETIME_MODELS[name]()
    if isinstance(model, SurvivalModel):
        model.n_rows_max = 300
    if isinstance(model, NetworkModel):
        model.n_rows_max, model.n_epochs_max = 4_000, 4
    return model


@pytest.fixture(scope="module", params=sorted(LIFETIME_MODELS))
def table(request: pytest.FixtureRequest, fitted: dict[str, LifetimeModel], split: Split) -> CurveTable:
    return fitted[request.param].curve_table(split.test)


def test_a_family_has_all_that_the_contract_names(fitted: dict[str, LifetimeModel], split: Split) -> None:
    for name, model in fitted.items():
        assert model.name == name
        assert isinstance(model.clipped_share_, float), name
        assert model.validation_table_.remaining(0.0).shape == (len(split.valid),)


UPTIMES = (0.0, 59.0, 600.0, 90_000.0)


@pytest.mark.parametrize("uptime_s", UPTIMES)
def test_answers_are_finite_whole_and_above_zero(table: CurveTable, uptime_s: float) -> None:
    remaining = table.remaining(uptime_s)
    assert np.isfinite(remaining).all()
    assert (remaining >= 0).all()
    np.testing.assert_array_equal(remaining, np.rint(remaining))
    assert remaining.mean() > 1.0


@pytest.mark.parametrize("uptime_s", UPTIMES)
def test_survival_starts_at_one_and_never_rises(table: CurveTable, uptime_s: float) -> None:
    grid = [0.0, 1.0, 60.0, 3_600.0, 86_400.0, 10.0**8]
    survival = np.stack([table.survival(horizon_s, uptime_s) for horizon_s in grid])
    np.testing.assert_allclose(survival[0], 1.0)
    assert (np.diff(survival, axis=0) <= 1e-12).all()
    assert ((survival >= 0.0) & (survival <= 1.0)).all()


@pytest.mark.parametrize("uptime_s", UPTIMES)
def test_quantiles_rise_with_their_share(table: CurveTable, uptime_s: float) -> None:
    quantiles = np.stack([table.quantile(q, uptime_s) for q in (0.05, 0.25, 0.5, 0.75, 0.95)])
    assert (np.diff(quantiles, axis=0) >= 0.0).all()


def test_survival_passes_a_share_at_its_quantile(table: CurveTable) -> None:
    for q in (0.25, 0.5, 0.9):
        at_s = table.quantile(q, 600.0)
        before, after = table.survival(np.maximum(at_s - 1.0, 0.0), 600.0), table.survival(at_s + 1.0, 600.0)
        is_inner = at_s < 9e7  # no quantile is longer than three years
        assert (before[is_inner] >= 1.0 - q - 1e-9).all()
        assert (after[is_inner] <= 1.0 - q + 1e-9).all()


def test_rows_are_answered_alone_or_together_alike(fitted: dict[str, LifetimeModel], split: Split) -> None:
    order = np.random.default_rng(0).permutation(len(split.test))[:200]
    for model in fitted.values():
        whole, part = model.curve_table(split.test), model.curve_table(split.test.take(order))
        np.testing.assert_array_equal(whole.remaining(600.0)[order], part.remaining(600.0))
        np.testing.assert_array_equal(whole.take(order).quantile(0.5, 0.0), part.quantile(0.5, 0.0))


def test_unknown_owners_are_answered(fitted: dict[str, LifetimeModel], split: Split) -> None:
    stranger = split.test.take(np.arange(5))
    unknown = replace(stranger, features=np.full_like(stranger.features, np.nan),
                      keys=tuple(np.full(5, -1) for _ in stranger.keys))
    for model in fitted.values():
        assert np.isfinite(model.curve_table(unknown).remaining(60.0)).all()


def test_no_observed_end_is_refused(split: Split, settings: FitSettings) -> None:
    nothing = replace(split.train, is_event=np.zeros(len(split.train), bool))
    for make in LIFETIME_MODELS.values():
        with pytest.raises(ValueError, match="at least one observed end, got censored ones only"):
            make().fit(nothing, nothing, nothing, settings)


def _altered(examples: Examples, case: str) -> Examples:
    """The examples with one thing made odd."""
    n, width = examples.features.shape
    one, all_alike, all_apart = np.ones((n, width)), np.zeros(n, np.int64), examples.idx_row.astype(np.int64)
    if case == "all features alike":
        return replace(examples, features=one)
    if case == "nothing known":
        return replace(examples, features=one * np.nan, keys=tuple(all_alike - 1 for _ in examples.keys))
    if case == "a huge feature":
        return replace(examples, features=np.column_stack([examples.features[:, 1:], 1e300 * all_apart]))
    if case in ("one owner", "every request its own"):
        codes = all_alike if case == "one owner" else all_apart
        return replace(examples, keys=tuple(codes for _ in examples.keys))
    if case == "every tenth row":
        return examples.take(np.arange(0, n, 10))
    seconds = {"all live 1 s": 1.0, "all live 30 days": 30 * 86_400.0, "all live 5 years": 5 * 365 * 86_400.0}[case]
    return replace(examples, lifetime_s=np.full(n, seconds), is_event=np.ones(n, bool), entry_s=np.zeros(n))


@pytest.fixture(scope="module")
def small(split: Split) -> Split:
    """Every fifth request of each window: enough to fit what is odd, and quick."""
    return replace(split, **{name: getattr(split, name).take(np.arange(0, len(getattr(split, name)), 5))
                             for name in ("train", "valid", "past", "test")})


@pytest.mark.parametrize("case", ["all features alike", "nothing known", "a huge feature", "one owner",
                                  "every request its own", "every tenth row", "all live 1 s", "all live 30 days",
                                  "all live 5 years"])
def test_odd_traces_are_fitted_and_answered_or_refused_with_a_reason(case: str, small: Split,
                                                                     settings: FitSettings) -> None:
    odd = {name: _altered(getattr(small, name), case) for name in ("train", "valid", "past", "test")}
    refused = {}
    for name in LIFETIME_MODELS:
        try:
            model = _made(name).fit(odd["train"], odd["valid"], odd["past"], settings)
        except ValueError as error:
            refused[name] = str(error)
            continue
        table = model.curve_table(odd["test"])
        for uptime_s in (0.0, 600.0, 3e7, 2e8):
            answers = table.remaining(uptime_s), table.quantile(0.5, uptime_s)
            assert all(np.isfinite(seconds).all() and (seconds >= 0.0).all() for seconds in answers), name
            survival = table.survival(60.0, uptime_s)
            assert ((survival >= 0.0) & (survival <= 1.0)).all(), name
        if case == "all live 30 days":
            assert 15 * 86_400 < np.median(table.quantile(0.5, 0.0)) < 45 * 86_400, name
    # A forest of whole curves wants two times at least; all others take any trace that has an end.
    assert set(refused) == ({"rsf"} if case.startswith("all live") else set())
    assert all("rsf needs lifetimes of at least two intervals, got" in message for message in refused.values())


def test_ends_of_requests_from_before_the_trace_alone_are_fitted_or_refused_with_a_reason(
        small: Split, settings: FitSettings) -> None:
    """All that ended came under observation late: a model that asks at uptime 0 has nothing to learn from."""
    def late(examples: Examples) -> Examples:
        return replace(examples, entry_s=np.where(examples.is_event, examples.lifetime_s * 0.95, 0.0))

    refused = {}
    for name in LIFETIME_MODELS:
        try:
            model = _made(name).fit(late(small.train), late(small.valid), late(small.past), settings)
        except ValueError as error:
            refused[name] = str(error)
        else:
            assert np.isfinite(model.curve_table(small.test).remaining(0.0)).all(), name
    assert set(refused) >= {"gbdt-once", "cox", "rsf", "gbsa", "repeat-last", "requested-time"}
    assert {"km", "hazard"}.isdisjoint(refused)
    for message in refused.values():
        assert "must hold at least one observed end" in message


@pytest.mark.slow
def test_the_choice_looks_at_models_that_saw_the_train_window_only(fitted: dict[str, LifetimeModel], split: Split,
                                                                  settings: FitSettings) -> None:
    doubled = replace(split.past, lifetime_s=split.past.lifetime_s * 7.0)
    for name, one in fitted.items():
        other = _made(name).fit(split.train, split.valid, doubled, settings)
        np.testing.assert_array_equal(one.validation_table_.quantile(0.5, 0.0),
                                      other.validation_table_.quantile(0.5, 0.0))
        assert not np.array_equal(one.curve_table(split.test).quantile(0.5, 0.0),
                                  other.curve_table(split.test).quantile(0.5, 0.0))


@pytest.mark.slow
def test_the_same_seed_gives_the_same_answers(fitted: dict[str, LifetimeModel], split: Split,
                                              settings: FitSettings) -> None:
    for name, model in fitted.items():
        again = _made(name).fit(split.train, split.valid, split.past, settings)
        np.testing.assert_array_equal(model.curve_table(split.test).remaining(600.0),
                                      again.curve_table(split.test).remaining(600.0), err_msg=name)


@pytest.mark.parametrize("name", ["cox", "rsf", "gbsa"])
def test_late_entries_are_left_out_where_the_estimator_does_not_know_them(name: str, settings: FitSettings) -> None:
    model = _made(name)
    assert isinstance(model, SurvivalModel)
    late = _drawn(0, 200)
    model.fit(late, late, late, settings)
    assert 0 < int((late.entry_s > 0.0).sum()) < len(late)
    n_early = int((late.entry_s <= 0.0).sum())
    assert n_early - 5 <= model.n_rows_ <= n_early  # rsf also leaves out rows censored in the first seconds


@pytest.mark.slow
def test_same_seed_same_bytes_whatever_the_thread_count(split: Split, settings: FitSettings) -> None:
    for name in ("gbdt-once", "gbdt-uptime", "gbdt-landmark", "hazard"):
        exports = []
        for n_threads in (1, 2):
            model = LIFETIME_MODELS[name]().fit(split.train, split.valid, split.past,
                                                replace(settings, n_threads=n_threads, params=None))
            exported = model.export()
            assert exported is not None
            exports.append(exported.forest)
        for part in ("split", "leaves", "feature"):
            np.testing.assert_array_equal(getattr(exports[0], part), getattr(exports[1], part))


def test_served_families_are_those_that_export(fitted: dict[str, LifetimeModel]) -> None:
    of_logs = ("online", "blend")  # they need the log of events, which these settings do not have
    assert (*(name for name, model in fitted.items() if model.export() is not None), *of_logs) == SERVED


def test_told_lifetimes_are_those_of_the_feature_they_are_named_after(
        fitted: dict[str, LifetimeModel], split: Split, settings: FitSettings) -> None:
    for name, feature in (("repeat-last", "deployment:last"), ("requested-time", "requested_s")):
        told = split.test.features[:, settings.names.index(feature)]
        is_known = ~np.isnan(told)
        log_told = told[is_known] if name == "repeat-last" else np.log10(told[is_known])
        answers = fitted[name].curve_table(split.test.take(is_known)).quantile(0.5, 0.0)
        shift = np.log10(np.maximum(answers, 1.0)) - log_told  # one factor for all, but for rounding to seconds
        assert np.ptp(shift[answers > 1_000.0]) < 1e-3
    assert np.median(shift) == pytest.approx(-1.25, abs=0.3)  # requests ask for 10^0.5 to 10^2 times their lifetime


@pytest.mark.parametrize(("name", "message"), [
    ("requested-time", "needs the feature requested_s; the trace has no requested time, got 2 other features"),
    ("repeat-last", "needs an owner's last lifetime, a feature OWNER:last; the trace has none, got 2 other features"),
])  # fmt: skip
def test_a_trace_without_what_is_told_is_refused(name: str, message: str, split: Split) -> None:
    with pytest.raises(ValueError, match=message):
        LIFETIME_MODELS[name]().fit(split.train, split.valid, split.past, FitSettings(names=("cpu_cores", "hour")))


def test_hazard_beats_one_shot_and_shares_at_absolute_ages(fitted: dict[str, LifetimeModel], split: Split) -> None:
    errors = {name: score_model(model.curve_table(split.test), split.test, 86_400)["age_1h.mae_log10_remaining"]
              for name, model in fitted.items()}
    assert errors["hazard"] < errors["gbdt-once"]
    assert errors["hazard"] < errors["gbdt-uptime"]


def _drawn(seed: int, n: int = 20_000) -> Examples:
    """Exponential lifetimes of mean 1,000 s; censored uniformly below 2,000 s; a third enters at its age."""
    rng = np.random.default_rng(seed)
    true_s = np.ceil(rng.exponential(1_000.0, n))
    censor_s = np.ceil(rng.uniform(1.0, 2_000.0, n))
    entry_s = np.where(rng.random(n) < 1 / 3, np.floor(rng.uniform(0.0, 500.0, n)), 0.0)
    lifetime_s = np.minimum(true_s, censor_s)
    examples = Examples(np.zeros((n, 1)), (np.zeros(n, np.int64),), lifetime_s, true_s <= censor_s, entry_s,
                        np.zeros(n, np.int64), np.arange(n))
    return examples.take(entry_s < lifetime_s)


def test_pooled_hazards_know_censoring_and_delayed_entry() -> None:
    examples = _drawn(0)
    intervals = fit_intervals(examples)
    hazard = np.log1p(np.exp(intervals.offsets))
    at_median = np.searchsorted(intervals.edges, 693.0)  # exp(-693 / 1000) = 0.5
    share = (693.0 - intervals.edges[at_median - 1]) / np.diff(intervals.edges)[at_median - 1]
    total = hazard[:at_median - 1].sum() + share * hazard[at_median - 1]
    assert np.exp(-total) == pytest.approx(0.5, abs=0.02)
    dropped = examples.take(examples.is_event)  # what dropping censored rows would give
    biased = np.log1p(np.exp(fit_intervals(dropped).offsets))
    assert biased.sum() > 1.3 * hazard[:len(biased)].sum() or len(biased) < len(hazard)
    assert np.median(dropped.lifetime_s) < 450.0


def test_person_periods_of_one_example_by_hand() -> None:
    edges = np.array([0.0, 10.5, 100.5, 1_000.5])
    one = Examples(np.zeros((3, 1)), (), np.array([50.0, 100.0, 2_000.0]), np.array([True, False, True]),
                   np.array([0.0, 5.0, 0.0]), np.zeros(3, np.int64), np.arange(3))
    periods = person_periods(one, edges)
    # a ends at 50 in interval 1; b enters at 5, leaves observation at 100 in interval 1; c outlives all three
    assert periods.idx.tolist() == [0, 0, 1, 1, 2, 2, 2]
    assert periods.interval.tolist() == [0, 1, 0, 1, 0, 1, 2]
    assert periods.is_end.tolist() == [False, True, False, False, False, False, False]
    # b was at risk from 5 to 10.5 of 10.5, then from 10.5 to 100 of 90
    np.testing.assert_allclose(periods.weight, [1.0, 1.0, 5.5 / 10.5, 89.5 / 90.0, 1.0, 1.0, 1.0])


def test_boosting_stops_on_the_validation_rows() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2_000, 3))
    label = features[:, 0] + rng.normal(size=2_000)
    boosted = boost("regression", Rows(features[:1_000], label[:1_000]), Rows(features[1_000:], label[1_000:]),
                    n_varying=0, n_threads=1, params=FAST)
    assert 1 <= boosted.n_rounds < 100
    assert len(boosted.forest.roots) == boosted.n_rounds
