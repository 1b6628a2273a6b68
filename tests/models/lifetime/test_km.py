"""The lookup table: scikit-survival's product-limit estimate for each key, at a cost that rises with n log n."""

from __future__ import annotations

import numpy as np
import pytest
import sksurv.nonparametric
from sksurv.nonparametric import kaplan_meier_estimator

from sojourn.features.split import Examples
from sojourn.models import FitSettings
from sojourn.models.lifetime.baselines import N_EVENTS_MIN, KaplanMeierModel
from sojourn.models.lifetime.intervals import interval_hazards


def _examples(n: int, seed: int = 0) -> Examples:
    """Examples of some 12 owners and 3 groups, a fifth of them unknown; 40 % come under observation late."""
    rng = np.random.default_rng(seed)
    entry_s = np.where(rng.random(n) < 0.4, rng.integers(0, 5_000, n), 0).astype(float)
    owner = rng.integers(-3, 12, n).clip(-1)
    return Examples(rng.normal(size=(n, 2)), (np.where(owner < 0, -1, owner // 4), owner),
                    entry_s + rng.integers(1, 50_000, n), rng.random(n) < 0.6, entry_s, np.arange(n), np.arange(n))


def _expected(examples: Examples, model: KaplanMeierModel) -> list[float]:
    times, survival = kaplan_meier_estimator(examples.is_event, examples.lifetime_s, examples.entry_s)
    position = np.searchsorted(times, model.axis_.intervals.edges, side="right") - 1
    at_edges = np.where(position < 0, 1.0, survival[np.maximum(position, 0)])
    own = model.axis_.intervals
    return interval_hazards(at_edges, own.edges, own.offsets, float(examples.lifetime_s.max())).tolist()


@pytest.mark.parametrize("seed", range(3))
def test_every_key_has_scikit_survivals_hazards_to_the_bit(seed: int) -> None:
    past = _examples(900, seed)
    model = KaplanMeierModel().fit(past, past, past, FitSettings(idx_backoff=(0, 1)))
    assert model.hazards_[0].tolist() == _expected(past, model)
    for codes, found in zip(past.keys, model.lookup_.rows, strict=True):
        n_events = {code: int(past.is_event[codes == code].sum()) for code in set(codes.tolist()) if code >= 0}
        assert set(found) == {code for code, n in n_events.items() if n >= N_EVENTS_MIN}
        for code, row in found.items():
            assert model.hazards_[row].tolist() == _expected(past.take(codes == code), model)
    assert len(model.lookup_.rows[0]) == 3 and 6 < len(model.lookup_.rows[1]) < 12


def test_late_entries_do_not_make_the_fit_quadratic(monkeypatch: pytest.MonkeyPatch) -> None:
    """scikit-survival's estimator takes minutes here: with entry times it counts who is at risk anew at each time."""
    def never(*args: object) -> None:
        raise AssertionError("quadratic in the rows")

    monkeypatch.setattr(sksurv.nonparametric, "kaplan_meier_estimator", never)
    past = _examples(50_000)
    model = KaplanMeierModel().fit(past, past.take(np.arange(10)), past, FitSettings(idx_backoff=(0, 1)))
    assert len(model.hazards_) == 1 + 3 + 12
