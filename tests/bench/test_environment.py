"""The environment: gymnasium's own check, and episodes that equal the simulator's replays."""

import threading
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from gymnasium.utils.env_checker import check_env

import sojourn.simulator as sim
from bench.environment import PlacementEnv
from sojourn.features.synthetic import synthesize
from sojourn.simulator.policies.baselines import draw


@pytest.fixture(scope="module")
def workload() -> sim.Workload:
    """300 synthetic requests on hosts of two shapes, some of which are full at times."""
    trace = synthesize(300, seed=3)
    hosts = pd.DataFrame({"host_id": range(3), "cpu_cores": [32.0, 32.0, 64.0], "mem_gib": [24.0, 24.0, 48.0]})
    fits = (trace.requests["cpu_cores"] <= 64) & (trace.requests["mem_gib"] <= 48)
    kept = sim.Trace(trace.requests[fits].reset_index(drop=True), trace.horizon_s, trace.roles, meta=trace.meta)
    return sim.Workload("made", kept, hosts, sim.true_totals(kept, np.random.default_rng(0)))


@pytest.fixture
def three() -> sim.Workload:
    table = pd.DataFrame({"request_id": ["a", "b", "c"], "arrival_s": [0, 3600, 7200],
                          "departure_s": [7200, 10_800, 9000], "cpu_cores": [6.0, 2.0, 8.0], "mem_gib": 4.0})
    return sim.build_workload("trace", sim.Trace(table, 14_400), cpu_cores=8, mem_gib=32, n_hosts=2)


def best_fit(env: PlacementEnv, observation: dict[str, np.ndarray]) -> int:
    """The built-in best fit, from what is observed, of hosts that are not alike."""
    largest, capacity = env.workload.capacity.max(axis=0), env.workload.capacity
    free, need = np.rint(observation["free"] * largest), np.rint(observation["need"] * largest)
    fitting = np.flatnonzero(observation["fitting"]).tolist()
    return min(fitting, key=lambda h: (observation["running"][h] == 0, *((free[h] - need) / capacity[h]).tolist(), h))


def episode(env: PlacementEnv, choose: object) -> tuple[float, list[bytes]]:
    """The sum of rewards, and the bytes of all that was observed."""
    observation, info = env.reset(seed=1)
    total, seen, is_over = 0.0, [], False
    while not is_over:
        seen.append(b"".join(part.tobytes() for part in observation.values()))
        observation, reward, is_over, is_cut, info = env.step(choose(env, observation, info))  # type: ignore[operator]
        assert not is_cut
        total += reward
    return total, seen


@pytest.mark.filterwarnings("error")
def test_gymnasiums_own_check_passes(three: sim.Workload) -> None:
    for source in (None, sim.Oracle(three)):
        env = PlacementEnv(three, source, n_places=5)
        check_env(env, skip_render_check=True)
        env.close()


@pytest.mark.parametrize("is_predicted", [False, True])
def test_best_fit_through_the_environment_is_the_simulators(workload: sim.Workload, is_predicted: bool) -> None:
    env = PlacementEnv(workload, sim.Oracle(workload) if is_predicted else None, n_places=20)
    total, seen = episode(env, lambda env, observation, info: best_fit(env, observation))
    built_in = sim.simulate(workload, "best-fit")
    assert env.result is not None
    assert env.result.host.tolist() == built_in.host.tolist()
    assert replace(env.result.metrics, n_rescores=0) == built_in.metrics
    n_rejected = int((built_in.host < 0).sum())
    assert n_rejected > 0 and len(seen) == len(workload.need) - n_rejected  # those that fit nowhere are no steps
    # without a warm-up, the rewards add up to the empty host-hours, but for those before the first decision
    room_h = len(workload.hosts) * workload.trace.horizon_s / 3600
    before_h = len(workload.hosts) * int(workload.placed_s[0]) / 3600
    assert total + before_h == pytest.approx(built_in.metrics.empty_hosts_pct / 100 * room_h, rel=1e-9)


def test_a_random_agent_is_the_simulators_random_policy(workload: sim.Workload) -> None:
    rows = {name: row for row, name in enumerate(workload.request_ids)}

    def choose(env: PlacementEnv, observation: dict[str, np.ndarray], info: dict[str, object]) -> int:
        request = sim.Request(rows[info["request_id"]], np.zeros(0, np.int64), 0)
        scores = [draw(None, host, request, 0) for host in np.flatnonzero(info["action_mask"])]  # type: ignore[arg-type]
        return int(np.flatnonzero(info["action_mask"])[np.argmin(scores)])  # type: ignore[arg-type]

    env = PlacementEnv(workload)
    episode(env, choose)
    assert env.result is not None and env.result.host.tolist() == sim.simulate(workload, "random").host.tolist()


def test_the_same_seed_gives_the_same_bytes(workload: sim.Workload) -> None:
    def at_random(env: PlacementEnv, observation: dict[str, np.ndarray], info: dict[str, object]) -> int:
        return int(env.action_space.sample(observation["fitting"]))

    env = PlacementEnv(workload, sim.Oracle(workload))
    runs = []
    for seed in (7, 7, 8):
        env.action_space.seed(seed)
        runs.append((episode(env, at_random), env.result and env.result.host.tolist()))
    assert runs[0] == runs[1] and runs[0] != runs[2]


def test_rewards_by_hand(three: sim.Workload) -> None:
    env = PlacementEnv(three, sim.Oracle(three), n_places=3)
    observation, info = env.reset()
    assert info["now_s"] == 0 and info["request_id"] == "a" and info["action_mask"].tolist() == [1, 1, 0]
    assert observation["need"].tolist() == pytest.approx([0.75, 0.125]) and observation["left"].tolist() == [0.5]
    # a on host 0 from 0 h to 2 h: host 1 is empty for the hour up to b
    observation, reward, *_ = env.step(0)
    assert reward == 1.0 and observation["host_left"].tolist() == [0.25, 0, 0]
    # b on host 1 from 1 h to 3 h: none is empty up to c at 2 h, when a leaves
    observation, reward, *_ = env.step(1)
    assert reward == 0.0 and observation["fitting"].tolist() == [1, 0, 0]
    # c, which stays 0.5 h, is sent to a host that is full: rejected. Host 0 is empty for 2 h, host 1 for 1 h
    *_, reward, is_over, _, _ = env.step(1)
    assert (reward, is_over) == (3.0 - 0.5, True)
    assert env.result is not None and env.result.host.tolist() == [0, 1, -1]
    with pytest.raises(ValueError, match="reset must be called before step"):
        env.step(0)


def test_an_abandoned_episode_leaves_no_thread(three: sim.Workload) -> None:
    n_threads = threading.active_count()
    env = PlacementEnv(three)
    for _ in range(3):
        env.reset()
        env.step(0)
    assert threading.active_count() == n_threads + 1
    env.close()
    env.close()
    assert threading.active_count() == n_threads


def test_what_fails_in_the_replay_is_raised(three: sim.Workload) -> None:
    class Broken:
        def curves(self, requests: pd.DataFrame) -> sim.Curves:
            raise RuntimeError("no model")

    with pytest.raises(ValueError, match="no model"):
        PlacementEnv(three, Broken()).reset()
    with pytest.raises(ValueError, match="n_places must be at least the 2 hosts, got 1"):
        PlacementEnv(three, n_places=1)
    apart = sim.Workload("apart", three.trace, three.hosts, three.total_s,
                         constraints=sim.Constraints(apart_by="request_id"))
    with pytest.raises(ValueError, match="workload must have no constraints for an environment, got Constraints"):
        PlacementEnv(apart)
