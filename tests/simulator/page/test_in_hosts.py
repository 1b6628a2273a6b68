"""The answer in hosts, host-hours and money; the first page that shows it."""

import math
import re

import pandas as pd
import pytest

from sojourn.simulator.experiments import caveats
from sojourn.simulator.page import Pool, answer, in_hosts
from sojourn.simulator.page.comparison_data import MIGRATE
from sojourn.simulator.page.headline import answer_html, leaves_out, picture_html

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
        "7.0 hosts: try nilas (hazard) in place of best-fit.",
        # 7, 5 and 9 hosts x 730 h
        "That is 5,110 host-hours (node-hours) a month, 95 % interval 3,650 to 6,570.",
        "Of 200 hosts of 96 cores, best-fit leaves 60 empty, as a mean over time. Perfect placement could empty at "
        "most 20 more.",
        "nilas (hazard) empties 7.0 more, 95 % interval 5.0 to 9.0.",
        "With the trace's own future known, nilas (oracle) would empty 12 more, 95 % interval 10 to 14.",
        f"Next: try it on a part of your hosts; {MIGRATE}"]


def test_money_is_a_month_of_host_hours_and_one_replay_has_no_interval() -> None:
    lines = in_hosts(_rows(("nilas", "hazard", 10.0, NAN, NAN)), Pool(100, 2.0, 0.5))
    assert lines[0] == "10 hosts in one replay: replay more seeds before you try nilas (hazard)."
    # 10 hosts x 730 h x 0.5
    assert lines[1] == "That is 7,300 host-hours (node-hours) a month; in money 3,650 a month at 0.5 per host-hour."
    assert lines[-1] == f"Next: replay more seeds (--n-seeds): one tells nothing of chance; {MIGRATE}"


def test_who_has_replayed_migrations_is_not_told_to() -> None:
    rows = _rows(("nilas", "hazard", 10.0, 9.0, 11.0), ("nilas + value:5", "hazard", 11.0, 10.0, 12.0))
    lines = in_hosts(rows.assign(n_rectified=[NAN, NAN, 7.0]), Pool(100, 2.0))
    assert lines[-1] == "Next: try it on a part of your hosts."


@pytest.mark.parametrize(("others", "bound", "words"), [
    ([("nilas", "hazard", 0.1, -0.5, 0.7)], 31.0,
     "Of the hosts that could be empty, best-fit already leaves 97 % so: there is little to gain."),
    ([("nilas", "hazard", 0.5, -0.5, 1.5), ("nilas", "oracle", 2.0, 1.0, 3.0)], 40.0,
     "Predictions bring 25 % of what the trace's own future would: they do not tell well enough when requests end."),
    ([("nilas", "hazard", -0.5, -1.5, 0.5), ("nilas", "oracle", 2.0, 1.0, 3.0)], 40.0,
     "Predictions bring 0 % of what the trace's own future would: they do not tell well enough when requests end."),
])
def test_where_nothing_is_gained_it_is_said_why(others: list[tuple[str, str, float, float, float]], bound: float,
                                                words: str) -> None:
    assert words in in_hosts(_rows(*others, bound=bound), Pool(100, 2.0))
    gained = in_hosts(_rows(("nilas", "hazard", 0.9, 0.5, 1.3), bound=31.0), Pool(100, 2.0))
    assert not any("little to gain" in line for line in gained)


def test_one_host_is_not_hosts() -> None:
    rows = _rows(("nilas", "hazard", 3.5, 2.5, 4.5))
    assert in_hosts(rows, Pool(1, 96.0))[2].startswith("Of 1 host of 96 cores, best-fit leaves 0.3 empty")


KEPT = "0 hosts: keep best-fit."
NO_WORTH = "That is 0 host-hours (node-hours) a month, and no money at any price."


@pytest.mark.parametrize(("others", "lines"), [
    ([("nilas", "hazard", -0.5, -1.0, 0.0)],
     [KEPT, NO_WORTH, "Nothing that can be deployed today empties more hosts than best-fit.",
      f"Next: keep best-fit; {MIGRATE}"]),
    ([("nilas", "hazard", 0.0, 0.0, 0.0)],
     [KEPT, NO_WORTH, "Nothing that can be deployed today empties more hosts than best-fit.",
      f"Next: keep best-fit; {MIGRATE}"]),
    ([("nilas", "hazard", 0.5, -0.5, 1.5)],
     [KEPT, NO_WORTH,
      "Nothing that can be deployed today is proven better than best-fit: the best, nilas (hazard), emptied 0.5 more, "
      "95 % interval -0.5 to 1.5, which may be chance.",
      f"Next: keep best-fit, or replay more seeds (--n-seeds) for a narrower interval; {MIGRATE}"]),
    # surely above 0, and 0.04 of 100 hosts
    ([("nilas", "hazard", 0.04, 0.03, 0.05)],
     [KEPT, NO_WORTH, "The best that can be deployed, nilas (hazard), empties less than 0.05 of a host more.",
      f"Next: keep best-fit; {MIGRATE}"]),
    ([("nilas", "oracle", 6.0, 5.0, 7.0)],
     ["At most 6.0 hosts, if lifetimes were known; no model was replayed yet.",
      "With the trace's own future known, nilas (oracle) would empty 6.0 more, 95 % interval 5.0 to 7.0.",
      "Next: the same with --predictor hazard, a model of the trace's earlier part."]),
    ([("nilas", "oracle", 0.01, -0.04, 0.06)],
     ["At most 0 hosts, if lifetimes were known; no model was replayed yet.",
      "With the trace's own future known, nilas (oracle) would empty less than 0.05 of a host more.",
      "Next: the same with --predictor hazard, a model of the trace's earlier part."]),
    ([("nilas", "oracle", -6.0, -7.0, -5.0)],
     ["At most 0 hosts, if lifetimes were known; no model was replayed yet.",
      "Nothing empties more than best-fit with the trace's own future known, either.",
      "Next: the same with --predictor hazard, a model of the trace's earlier part."]),
])  # fmt: skip
def test_no_gain_is_zero_hosts(others: list[tuple[str, str, float, float, float]], lines: list[str]) -> None:
    found = in_hosts(_rows(*others), Pool(100, 2.0, 0.5))
    assert [line for line in found if not line.startswith("Of 100 hosts")] == lines
    assert "-0.0" not in " ".join(found)


def test_a_gain_that_is_proven_is_taken_before_a_larger_one_that_may_be_chance() -> None:
    found = answer(_rows(("lava", "km", 5.0, -1.0, 11.0), ("nilas", "km", 4.0, 3.0, 5.0)), Pool(100, 2.0))
    assert (found.line, found.label) == ("4.0 hosts: try nilas (km) in place of best-fit", "nilas (km)")


def test_a_policy_that_rejects_more_than_best_fit_is_no_answer() -> None:
    rows = _rows(("first-fit", "", 7.0, 6.0, 8.0)).assign(rejected_pct=[0.0, 1.0])
    found = answer(rows, Pool(100, 2.0))
    assert found.line == "0 hosts: keep best-fit"
    assert found.why[-1] == ("first-fit emptied 7.0 more, 95 % interval 6.0 to 8.0, but it rejects more than best-fit: "
                             "part of the empty hosts may be work that was not taken.")
    both = _rows(("first-fit", "", 7.0, 6.0, 8.0), ("nilas", "km", -1.0, -2.0, 0.0))
    both = both.assign(rejected_pct=[0.0, 1.0, 0.0])
    assert answer(both, Pool(100, 2.0)).why[-1] == (
        "Nothing that can be deployed today and rejects no more than best-fit empties more hosts than best-fit.")


def _against_first_fit(*others: tuple[str, str, float, float, float], first_fit: float = 2.0) -> pd.DataFrame:
    """As `_rows`, with first-fit as the rival: all gains over it are less by what it gains."""
    rows = _rows(("first-fit", "", first_fit, first_fit - 0.5, first_fit + 0.5), *others)
    over = {f"over_rival{end}_pp": rows[f"gain{end}_pp"] - first_fit for end in ("", "_low", "_high")}
    return rows.assign(rival="first-fit" if first_fit > 0.0 else "best-fit",
                       **(over if first_fit > 0.0 else {name: values + first_fit for name, values in over.items()}))


def test_the_gain_is_over_the_better_of_best_fit_and_first_fit() -> None:
    rows = _against_first_fit(("nilas", "oracle", 6.0, 5.0, 7.0), ("nilas", "hazard", 3.5, 2.5, 4.5))
    assert in_hosts(rows, Pool(200, 96.0)) == [
        "3.0 hosts: try nilas (hazard) in place of first-fit.",
        # 3, 1 and 5 hosts x 730 h
        "That is 2,190 host-hours (node-hours) a month, 95 % interval 730 to 3,650.",
        "Of 200 hosts of 96 cores, first-fit leaves 64 empty, as a mean over time, best-fit 60. Perfect placement "
        "could empty at most 16 more.",
        "nilas (hazard) empties 3.0 more than first-fit, 95 % interval 1.0 to 5.0.",
        "With the trace's own future known, nilas (oracle) would empty 8.0 more, 95 % interval 6.0 to 10.",
        f"Next: try it on a part of your hosts; {MIGRATE}"]
    assert "Nothing deployable is significantly" not in " ".join(caveats(rows))


def test_a_gain_that_first_fit_has_too_is_none() -> None:
    rows = _against_first_fit(("nilas", "oracle", 6.0, 5.0, 7.0), ("nilas", "hazard", 1.5, 0.5, 2.5))
    lines = in_hosts(rows, Pool(200, 96.0))
    assert lines[0] == "0 hosts: place by first-fit, which needs no lifetimes."
    assert "Nothing that can be deployed today empties more hosts than first-fit." in lines
    assert caveats(rows)[0] == "Nothing deployable beats first-fit."
    # first-fit alone is not proven better than best-fit
    lines = in_hosts(rows.assign(gain_low_pp=rows["gain_low_pp"] - 2.0), Pool(200, 96.0))
    assert lines[0] == "0 hosts: keep best-fit."
    text = picture_html(rows, Pool(200, 96.0))
    assert text.index("<dt>best-fit</dt>") < text.index("<dt>first-fit <small>without lifetimes</small></dt>")


def test_a_first_fit_that_is_worse_changes_nothing_but_a_word() -> None:
    rows = _against_first_fit(("nilas", "oracle", 6.0, 5.0, 7.0), first_fit=-1.0)
    assert answer(rows, Pool(200, 96.0)).line.startswith("At most 12 hosts, if lifetimes were known")
    assert "best-fit leaves 60 empty, as a mean over time, first-fit 58." in answer(rows, Pool(200, 96.0)).why[0]
    # alone beside best-fit it is a policy as any other
    alone = _against_first_fit()
    assert answer(alone, Pool(200, 96.0)).line == "4.0 hosts: try first-fit in place of best-fit"


def test_without_a_pool_the_answer_is_a_share_of_the_hosts() -> None:
    found = answer(_rows(("nilas", "km", 2.0, 1.5, 2.5)))
    assert found.line == "2.00 % of the hosts: try nilas (km) in place of best-fit"
    assert (found.host_hours, found.worth(1.0)) == (None, "")
    assert found.why == ("best-fit leaves 30.00 % of the hosts empty, as a mean over time. Perfect placement could "
                         "empty at most 10.00 % more.",
                         "nilas (km) empties 2.00 % more, 95 % interval 1.50 % to 2.50 %.")
    assert answer(_rows(("nilas", "km", 0.004, 0.003, 0.005))).line == "0 hosts: keep best-fit"


def test_seeds_with_other_numbers_of_hosts_are_said() -> None:
    rows = _rows(("nilas", "hazard", 3.0, 2.0, 4.0))
    assert in_hosts(rows, Pool(40, 2.0, fewest=32, most=49))[2].startswith(
        "Of 40 hosts of 2 cores (mean of the seeds, which have 32 to 49), best-fit leaves 12 empty")
    assert in_hosts(rows, Pool(40, 2.0, fewest=40, most=40))[2].startswith(
        "Of 40 hosts of 2 cores, best-fit leaves 12 empty")


def test_a_pool_without_bound_or_others() -> None:
    assert in_hosts(_rows(), Pool(100, 2.0)) == []
    assert answer(_rows(), Pool(100, 2.0)).line == "No answer: only best-fit was replayed"
    rows = _rows(("nilas", "hazard", 3.0, 2.0, 4.0)).drop(columns="bound_empty_hosts_pct")
    assert in_hosts(rows, Pool(100, 2.0))[2] == (
        "Of 100 hosts of 2 cores, best-fit leaves 30 empty, as a mean over time.")
    for price in (0.0, -1.0, NAN, math.inf):
        with pytest.raises(ValueError, match="price_per_host_hour must be finite and above 0"):
            Pool(100, 2.0, price)


def test_the_first_page_has_the_answer_once_with_a_price_that_can_be_changed() -> None:
    rows = _rows(("nilas", "oracle", 6.0, 5.0, 7.0), ("nilas", "hazard", 3.5, 2.5, 4.5))
    text = answer_html(rows, Pool(200, 96.0, 0.5))
    assert text.count("7.0 hosts: try nilas (hazard) in place of best-fit") == 1
    assert 'data-month="5110 3650 6570"' in text
    assert '<output id="money">2,555 (1,825 to 3,285)</output>' in text
    assert 'type="number" min="0" step="any" value="0.5"' in text
    unknown = answer_html(rows, Pool(200, 96.0))
    assert 'class="worth money unset"' in unknown and 'value=""' in unknown
    kept = answer_html(_rows(("nilas", "hazard", -3.5, -4.5, -2.5)), Pool(200, 96.0, 0.5))
    assert "0 hosts: keep best-fit" in kept and "no money at any price" in kept
    assert "<input" not in kept


def test_the_picture_shows_the_hosts_that_the_answer_is_about() -> None:
    rows = _rows(("nilas", "oracle", 6.0, 5.0, 7.0), ("lava", "km", 5.0, -1.0, 11.0), ("nilas", "km", 3.5, 2.5, 4.5))
    text = picture_html(rows, Pool(200, 96.0))
    # 30 % of 200, 3.5 pp more, 6 pp more, the bound of 40 %
    assert re.findall(r"<dt>([^<]+?) ?<", text) == ["best-fit", "nilas (km)", "nilas (oracle)", "perfect placement"]
    assert re.findall(r"</span>([^<]+)</dd>", text) == ["60.0", "67.0", "72.0", "80.0"]
    assert re.findall("width:([0-9.]+)%", text) == ["30.00", "33.50", "36.00", "40.00"]


def test_what_the_answer_does_not_cover() -> None:
    rows = _rows(("nilas", "km", 2.0, 1.5, 2.5), ("lava", "km", 1.0, 0.5, 1.5)).assign(n_hosts=14.0)
    lines = leaves_out(rows.assign(rejected_pct=[0.2, 0.2, 1.5]))
    assert lines[:3] == [
        "Only 14 hosts: differences of a point or two may be chance.",
        "More requests rejected than by best-fit: lava (km). Part of the empty hosts may be work that was not taken.",
        "Chosen as the best of 2 by these same replays: the interval does not allow for it."]
    assert "Another month or another cluster: replay its own trace." in lines
    assert lines[-1] == "Other loads: at the busiest moment demand fills 80 % of the hosts."
