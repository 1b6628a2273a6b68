"""The answer in hosts, core-hours and money."""

import math

import pandas as pd
import pytest

from sojourn.simulator.page import Pool, in_hosts
from sojourn.simulator.page.headline import headline

NAN = math.nan


def _rows(*others: tuple[str, str, float, float, float], bound: float = 40.0) -> pd.DataFrame:
    """Best-fit with 30 % empty hosts, and others: policy, predictor, gain, its interval."""
    every = [("best-fit", "", 0.0, 0.0, 0.0), *others]
    return pd.DataFrame([{
        "workload": "trace", "load": 0.8, "policy": policy, "predictor": predictor, "n_seeds": 5, "rejected_pct": 0.0,
        "label": f"{policy} ({predictor})" if predictor else policy, "empty_hosts_pct": 30.0 + gain,
        "bound_empty_hosts_pct": bound, "gain_pp": gain, "gain_low_pp": low, "gain_high_pp": high,
    } for policy, predictor, gain, low, high in every])  # fmt: skip


def test_what_can_be_deployed_is_told_apart_from_what_knows_the_future() -> None:
    rows = _rows(("nilas", "oracle", 6.0, 5.0, 7.0), ("nilas", "hazard", 3.5, 2.5, 4.5))
    assert in_hosts(rows, Pool(200, 96.0)) == [
        "Of 200 hosts, best-fit leaves 60 empty, as a mean over time. Perfect placement could empty at most 20 more.",
        "A scheduler that can be deployed today empties 7.0 more than best-fit: nilas (hazard), 95 % interval 5.0 to "
        "9.0.",
        "7.0 hosts are 16,128 core-hours a day (11,520 to 20,736).",  # 7 x 96 x 24, 5 x 96 x 24, 9 x 96 x 24
        "With the trace's own future known, nilas (oracle) would empty 12 more, 95 % interval 10 to 14.",
        "Next: try it on a part of your hosts."]


def test_money_is_a_year_of_host_hours() -> None:
    rows = _rows(("nilas", "hazard", 10.0, NAN, NAN))
    # 10 hosts x 8,760 h x 0.5; one seed has no interval
    assert in_hosts(rows, Pool(100, 2.0, 0.5))[2:] == [
        "10 hosts are 480 core-hours a day, and 43,800 a year at 0.5 per host-hour.",
        "Next: replay more seeds (--n-seeds): one tells nothing of chance."]


def test_one_host_is_not_hosts() -> None:
    rows = _rows(("nilas", "hazard", 3.5, 2.5, 4.5))
    assert in_hosts(rows, Pool(1, 96.0))[0].startswith("Of 1 host, best-fit leaves 0.3 empty")


@pytest.mark.parametrize(("others", "lines"), [
    ([("nilas", "hazard", -0.5, -1.0, 0.0)],
     ["Nothing that can be deployed today empties more hosts than best-fit.", "Next: keep best-fit."]),
    ([("nilas", "hazard", 0.5, -0.5, 1.5)],
     ["Nothing that can be deployed today is proven better than best-fit: the best, nilas (hazard), emptied 0.5 more, "
      "95 % interval -0.5 to 1.5, which may be chance.",
      "0.5 hosts are 24 core-hours a day (-24 to 72), and 2,190 a year at 0.5 per host-hour (-2,190 to 6,570).",
      "Next: keep best-fit, or replay more seeds (--n-seeds) for a narrower interval."]),
    ([("nilas", "oracle", 6.0, 5.0, 7.0)],
     ["With the trace's own future known, nilas (oracle) would empty 6.0 more, 95 % interval 5.0 to 7.0.",
      "Next: replay what can be deployed: --predictor hazard."]),
    ([("nilas", "oracle", -6.0, -7.0, -5.0)],
     ["Nothing empties more than best-fit with the trace's own future known, either.",
      "Next: replay what can be deployed: --predictor hazard."]),
])
def test_no_gain_is_said(others: list[tuple[str, str, float, float, float]], lines: list[str]) -> None:
    assert in_hosts(_rows(*others), Pool(100, 2.0, 0.5))[1:] == lines


def test_seeds_with_other_numbers_of_hosts_are_said() -> None:
    rows = _rows(("nilas", "hazard", 3.0, 2.0, 4.0))
    assert in_hosts(rows, Pool(40, 2.0, fewest=32, most=49))[0].startswith(
        "Of 40 hosts (mean of the seeds, which have 32 to 49), best-fit leaves 12 empty")
    assert in_hosts(rows, Pool(40, 2.0, fewest=40, most=40))[0].startswith("Of 40 hosts, best-fit leaves 12 empty")


def test_a_pool_without_bound_or_others() -> None:
    assert in_hosts(_rows(), Pool(100, 2.0)) == []
    rows = _rows(("nilas", "hazard", 3.0, 2.0, 4.0)).drop(columns="bound_empty_hosts_pct")
    assert in_hosts(rows, Pool(100, 2.0))[0] == "Of 100 hosts, best-fit leaves 30 empty, as a mean over time."
    for price in (0.0, -1.0, NAN, math.inf):
        with pytest.raises(ValueError, match="price_per_host_hour must be finite and above 0"):
            Pool(100, 2.0, price)


def test_the_page_says_hosts_first_and_what_its_words_mean() -> None:
    lines = headline(_rows(("nilas", "hazard", 3.5, 2.5, 4.5)), Pool(200, 96.0))
    assert lines[0].startswith("Of 200 hosts, best-fit leaves 60 empty")
    assert lines[0].endswith("95 % interval 5.0 to 9.0. Next: try it on a part of your hosts.")
    assert lines[1].startswith("7.0 hosts are ")
    assert lines[2].startswith("1 pp (percentage point) is 1 % of the hosts, here 2. Intervals are over the seeds")
    assert "demand fills 80 % of the hosts" in lines[2]
    assert "+3.50 pp (95 % interval +2.50 to +4.50)" in lines[3]
    assert headline(_rows(("nilas", "hazard", -3.5, -4.5, -2.5)), Pool(200, 96.0))[0].endswith("Next: keep best-fit.")
