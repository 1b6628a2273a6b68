"""Families fitted at once: those that combine others come later, the order of results stays, and a failure ends all."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from sojourn.features.split import Split
from sojourn.flows.retrain import train as train_module
from sojourn.flows.retrain.train import AT_ONCE_UP_TO, fit_families
from sojourn.models.lifetime import STOP, FitSettings, Rows
from sojourn.models.lifetime.gbdt import boost

NAMES = ("km", "hazard", "mixture", "online", "blend")
WAIT_S = 60.0


def _split(n_requests: int) -> Split:
    return cast(Split, SimpleNamespace(past=range(n_requests)))


def _fitted(monkeypatch: pytest.MonkeyPatch, fit: Any) -> None:
    def one(name: str, split: Split, settings: FitSettings, threshold_s: int) -> Any:
        fit(name, settings)
        return SimpleNamespace(family=name, model=name)

    monkeypatch.setattr(train_module, "fit_family", one)


@pytest.mark.parametrize(("n_threads", "n_requests", "of_each"), [
    (1, 10, dict.fromkeys(NAMES, 1)),
    (2, 10, {"km": 1, "hazard": 1, "online": 1, "mixture": 2, "blend": 2}),  # two at once, then one after the other
    (6, 10, {"km": 2, "hazard": 2, "online": 2, "mixture": 6, "blend": 6}),
    (6, AT_ONCE_UP_TO + 1, dict.fromkeys(NAMES, 6)),  # one after the other
])
def test_families_that_combine_others_are_given_them(monkeypatch: pytest.MonkeyPatch, n_threads: int, n_requests: int,
                                                     of_each: dict[str, int]) -> None:
    known: dict[str, set[str]] = {}
    threads: dict[str, int] = {}

    def fit(name: str, settings: FitSettings) -> None:
        known[name], threads[name] = set(settings.fitted), settings.n_threads

    _fitted(monkeypatch, fit)
    found = fit_families(NAMES, _split(n_requests), FitSettings(n_threads=n_threads), 60)
    assert [each.family for each in found] == [*NAMES]
    alone = {"km", "hazard", "online"}
    assert known == {**{name: set() for name in alone}, "mixture": alone, "blend": alone}
    assert threads == of_each


def test_two_fits_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2)
    _fitted(monkeypatch, lambda name, settings: both.wait(WAIT_S))  # raises if the other one never comes
    assert len(fit_families(("km", "hazard"), _split(10), FitSettings(n_threads=2), 60)) == 2


def test_a_refusal_ends_the_other_fits_at_their_next_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows(np.arange(40.0)[:, None], np.arange(40.0))
    ended = threading.Event()
    begun = threading.Event()

    def fit(name: str, settings: FitSettings) -> None:
        if name == "km":
            assert begun.wait(WAIT_S)
            raise ValueError("km refuses")
        begun.set()
        stop = STOP.get()
        assert stop is not None and stop.wait(WAIT_S)
        with pytest.raises(InterruptedError):
            boost("regression", rows, None, n_varying=0, n_rounds=3, n_threads=1)
        ended.set()

    _fitted(monkeypatch, fit)
    with pytest.raises(ValueError, match="km refuses"):
        fit_families(("km", "hazard"), _split(10), FitSettings(n_threads=2), 60)
    assert ended.is_set() and STOP.get() is None
    assert boost("regression", rows, None, n_varying=0, n_rounds=3, n_threads=1).n_rounds == 3


def test_one_thread_grows_the_trees_of_two() -> None:
    rng = np.random.default_rng(3)
    features = rng.normal(size=(4_000, 12))
    features[:, 4:] = np.where(rng.random((4_000, 8)) < 0.8, 0.0, features[:, 4:])
    label = features[:, 0] * features[:, 1] + features[:, 5] + rng.normal(size=4_000)
    for objective, each in (("regression", label), ("binary", (label > 0.3).astype(float))):
        rows = Rows(features, each, rng.random(4_000) + 0.1)
        one, two, three = (boost(objective, rows, None, n_varying=2, n_rounds=20, n_threads=n) for n in (1, 2, 3))
        for other in (two, three):
            np.testing.assert_array_equal(one.forest.leaves, other.forest.leaves)
            np.testing.assert_array_equal(one.forest.split, other.forest.split)
