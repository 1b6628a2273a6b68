"""A compiled loop made ready to run, and what is said where it fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sojourn.simulator.engine.compilation import Loop
from sojourn.simulator.engine.composition import HOOKS
from sojourn.simulator.engine.scorer_fault import scorer_fault
from sojourn.simulator.loop import BAD_DEADLINE, BAD_SCORE, LOG_FULL, PAUSED, VIOLATIONS, PythonScores
from sojourn.simulator.policies import Policy
from sojourn.simulator.workloads import Workload


@dataclass(frozen=True, slots=True)
class Run:
    """Everything that one run of a compiled loop reads and fills.

    world: `loop.World`, or that of an elastic pool. arguments: of the loop besides it. host_ids: of the hosts in the
    world, for errors. at_pause: what is done where the loop pauses, with its code, PAUSED or LOG_FULL; None where it
    never does.
    """

    workload: Workload
    policy: Policy
    loop: Loop
    world: Any
    arguments: tuple[Any, ...]
    host_ids: Sequence[Any]
    at_pause: Callable[[int], None] | None = field(default=None, kw_only=True)

    def run(self) -> float:
        """Seconds that the loop took, with that of its pauses; ValueError where the policy or an invariant failed."""
        python = None
        if self.policy.host_scores is not None:
            python = PythonScores(self.policy.host_scores, self.world)
        started = time.perf_counter()
        code = self._go_on()
        while code in (PAUSED, LOG_FULL) and self.at_pause is not None:
            self.at_pause(code)
            code = self._go_on()
        elapsed_s = time.perf_counter() - started
        if python is not None and python.raised is not None:
            raised = python.raised
            if not isinstance(raised, Exception):
                raise raised
            raise ValueError(f"{self._culprit()} must not raise, got {type(raised).__name__}: {raised}") from raised
        if code == BAD_SCORE:
            found = self._fault()
            raise ValueError(f"{self._culprit()} must score 0 or more, got less, infinity or NaN"
                             f"{f': {found}' if found else ''}")
        if code == BAD_DEADLINE:
            raise ValueError(f"policy {self.policy.name!r} must put a later deadline, or NEVER, when one has come; it "
                             f"did not for host {self._host_id()!r} at {self.world.counts['time_s'][0]} s")
        if code != 0:
            raise ValueError(f"{VIOLATIONS[code]}; it did not after event {self.world.counts['n_events'][0]} "
                             f"under policy {self.policy.name!r}")
        return elapsed_s

    def _go_on(self) -> int:
        """The loop's code at its end, or at a pause."""
        try:
            return self.loop.replay(self.world, *self.arguments)
        except IndexError as error:  # functions of others are compiled with bounds checks
            rule = "must read arrays within their bounds"
            raise ValueError(f"{self._culprit()} {rule}, got {self._fault() or f'IndexError: {error}'}") from error
        except Exception as error:
            raise ValueError(f"{self._culprit()} must not raise, got {type(error).__name__}: {error}") from error

    def _culprit(self) -> str:
        counts = self.world.counts[0]
        told = []
        if counts["last_row"] >= 0:
            told.append(f"request {self.workload.request_ids[[counts['last_row']]].tolist()[0]!r}")
        asked = "asked about"
        if counts["hook"] > 0:
            asked = f"in hook {list(HOOKS)[counts['hook'] - 1]!r} of"
            told.append(f"host {self._host_id()!r}")
        return f"policy {self.policy.name!r}, {asked} {' and '.join(told)} at {counts['last_s']} s,"

    def _fault(self) -> str:
        return scorer_fault(self.policy, self.world, self.host_ids)

    def _host_id(self) -> Any:
        return self.host_ids[self.world.counts["last_host"][0]]
