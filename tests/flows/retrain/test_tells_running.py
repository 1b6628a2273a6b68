"""Columns written after the end, and honest ones that look alike: ids, near-unique numbers, mixes that drift."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from sojourn.features.split import Examples
from sojourn.flows.retrain.honest_columns import tells_running

END_S = 1_000_000
Column = Callable[[Examples, np.random.Generator], np.ndarray]


def _window(seed: int, n: int, median_s: float, spread: float = 1.0, share_long: float = 0.0) -> Examples:
    """n requests that arrive evenly until the trace ends, with log-normal lifetimes; a share of them never ends."""
    rng = np.random.default_rng(seed)
    arrival_s = np.sort(rng.integers(0, END_S, n))
    life_s = np.maximum(np.rint(median_s * np.exp(spread * rng.standard_normal(n))), 1.0)
    life_s[rng.random(n) < share_long] = 10 * END_S
    is_event = arrival_s + life_s <= END_S
    return Examples(np.zeros((n, 0)), (), np.minimum(life_s, END_S - arrival_s), is_event, np.zeros(n), arrival_s,
                    np.arange(n))


def _near_unique(test: Examples, rng: np.random.Generator) -> np.ndarray:
    return np.round(rng.normal(0.0, 1.0, len(test)), 4)


def _id(test: Examples, rng: np.random.Generator) -> np.ndarray:
    return np.arange(len(test))


def _batch(test: Examples, rng: np.random.Generator) -> np.ndarray:
    """The number of a batch of ten that arrive one after another."""
    return np.arange(len(test)) // 10


def _release(test: Examples, rng: np.random.Generator) -> np.ndarray:
    """A new image at every 20th of the window, and one shortly before its end."""
    return np.where(test.arrival_s > END_S - 4_000, 99, test.arrival_s // (END_S // 20))


def _common(test: Examples, rng: np.random.Generator) -> np.ndarray:
    return rng.choice(["a", "b", "c"], len(test), p=[0.9, 0.08, 0.02])


def _rare(test: Examples, rng: np.random.Generator) -> np.ndarray:
    return np.minimum(rng.zipf(1.3, len(test)), 10_000)


@pytest.mark.parametrize("column", [_near_unique, _id, _batch, _release, _common, _rare])
@pytest.mark.parametrize(("n", "median_s"), [(300, 10_000.0), (3_000, 1_000.0), (3_000, 10_000.0)])
def test_honest_columns_are_not_accused(column: Column, n: int, median_s: float) -> None:
    # about 5, 5 and 50 run at the end. Each seed is another trace
    found = [tells_running(pd.Series(column(test, np.random.default_rng(seed))), test)
             for seed in range(8) for test in [_window(seed, n, median_s)]]
    assert found == [""] * 8


def test_a_kind_of_request_that_runs_for_long_is_not_accused() -> None:
    for seed in range(8):
        test = _window(seed, 3_000, 10_000.0, share_long=0.1)
        kind = np.where(test.is_event | (test.lifetime_s < 20_000), "batch", "service")
        assert tells_running(pd.Series(kind), test) == ""


def _status(test: Examples, rng: np.random.Generator) -> np.ndarray:
    return np.where(~test.is_event, "running", rng.choice(["done", "failed"], len(test), p=[0.9, 0.1]))


def _end_reason(test: Examples, rng: np.random.Generator) -> np.ndarray:
    reason = rng.choice(["done", "failed", ""], len(test), p=[0.9, 0.09, 0.01]).astype(object)
    reason[(reason == "") | ~test.is_event] = None
    return reason


def _log_lifetime(test: Examples, rng: np.random.Generator) -> np.ndarray:
    return np.where(test.is_event, np.log10(test.lifetime_s) + rng.normal(0.0, 1.0, len(test)), np.nan)


def _end_s(test: Examples, rng: np.random.Generator) -> np.ndarray:
    return np.where(test.is_event, test.arrival_s + test.lifetime_s, -1)


@pytest.mark.parametrize(("column", "shown"), [(_status, "'running'"), (_end_reason, "no value"),
                                               (_log_lifetime, "no value"), (_end_s, "-1")])
@pytest.mark.parametrize(("n", "median_s"), [(1_200, 10_000.0), (3_000, 10_000.0)])
def test_columns_that_are_written_after_the_end_are_found(column: Column, shown: str, n: int, median_s: float) -> None:
    for seed in range(8):
        test = _window(seed, n, median_s)
        found = tells_running(pd.Series(column(test, np.random.default_rng(seed))), test)
        assert f"requests that still run at the trace's end have {shown}, " in found


def test_a_status_is_found_where_only_old_requests_run() -> None:
    test = _window(0, 3_000, 100.0, 0.1, share_long=0.02)
    assert (~test.is_event & (test.lifetime_s < 200)).sum() < 5
    assert tells_running(pd.Series(_status(test, np.random.default_rng(0))), test)


def test_it_is_said_of_how_many_rows() -> None:
    # 10 of 110 run, with the last arrivals, a second apart; the young are those below the 75 % quantile of lifetimes
    arrival_s = np.arange(110)
    is_event = arrival_s < 100
    life_s = np.where(is_event, 20.0, 110.0 - arrival_s)
    test = Examples(np.zeros((110, 0)), (), life_s, is_event, np.zeros(110), arrival_s, arrival_s)
    values = pd.Series(np.where(is_event, np.arange(110) / 7, 1234.56789))
    assert tells_running(values, test) == ("10 of 10 young requests that still run at the trace's end have 1235, "
                                           "0 of 100 that ended")
    assert tells_running(pd.Series(np.arange(110) / 7), test) == ""
    assert tells_running(values, test.take(~is_event)) == ""
