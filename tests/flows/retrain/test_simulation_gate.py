"""The gates on placement: what is shown, what is not, by which policy, and how many replays it takes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sojourn.features.synthetic import synthesize
from sojourn.flows.placement.workloads import Replicated, compare_replicas, later_workload, with_more
from sojourn.flows.retrain.gate import DEPLOYABLE, best_policy, is_better_placed, judged_pairs, simulation_gates
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.simulator import Oracle, Workload
from sojourn.simulator.experiments import Pairing

CALM = [0.0, 0.1, -0.1, 0.05, -0.05]


def _simulated(gains: dict[str, list[float]], rejected: dict[str, float] | None = None) -> Replicated:
    table = pd.DataFrame({"gain_pp": {label: float(np.mean(gain)) for label, gain in gains.items()},
                          "n_rejected": {label: (rejected or {}).get(label, 0.0) for label in gains}})
    return Replicated(table, np.array(list(gains.values())).T, None)  # type: ignore[arg-type]


def _of_all(own: list[float], other: list[float]) -> dict[str, list[float]]:
    """Both models' gains by nilas, and what the oracle's are; a policy that is worse, and one that is better."""
    policies = {"nilas": 0.0, "nilas-expected": -2.0, "joint-fit": 1.0}
    return {f"{policy} ({model})": [value + level for value in values]
            for policy, level in policies.items()
            for model, values in (("hazard", own), ("km", other), ("oracle", [2.0] * len(own)))}


@pytest.mark.parametrize(("loss_pp", "passed"), [(1.0, True), (0.0, True), (-0.3, True), (-0.45, False), (-1.0, False)])
def test_a_loss_beyond_the_margin_fails(loss_pp: float, passed: bool) -> None:
    # the interval of CALM's mean is +-0.10 pp: -0.3 lies above -0.5 with it, -0.45 does not
    simulation = _simulated(_of_all([value + loss_pp for value in CALM], [0.0] * 5))
    gates = simulation_gates(simulation, "hazard", "km")
    assert [gate.is_passed for gate in gates] == [passed, passed, True]
    assert gates[1].finding.startswith("joint-fit")


def test_what_is_level_and_wild_is_not_shown() -> None:
    # mean -0.83, interval -4.13 to 2.48: today's trace that was crowned
    wild = np.array([-4.0, -3.0, 3.2, 1.5, -1.85])
    wild = (wild - wild.mean()) / wild.std(ddof=1) * 3.305 / 2.776 * 5**0.5 - 0.825
    gates = simulation_gates(_simulated(_of_all(wild.tolist(), [0.0] * 5)), "hazard", "km")
    assert [gate.is_passed for gate in gates] == [False, False, True]
    assert ("-0.82 pp, 95 % interval -4.13 to +2.48 (over 5 replicas: small moves of this one trace), to lie above "
            "-0.5; not shown") in gates[0].finding


def test_a_replay_in_which_all_policies_are_equal_shows_nothing() -> None:
    labels = [f"{policy} ({model})" for policy in DEPLOYABLE for model in ("hazard", "km")]
    gates = simulation_gates(_simulated({label: [0.0] * 5 for label in labels}), "hazard", "km")
    assert [gate.is_passed for gate in gates] == [False, False, True]
    assert all("not shown: predictions make no difference in the replay" in gate.finding for gate in gates[:2])
    # a candidate that is the champion anew places as it does, and not as km: that is no loss, and shown
    same = {label: [0.0] * 5 for label in labels} | {f"{policy} (champion v1)": [0.0] * 5 for policy in DEPLOYABLE}
    told = same | {f"{policy} (km)": [-0.3] * 5 for policy in DEPLOYABLE}
    assert all(gate.is_passed for gate in simulation_gates(_simulated(told), "hazard", "champion v1"))


def test_one_replay_and_none_show_nothing() -> None:
    assert [gate.is_passed for gate in simulation_gates(_simulated(_of_all([5.0], [0.0])), "hazard", "km")] == [
        False, False, True]
    gates = simulation_gates(None, "hazard", "km")
    assert {(gate.is_passed, gate.finding) for gate in gates} == {(False, "not simulated")}
    assert not is_better_placed(None, "hazard", "km")


def test_the_best_policy_is_that_of_both_models_together() -> None:
    # joint-fit is best for km alone, nilas for the candidate alone; together nilas-expected is
    gains = {"nilas (hazard)": [3.0], "nilas (km)": [-1.0], "nilas-expected (hazard)": [2.0],
             "nilas-expected (km)": [1.0], "joint-fit (hazard)": [-1.0], "joint-fit (km)": [2.0]}
    simulation = _simulated(gains)
    assert best_policy(simulation, "hazard", "km") == "nilas-expected"
    assert judged_pairs(simulation, "hazard", ["km"]) == [
        ("nilas (hazard)", "nilas (km)"), ("nilas-expected (hazard)", "nilas-expected (km)")]


@pytest.mark.parametrize(("rejected", "passed"), [(2.0, True), (3.0, False)])
def test_empty_hosts_are_not_bought_with_refused_requests(rejected: float, passed: bool) -> None:
    # beside 0 two may be chance; by either policy that is judged
    for policy in ("nilas", "joint-fit"):
        simulation = _simulated(_of_all([1.0 + value for value in CALM], [0.0] * 5), {f"{policy} (hazard)": rejected})
        *hosts, rejections = simulation_gates(simulation, "hazard", "km")
        assert all(gate.is_passed for gate in hosts) and rejections.is_passed == passed


@pytest.fixture(scope="module")
def workload() -> Workload:
    return later_workload("synthetic", RetrainConfig(n_requests=8_000), synthesize(8_000, seed=0), 1_209_600)


def test_more_replicas_are_of_what_is_compared_and_end_when_it_is_known(workload: Workload) -> None:
    def pairings(moved: Workload) -> list[Pairing]:
        return [("nilas", "oracle", Oracle(moved)), ("la-binary", "oracle", Oracle(moved)), ("first-fit", "", None)]

    first = compare_replicas(workload, pairings, 2)
    pair = ("nilas (oracle)", "la-binary (oracle)")
    assert with_more(first, workload, pairings, [pair], 1e9, 5) is first
    assert with_more(first, workload, pairings, [pair], -1.0, 2) is first
    more = with_more(first, workload, pairings, [pair], -1.0, 4)
    whole = compare_replicas(workload, pairings, 4)
    idx = [list(whole.table.index).index(label) for label in pair]
    assert more.gain_pp[:, idx].tolist() == whole.gain_pp[:, idx].tolist()
    assert np.isnan(more.gain_pp[2:, list(whole.table.index).index("first-fit")]).all()
    assert more.difference(*pair) == whole.difference(*pair)
    assert np.ptp(more.gain_pp[:, idx[1]]) > 0.0
    pd.testing.assert_frame_equal(more.table, first.table)
