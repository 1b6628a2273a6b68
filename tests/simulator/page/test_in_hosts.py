"""The answer in hosts, core-hours and money."""

import math

import pandas as pd
import pytest

from sojourn.simulator.page.headline import headline
from sojourn.simulator.page.in_hosts import Pool, in_hosts

NAN = math.nan


def _rows(*others: tuple[str, str, float, float, float], bound: float = 40.0) -> pd.DataFrame:
    """Best-fit with 30 % empty hosts, and others: policy, predictor, gain, its interval."""
    every = [("best-fit", "", 0.0, 0.0, 0.0), *others]
    return pd.DataFrame([{
        "workload": "trace", "load": 0.8, "policy": policy, "predictor": predictor, "n_seeds": 5, "rejected_pct": 0.0,
        "label": f"{policy} ({predictor})" if predictor else policy, "empty_hosts_pct": 30.0 + gain,
        "bound_empty_hosts_pct": bound, "gain_pp": gain, "gain_low_pp": low, "gain_high_pp": high,
    } for policy, predictor, gain, low, high in every])  # fmt: skip


def test_what_can_be_run_today_is_told_apart_from_what_knows_the_future() -> None:
    rows = _rows(("nilas", "oracle", 6.0, 5.0, 7.0), ("nilas", "hazard", 3.5, 2.5, 4.5))
    assert in_hosts(rows, Pool(200, 96.0)) == [
        "Of 200 hosts, best-fit leaves 60 empty on average. At most 20 more could be switched off.",
        "A scheduler that you can run today frees 7.0 of them, nilas (hazard); 95 % between 5.0 and 9.0.",
        # 7 x 96 x 24, 5 x 96 x 24, 9 x 96 x 24
        "That is 16,128 core-hours a day (95 % between 11,520 and 20,736)."]


def test_money_is_a_year_of_host_hours() -> None:
    rows = _rows(("nilas", "hazard", 10.0, NAN, NAN))
    # 10 hosts x 8,760 h x 0.5; one seed has no interval
    assert in_hosts(rows, Pool(100, 2.0, 0.5))[2] == (
        "That is 480 core-hours a day, and 43,800 a year at 0.5 per host-hour.")


@pytest.mark.parametrize(("others", "words"), [
    ([("nilas", "hazard", -0.5, -1.0, 0.0)], "Nothing that you can run today frees more hosts than best-fit."),
    ([("nilas", "hazard", 0.5, -0.5, 1.5)], "Nothing that you can run today is shown to free more hosts than best-fit. "
                                           "The best, nilas (hazard), frees 0.5 of them; 95 % between -0.5 and 1.5."),
    ([("nilas", "oracle", 6.0, 5.0, 7.0)], "With lifetimes known in advance, nilas (oracle) would free 6.0 of them. "
                                          "What a model that you can run today frees was not replayed; --predictor "
                                          "hazard does it."),
])
def test_no_gain_is_said(others: list[tuple[str, str, float, float, float]], words: str) -> None:
    assert in_hosts(_rows(*others), Pool(100, 2.0, 0.5))[1:] == [words]


def test_a_pool_without_bound_or_others() -> None:
    assert in_hosts(_rows(), Pool(100, 2.0)) == []
    rows = _rows(("nilas", "hazard", 3.0, 2.0, 4.0)).drop(columns="bound_empty_hosts_pct")
    assert in_hosts(rows, Pool(100, 2.0))[0] == "Of 100 hosts, best-fit leaves 30 empty on average."
    for price in (0.0, -1.0, NAN, math.inf):
        with pytest.raises(ValueError, match="price_per_host_hour must be finite and above 0"):
            Pool(100, 2.0, price)


def test_the_page_says_hosts_first_and_what_its_words_mean() -> None:
    lines = headline(_rows(("nilas", "hazard", 3.5, 2.5, 4.5)), Pool(200, 96.0))
    assert lines[0].startswith("Of 200 hosts, best-fit leaves 60 empty")
    assert lines[1].startswith("1 pp (percentage point) is 1 % of the hosts, here 2. The bound is")
    assert "+3.50 pp (95 % interval +2.50 to +4.50)" in lines[2]
