"""A gymnasium environment over the simulator: each step places one request, and an episode is one replay.

    env = PlacementEnv(workload, sim.Oracle(workload))
    observation, info = env.reset()
    observation, reward, is_over, _, info = env.step(action)

docs/simulator/doors.md says what is observed and rewarded. The simulator itself runs each episode, in a thread that
waits for the next action, so `env.result` is the result of a replay as of every other policy.
"""

from __future__ import annotations

import queue
import threading
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

from bench.process_policy import fitting_hosts
from sojourn.simulator import Cluster, LifetimeSource, Policy, Request, Workload, simulate
from sojourn.simulator.engine import Result
from sojourn.simulator.workloads import NO_CONSTRAINTS, shares

HOUR_S = 3600
_DECISION, _OVER, _FAILED = range(3)


class _Abandoned(BaseException):
    """The episode ends before its replay; no `except Exception` on the way may hold it."""


class PlacementEnv(gymnasium.Env[dict[str, np.ndarray], int]):
    """Requests in their order on the workload's hosts; the action is the row of a host in the workload's hosts.

    workload: without constraints besides room. source: predictions, for what is observed of exits; None = 0 for all.
    n_places: length of the arrays of hosts, for one shape of observation over several pools; None = the hosts' number.

    Observation, float32 in 0..1, but `fitting`: `need` (n_resources,), shares of the largest host, and `left` (1,), how
    long the request is predicted to stay, as a share of the trace's length. Of each place: `free` (n_places,
    n_resources), shares of the largest host; `running` (n_places,), 1 for a host in use; `host_left` (n_places,), until
    the last of its requests is predicted to leave, as a share of the trace's length; `fitting` (n_places,), int8, 1 for
    a host on which the request fits. Places without a host are 0 in all of them. `info["action_mask"]` is `fitting`.

    A request that fits nowhere is rejected without a step. One that fits is rejected if its action is no fitting host.
    Reward of a step: the host-hours that are empty from this decision to the next one (to the horizon after the last),
    minus the hours until the horizon or its departure for a rejected request that fitted, as if it had a host of its
    own: so to reject is never better than an empty host. The sum over an episode is its empty host-hours from the
    first decision on, less those hours.

    The replay has no chance in it: `seed` changes only what `action_space` draws.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}  # type: ignore[misc]  # gymnasium has it without

    def __init__(self, workload: Workload, source: LifetimeSource | None = None, *,
                 n_places: int | None = None) -> None:
        n_hosts, n_resources = workload.capacity.shape
        places = n_hosts if n_places is None else n_places
        if places < n_hosts:
            raise ValueError(f"n_places must be at least the {n_hosts} hosts, got {n_places!r}")
        if workload.constraints != NO_CONSTRAINTS:
            raise ValueError(f"workload must have no constraints for an environment, got {workload.constraints}")
        self.workload, self.source, self.n_places = workload, source, places
        self.result: Result | None = None
        self.action_space = spaces.Discrete(places)
        self.observation_space = spaces.Dict({
            "need": _unit(n_resources), "left": _unit(1), "free": _unit(places, n_resources), "running": _unit(places),
            "host_left": _unit(places), "fitting": spaces.MultiBinary(places)})
        self._largest = workload.capacity.max(axis=0)
        self._thread: threading.Thread | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None
              ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The observation of the first request that fits somewhere; an episode under way is abandoned."""
        super().reset(seed=seed)
        self.close()
        self.result = None
        self._last_end_s = np.zeros(len(self.workload.capacity), np.int64)  # when the last on each host really leaves
        self._news: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._actions: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        policy = Policy("environment", host_scores=self._asked,
                        predictions="none" if self.source is None else "current")
        self._thread = threading.Thread(target=self._replay, args=(policy, self._news), daemon=True)
        self._thread.start()
        if not self._wait():
            raise ValueError("workload must have a request that fits somewhere, got none")
        return self._observation, self._info()

    def step(self, action: int) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Place the request; the next observation, the reward, whether the replay is over, False, and info."""
        if self._thread is None:
            raise ValueError("reset must be called before step, got none since the last episode's end")
        from_s, penalty_h = self._now_s, 0.0
        host = int(action)
        if not 0 <= host < len(self._last_end_s) or not self._fitting[host]:
            host, penalty_h = -1, self._stay_h()
        else:
            self._last_end_s[host] = max(self._last_end_s[host], self.workload.departure_s[self._row])
        self._actions.put(host)
        is_over = not self._wait()
        until_s = self.workload.trace.horizon_s if is_over else self._now_s
        empty_s = np.maximum(until_s - np.maximum(self._last_end_s, from_s), 0).sum()
        return self._observation, float(empty_s) / HOUR_S - penalty_h, is_over, False, self._info()

    def close(self) -> None:
        """End the thread of an episode under way."""
        if self._thread is not None:
            self._actions.put(None)
            self._thread.join()
            self._thread = None

    def _stay_h(self) -> float:
        end_s = min(int(self.workload.departure_s[self._row]), self.workload.trace.horizon_s)
        return (end_s - self._now_s) / HOUR_S

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self._observation["fitting"], "request_id": self.workload.request_ids[self._row],
                "now_s": self._now_s}

    def _wait(self) -> bool:
        """Wait for the next decision; False if the replay is over, and the observation is that of the last decision."""
        kind, news = self._news.get()
        if kind == _DECISION:
            self._observation, self._row, self._now_s, self._fitting = news
            return True
        self._join()
        if kind == _FAILED:
            raise news
        self.result = news
        return False

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _replay(self, policy: Policy, news: queue.SimpleQueue[tuple[int, Any]]) -> None:
        """The thread: one replay."""
        try:
            news.put((_OVER, simulate(self.workload, policy, self.source)))
        except _Abandoned:
            return
        except Exception as error:  # it is raised where the episode waits for it
            news.put((_FAILED, error))

    def _asked(self, cluster: Cluster, request: Request, now: int) -> np.ndarray:
        """The policy's function, in the thread: hand out the observation and wait for the action."""
        scores = np.full(len(cluster.free), np.inf)
        fitting = fitting_hosts(cluster, request.need)
        if not fitting.any():
            return scores
        self._news.put((_DECISION, (self._observed(cluster, request, now, fitting), request.row, now, fitting)))
        host = self._actions.get()
        if host is None:
            raise _Abandoned
        if host >= 0:
            scores[host] = 0.0
        return scores

    def _observed(self, cluster: Cluster, request: Request, now: int, fitting: np.ndarray) -> dict[str, np.ndarray]:
        horizon_s, n = self.workload.trace.horizon_s, len(fitting)
        running, host_left = cluster.n_running > 0, np.zeros(n)
        left = 0.0
        if self.source is not None:
            host_left = np.where(running, np.clip((cluster.exit_s - now) / horizon_s, 0, 1), 0)
            left = min(max((request.exit_s - now) / horizon_s, 0), 1)
        return {
            "need": shares(request.need, self._largest).astype(np.float32), "left": np.array([left], np.float32),
            "free": self._padded(shares(cluster.free, np.broadcast_to(self._largest, cluster.free.shape))),
            "running": self._padded(running), "host_left": self._padded(host_left),
            "fitting": self._padded(fitting).astype(np.int8)}

    def _padded(self, rows: np.ndarray) -> np.ndarray:
        """The rows of hosts as float32, and zeros for places without a host."""
        whole = np.zeros((self.n_places, *rows.shape[1:]), np.float32)
        whole[:len(rows)] = rows
        return whole


def _unit(*shape: int) -> spaces.Box:
    return spaces.Box(0.0, 1.0, shape, np.float32)
