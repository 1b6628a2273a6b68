"""A queue of rigid jobs, slow and plain: all is made anew at each pass. And checks of a schedule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sojourn.simulator.predictions import Curves
from sojourn.simulator.queueing import QueueJobs, QueueRules, Schedule


@dataclass
class Job:
    """reserved_s: its place in a conservative plan. promised_s: the first of all."""

    row: int
    submission_s: int
    run_s: int
    limit_s: int
    size: int
    planned_s: int = 0
    fit_s: int = 0
    start_s: int = -1
    turn: int = 0
    predicted_end_s: int = 0
    reserved_s: int | None = None
    promised_s: int | None = None
    overtaken: int = 0
    priority: int = 0
    queue: int = 0
    held: dict[int, int] = field(default_factory=dict)


class NaiveQueue:
    """The state of a replay: jobs that wait, in order of submission, and those that run."""

    def __init__(self, jobs: QueueJobs, rules: QueueRules, curves: Curves, fit_s: Sequence[int],
                 draws: Sequence[Curves] = ()) -> None:
        self.draws = draws if rules.chance is not None else ()
        self.rules, self.curves, self.n_processors, self.n_started = rules, curves, jobs.n_processors, 0
        columns = (jobs.submission_s.tolist(), jobs.run_s.tolist(), jobs.limit_s.tolist(), jobs.size.tolist())
        self.jobs = [Job(row, *numbers) for row, numbers in enumerate(zip(*columns, strict=True))]
        self.whole = jobs.host_processors
        self.hosts = [jobs.host_processors or 0] * (jobs.n_processors // (jobs.host_processors or jobs.n_processors))
        self.queue_processors = jobs.queue_processors or (jobs.n_processors,)
        for job in self.jobs:
            job.priority, job.queue = int(np.asarray(jobs.priority)[job.row]), int(np.asarray(jobs.queue)[job.row])
            job.planned_s = min(max(curves.total_at(job.row, 0), 1), job.limit_s)
            job.fit_s = min(max(fit_s[job.row], 1), job.limit_s)
        self.waiting: list[Job] = []
        self.running: list[Job] = []
        self.since = 0
        self.is_freed = self.is_grown = False

    def replay(self) -> list[Job]:
        coming = list(self.jobs)
        while coming or self.waiting:
            times = [job.submission_s for job in coming[:1]] + [job.start_s + job.run_s for job in self.running]
            times += [job.reserved_s for job in self.waiting if job.reserved_s is not None]
            now = min(times)
            for job in self.waiting:
                job.overtaken += (now - self.since) * sum(other.size for other in self.running if other.row > job.row)
            self.since = now
            for job in list(self.running):
                if job.start_s + job.run_s <= now:
                    self.running.remove(job)
                    for host, n in job.held.items():
                        self.hosts[host] += n
                    self.is_freed |= now < job.predicted_end_s
            if self.waiting or (coming and coming[0].submission_s == now):
                self.predict(now)
            while coming and coming[0].submission_s == now:
                self.waiting.append(coming.pop(0))
            if self.waiting:
                self.serve(now)
        return self.jobs

    def is_past(self, job: Job, now: int) -> bool:
        guard_s, overtaken_s = self.rules.guard_s, self.rules.overtaken_s
        return (guard_s is not None and now - job.submission_s > guard_s) or (
            overtaken_s is not None and job.overtaken > overtaken_s * self.n_processors)

    def predict(self, now: int) -> None:
        for job in self.running:
            end = job.start_s + min(self.curves.total_at(job.row, now - job.start_s), job.limit_s)
            self.is_grown |= end > job.predicted_end_s
            self.is_freed |= end < job.predicted_end_s
            job.predicted_end_s = end

    def free(self) -> int:
        return self.n_processors - sum(job.size for job in self.running)

    def is_held(self, job: Job) -> bool:
        """Whether its queue may not use so many processors more."""
        used = sum(other.size for other in self.running if other.queue == job.queue)
        most = self.queue_processors[job.queue]
        return most < self.n_processors and job.size > most - used

    def on_hosts(self, job: Job, hosts: list[int]) -> dict[int, int] | None:
        """The processors that a job would take of each host; None = it does not fit."""
        if self.whole is None:
            return {}
        n_whole, rest = divmod(job.size, self.whole)
        empty = [host for host, free in enumerate(hosts) if free == self.whole]
        held = dict.fromkeys(empty[:n_whole], self.whole)
        others = sorted((free, host) for host, free in enumerate(hosts) if host not in held and free >= rest)
        if len(held) < n_whole or (rest and not others):
            return None
        return held | ({others[0][1]: rest} if rest else {})

    def is_fit(self, job: Job) -> bool:
        return job.size <= self.free() and self.on_hosts(job, self.hosts) is not None

    def start(self, job: Job, now: int) -> None:
        held = self.on_hosts(job, self.hosts)
        assert held is not None
        job.held = held
        for host, n in held.items():
            self.hosts[host] -= n
        self.waiting.remove(job)
        job.start_s, job.turn, job.reserved_s = now, self.n_started, None
        job.predicted_end_s = now + job.planned_s
        self.n_started += 1
        self.running.append(job)

    def ordered(self, order: str, now: int) -> list[Job]:
        def key(job: Job) -> tuple[float, float, int]:
            wait, p, n = now - job.submission_s, float(job.planned_s), float(job.size)
            if self.is_past(job, now):
                return (-math.inf, 0.0, job.row)
            after = max(job.submission_s - self.jobs[0].submission_s, 1)
            score = {
                "fcfs": 0.0, "sjf": p, "saf": p * n,
                "wfp3": -((wait / p) * (wait / p) * (wait / p)) * n,
                "unicef": -(wait / (math.log2(max(n, 2.0)) * p)),
                "f1": math.log10(p) * n + 870.0 * math.log10(after),
            }[order]
            return (-job.priority, score, job.row)

        return sorted(self.waiting, key=key)

    def serve(self, now: int) -> None:
        kind, _, depth = self.rules.backfilling.partition(":")
        if kind == "conservative":
            self.serve_conservative(now)
        elif kind == "depth":
            self.serve_depth(now, int(depth))
        else:
            self.serve_easy(now, is_backfilling=kind == "easy", passes_all=kind == "any")

    def serve_easy(self, now: int, *, is_backfilling: bool, passes_all: bool) -> None:
        primary, second = (self.ordered(order, now) for order in (self.rules.order, self.rules.backfill_order))
        while primary and (passes_all or self.is_held(primary[0]) or self.is_fit(primary[0])):
            job = primary.pop(0)
            if not self.is_held(job) and self.is_fit(job):
                self.start(job, now)
        if not primary or not is_backfilling:
            return
        head, free, reservation, hosts = primary[0], self.free(), 0, list(self.hosts)
        is_late = self.is_past(head, now)

        if self.draws and not is_late:
            self.backfill_by_chance(head, second, now)
            return

        def end(job: Job) -> int:
            return job.start_s + job.limit_s if is_late else job.predicted_end_s

        for job in sorted(self.running, key=lambda each: (end(each), each.turn)):
            if free >= head.size and self.on_hosts(head, hosts) is not None:
                break
            free, reservation = free + job.size, end(job)
            for host, n in job.held.items():
                hosts[host] += n
        extra = free - head.size
        head.promised_s = reservation if head.promised_s is None else head.promised_s
        for job in second:
            if job is head or job.start_s >= 0 or not self.is_fit(job) or self.is_held(job):
                continue
            held = self.on_hosts(job, self.hosts) or {}
            beside = [free - held.get(host, 0) for host, free in enumerate(hosts)]
            if now + (job.limit_s if is_late else job.fit_s) <= reservation:
                self.start(job, now)
            elif job.size <= extra and self.on_hosts(head, beside) is not None:
                extra -= job.size
                hosts = beside
                self.start(job, now)

    def backfill_by_chance(self, head: Job, second: list[Job], now: int) -> None:
        share = (self.rules.chance or 0.0) * len(self.draws)
        n_least = min(k for k in range(1, len(self.draws) + 1) if k >= share - 1e-9)
        shadows, spares = [], []
        for curves in self.draws:
            ends = sorted((job.start_s + min(curves.total_at(job.row, now - job.start_s), job.limit_s), job.turn,
                           job.size) for job in self.running)
            free, k = self.free(), 0
            while free < head.size:
                free, k = free + ends[k][2], k + 1
            shadows.append(ends[k - 1][0])
            spares.append(free - head.size)
        head.promised_s = sorted(shadows)[n_least - 1] if head.promised_s is None else head.promised_s
        for job in second:
            if job is head or job.start_s >= 0 or not self.is_fit(job) or self.is_held(job):
                continue
            ends_s = [now + min(curves.total_at(job.row, 0), job.limit_s) for curves in self.draws]
            is_early = [end <= shadow for end, shadow in zip(ends_s, shadows, strict=True)]
            if sum(early or job.size <= spare for early, spare in zip(is_early, spares, strict=True)) >= n_least:
                spares = [spare if early else spare - job.size for early, spare in zip(is_early, spares, strict=True)]
                self.start(job, now)

    def free_at(self, time: int, plans: list[tuple[int, int, int]]) -> int:
        taken = sum(job.size for job in self.running if job.predicted_end_s > time)
        return self.n_processors - taken - sum(size for begin, end, size in plans if begin <= time < end)

    def is_room(self, size: int, begin: int, end: int, plans: list[tuple[int, int, int]]) -> bool:
        inner = [time for time in self.times(plans) if begin < time < end]
        return all(self.free_at(time, plans) >= size for time in (begin, *inner))

    def times(self, plans: list[tuple[int, int, int]]) -> list[int]:
        return [job.predicted_end_s for job in self.running] + [time for plan in plans for time in plan[:2]]

    def earliest(self, job: Job, now: int, plans: list[tuple[int, int, int]]) -> int:
        times = sorted({now, *(time for time in self.times(plans) if time > now)})
        return next(time for time in times if self.is_room(job.size, time, time + job.planned_s, plans))

    def serve_conservative(self, now: int) -> None:
        def plans(but: Job | None = None) -> list[tuple[int, int, int]]:
            return [(job.reserved_s, job.reserved_s + job.planned_s, job.size) for job in self.waiting
                    if job is not but and job.reserved_s is not None]

        assert all(job.reserved_s is None or job.reserved_s >= now for job in self.waiting)
        if self.is_grown:
            for job in self.waiting:
                job.reserved_s = None
        for job in self.ordered(self.rules.order, now):
            if job.reserved_s is None or (self.is_freed and job.reserved_s > now):
                job.reserved_s = self.earliest(job, now, plans(job))
            if job.reserved_s == now:
                self.start(job, now)
            elif job.promised_s is None:
                job.promised_s = job.reserved_s
        self.is_freed = self.is_grown = False

    def serve_depth(self, now: int, depth: int) -> None:
        plans: list[tuple[int, int, int]] = []
        primary, second = (self.ordered(order, now) for order in (self.rules.order, self.rules.backfill_order))
        reserved: list[Job] = []
        for job in primary:
            if len(reserved) == depth:
                break
            if self.is_held(job):
                continue
            at = self.earliest(job, now, plans)
            if at == now:
                self.start(job, now)
                continue
            reserved.append(job)
            plans.append((at, at + job.planned_s, job.size))
            job.promised_s = at if job.promised_s is None else job.promised_s
        for job in second:
            if job.start_s < 0 and job not in reserved and job.size <= self.free() and not self.is_held(job) \
                    and self.is_room(job.size, now, now + job.fit_s, plans):
                self.start(job, now)


def faults(schedule: Schedule) -> list[str]:
    """What is wrong with a schedule whatever the rules: a start before its submission, more processors than there are.
    """
    jobs, found = schedule.jobs, []
    if (schedule.start_s < jobs.submission_s).any():
        found.append("a job starts before its submission")
    changes = sorted([(int(end), -int(size)) for end, size in zip(schedule.end_s, jobs.size, strict=True)]
                     + [(int(start), int(size)) for start, size in zip(schedule.start_s, jobs.size, strict=True)])
    taken = 0
    for _, change in changes:
        taken += change
        if taken > jobs.n_processors:
            found.append("more processors are taken than there are")
            break
    return found
