"""The pre/post analysis on made series whose effect is known, its picture, and the table of A/B and pre/post."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import sojourn.simulator as sim
from sojourn.features.synthetic import synthesize
from studies import launches as ab_estimates
from studies.launches import PrePost, ab_summary, pre_post, pre_post_figure, run_ab_pool

BIN_S = 7_200
LAUNCH_S = 150 * BIN_S


def made(seed: int, effect_pp: float = 5.0) -> pd.DataFrame:
    """300 bins of a pool that empties a day behind its bound, with an autoregressive rest."""
    rng = np.random.default_rng(seed)
    time_s = np.arange(300) * BIN_S
    bound = 50 + 8 * np.sin(2 * np.pi * time_s / 604_800) + np.convolve(rng.normal(size=305), np.ones(6) / 6, "valid")
    rest = np.zeros(300)
    for k in range(1, 300):
        rest[k] = 0.8 * rest[k - 1] + rng.normal(scale=0.4)
    behind = pd.Series(bound).rolling(12, min_periods=1).mean().to_numpy()
    empty = 0.4 * bound + 0.6 * behind - 12 + rest + effect_pp * (time_s >= LAUNCH_S)
    return pd.DataFrame({"time_s": time_s, "empty_hosts_pct": empty, "bound_empty_hosts_pct": bound})


@pytest.mark.slow
def test_it_finds_the_effect_and_none_where_there_is_none() -> None:
    found = [(effect, pre_post(made(seed, effect), LAUNCH_S)) for effect in (0.0, 5.0) for seed in range(5)]
    n_held = sum(own.effect_low_pp < effect < own.effect_high_pp for effect, own in found)
    # each of 10 intervals holds the effect with probability 0.95: fewer than 7 with probability 0.001
    assert n_held >= 7
    assert all(abs(own.effect_pp - effect) < 2 for effect, own in found)
    assert all(own.effect_high_pp - own.effect_low_pp < 5 for _, own in found)


def test_same_seed_same_bytes() -> None:
    first, again = (pre_post(made(1), LAUNCH_S, seed=4) for _ in range(2))
    assert first.expected_pct.tobytes() == again.expected_pct.tobytes()
    assert first.effect_low_pp == again.effect_low_pp


def test_what_comes_after_the_launch_does_not_move_what_came_before() -> None:
    series = made(2)
    changed = series.assign(empty_hosts_pct=series["empty_hosts_pct"] - 30 * (series["time_s"] >= LAUNCH_S))
    before, after = (pre_post(own, LAUNCH_S) for own in (series, changed))
    assert before.expected_pct.tobytes() == after.expected_pct.tobytes()
    assert after.effect_pp == pytest.approx(before.effect_pp - 30)


def test_the_warm_up_is_left_out() -> None:
    series = made(3)
    series.loc[:19, "empty_hosts_pct"] = 1e6
    found = pre_post(series, LAUNCH_S, warmup_s=20 * BIN_S)
    assert found.time_s[0] == 20 * BIN_S
    assert len(found.observed_pct) == len(found.low_pct) == 280
    assert abs(found.effect_pp - 5) < 2


def test_a_launch_too_near_an_end_is_refused() -> None:
    with pytest.raises(ValueError, match=r"from_s must .*, got 19 before and 281"):
        pre_post(made(0), 19 * BIN_S)
    with pytest.raises(ValueError, match="got 281 before and 19 after"):
        pre_post(made(0), 281 * BIN_S)


def test_the_picture_has_three_panels() -> None:
    series = made(0)
    found = pre_post(series, LAUNCH_S)
    figure = pre_post_figure(found, "made", series["empty_hosts_pct"].to_numpy() - 5.0 * (series["time_s"] >= LAUNCH_S))
    assert isinstance(found, PrePost)
    assert isinstance(figure, Figure)
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels == ["empty hosts (%)", "effect (pp)", "effect, summed (pp x days)"]


def workload_of_seed(seed: int) -> sim.Workload:
    return sim.build_workload("trace", synthesize(3_000, seed=seed, days=7.0), cpu_cores=32, mem_gib=128)


def test_experiments_on_a_policy_that_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its truth is two whole replays, and only the placebo's is 0. The launch is from the start on: a later one
    compiles a loop of its own, as in the test of the preset.
    """
    monkeypatch.setattr(ab_estimates, "switched", lambda policy, from_s: policy)
    workload = workload_of_seed(0)
    table = run_ab_pool(workload_of_seed, "nilas", sim.Oracle, [0]).set_index("method")
    gain_pp = (sim.simulate(workload, "nilas", sim.Oracle(workload)).metrics.empty_hosts_pct
               - sim.simulate(workload).metrics.empty_hosts_pct)
    true_pp, effect_pp = table["true_pp"].to_dict(), table["effect_pp"].to_dict()
    assert gain_pp != 0
    assert true_pp["A/B"] == true_pp["A/B from the bound"] == gain_pp
    assert true_pp["A/A"] == 0
    assert effect_pp["A/B"] != effect_pp["A/A"]
    assert true_pp["pre/post"] not in (0, gain_pp)  # of the second half of the time alone


def test_an_unknown_policy_is_named() -> None:
    with pytest.raises(ValueError, match=r"policy must .*, got 'wizard'"):
        run_ab_pool(workload_of_seed, "wizard", sim.Oracle, [0])


def test_a_table_of_experiments() -> None:
    table = run_ab_pool(workload_of_seed, "best-fit", sim.Oracle, [0, 1])
    assert table["seed"].tolist() == [0] * 4 + [1] * 4
    assert (table["true_pp"] == 0).all()
    assert ((table["low_pp"] <= table["effect_pp"]) & (table["effect_pp"] <= table["high_pp"])).all()
    effects = table.groupby("method")["effect_pp"].apply(list)
    assert effects["A/B"] == effects["A/A"]  # best-fit against itself, twice
    summary = ab_summary(table)
    assert summary.index.tolist() == ["A/B", "A/B from the bound", "A/A", "pre/post"]
    # the mean of two errors +- t(0.975, 1) = 12.706 times |e1 - e2| / 2
    first, second = effects["A/B"]
    expected = (first + second) / 2 + 12.7062 * abs(first - second) / 2
    assert summary.loc["A/B", "error_high_pp"] == pytest.approx(expected, abs=1e-3)


def test_the_bin_that_the_launch_falls_into_counts_neither_way() -> None:
    series = made(0)
    whole, cut = pre_post(series, LAUNCH_S), pre_post(series, LAUNCH_S + BIN_S // 3)
    assert set(whole.time_s) - set(cut.time_s) == {LAUNCH_S}
    truth = series.set_index("time_s").loc[cut.time_s, "empty_hosts_pct"].to_numpy()
    assert len(pre_post_figure(cut, "made", truth).axes) == 3
