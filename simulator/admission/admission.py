"""Admission one job at a time, for a gateway: an answer to each offer, and a state that survives a restart."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sojourn.simulator.admission.admit import cores_for
from sojourn.simulator.admission.decisions import REASONS
from sojourn.simulator.admission.jobs import MAX_TIME_S, AdmissionJobs
from sojourn.simulator.admission.power_profile import PowerProfile
from sojourn.simulator.admission.saved_state import Rules, read_state, write_state


@dataclass(frozen=True, slots=True)
class Job:
    """A job to be decided on; whole seconds. name: for errors."""

    submission_s: int
    processing_s: int
    cores: int
    deadline_s: int
    name: str = "0"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a gateway tells the user.

    start_s, cores: when and where an accepted job runs; None and empty if it was rejected. reason: one of REASONS.
    counter_offer_s: the earliest deadline with which a rejected job would be accepted now; None = accepted, or no
    deadline would help.
    """

    is_accepted: bool
    start_s: int | None
    cores: tuple[int, ...]
    reason: str
    counter_offer_s: int | None


class Admission:
    """The state of a machine that takes jobs with deadlines. May be called from several threads.

    n_cores, allocation and the other rules: as `cores_for`. It decides as `admit` does with the same jobs in the same
    order.

    >>> machine = Admission(1, "best-fit")
    >>> machine.offer(Job(0, 10, 1, 10))
    Answer(is_accepted=True, start_s=0, cores=(0,), reason='accepted', counter_offer_s=None)
    >>> machine.offer(Job(3, 10, 1, 15)).counter_offer_s
    20
    """

    def __init__(self, n_cores: int, allocation: str = "best-fit", *, acceptance: str = "greedy",
                 slack: float | None = None, is_backfilling: bool = False, power: PowerProfile | None = None) -> None:
        self._cores = cores_for(n_cores, allocation, acceptance=acceptance, slack=slack,
                                is_backfilling=is_backfilling, power=power)
        self.rules = Rules(n_cores, allocation, acceptance, slack, is_backfilling, power is not None)
        self.now_s, self.n_offered, self.n_accepted = 0, 0, 0
        self._lock = threading.Lock()

    def offer(self, job: Job) -> Answer:
        """Decides on a job; if it is accepted, its cores are taken.

        Refused with ValueError, without any effect: what AdmissionJobs refuses, and a submission before that of the
        job before, for what was free then is forgotten.
        """
        one = AdmissionJobs(np.array([job.submission_s]), np.array([job.processing_s]), np.array([job.cores]),
                            np.array([job.deadline_s]), (job.name,))
        with self._lock:
            if one.submission_s[0] < self.now_s:
                raise ValueError(f"submission_s must be at least {self.now_s}, that of the job before, got "
                                 f"{job.submission_s!r} (job {job.name})")
            decision = self._cores.offer(one)
            self.now_s = int(one.submission_s[0])
            self.n_offered += 1
            is_accepted = bool(decision.is_accepted[0])
            self.n_accepted += is_accepted
        offer = int(decision.offer_s[0])
        return Answer(is_accepted, int(decision.start_s[0]) if is_accepted else None,
                      tuple(decision.cores_of(0).tolist()), REASONS[int(decision.reason[0])],
                      offer if 0 <= offer < MAX_TIME_S else None)

    def save(self, folder: str | Path) -> None:
        """Writes the state into a folder, whole or not at all: a save that is killed leaves the one before.

        Refused with ValueError: a folder that holds anything else.
        """
        with self._lock:
            counts = {"now_s": self.now_s, "n_offered": self.n_offered, "n_accepted": self.n_accepted}
            state = self._cores.state()
        write_state(Path(folder), self.rules, counts, state)

    @classmethod
    def load(cls, folder: str | Path) -> Admission:
        """The machine that `save` wrote: it decides as the saved one would have.

        Raises FileNotFoundError where there is none, ValueError where a file is damaged or of another format.
        """
        rules, counts, state = read_state(Path(folder))
        # the saved table has the power that is to come; the profile itself is not needed any more
        machine = cls(rules.n_cores, rules.allocation, acceptance=rules.acceptance, slack=rules.slack,
                      is_backfilling=rules.is_backfilling, power=_NO_POWER if rules.has_power else None)
        machine._cores.restore(state)
        machine.rules = rules
        machine.now_s, machine.n_offered, machine.n_accepted = (counts[name] for name in (
            "now_s", "n_offered", "n_accepted"))
        return machine


_NO_POWER = PowerProfile(np.array([0]), np.array([0]), 1)
