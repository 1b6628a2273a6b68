"""The compiled queue against its slow twin, and small queues worked out by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive_queueing import NaiveQueue, faults
from sojourn.simulator import Curves, Held, NoisyOracle, Oracle, one_step
from sojourn.simulator.predictions import LifetimeSource
from sojourn.simulator.queueing import (
    ORDERS,
    DrawnRunTimes,
    LastTwo,
    LearningSource,
    QueueJobs,
    QueueRules,
    RunTimes,
    last_two,
    replay_queue,
    requested,
)

BACKFILLINGS = ("none", "any", "easy", "conservative", "depth:1", "depth:3")


def jobs_of(rows: list[tuple[int, int, int, int]], n_processors: int, owners: list[int] | None = None) -> QueueJobs:
    """rows: gap to the submission before, run time, what the limit is above it, size."""
    gaps, run, more, size = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return QueueJobs(np.cumsum(gaps), run, run + more, size, n_processors,
                     None if owners is None else np.array(owners))


@st.composite
def made_jobs(draw: st.DrawFn) -> QueueJobs:
    n_processors = draw(st.integers(1, 8))
    size = st.integers(1, n_processors)
    rows = draw(st.lists(st.tuples(st.sampled_from([0, 0, 1, 3, 9]), st.integers(1, 30), st.sampled_from([0, 1, 40]),
                                   size), min_size=1, max_size=24))
    owners = draw(st.lists(st.integers(-1, 2), min_size=len(rows), max_size=len(rows)))
    return in_queues(jobs_of(rows, n_processors, owners), draw(st.integers(0, 9)))


def in_queues(jobs: QueueJobs, seed: int) -> QueueJobs:
    """Seeds from 1 on: the jobs in queues with priorities; odd ones: with limits of processors, too."""
    if seed == 0:
        return jobs
    rng = np.random.default_rng(seed)
    queue = rng.integers(0, 3, len(jobs))
    most = tuple(max(int(jobs.size[queue == k].max(initial=1)), int(rng.integers(1, jobs.n_processors + 1)))
                 for k in range(3))
    whole = [each for each in range(1, jobs.n_processors + 1) if jobs.n_processors % each == 0]
    jobs = replace(jobs, priority=rng.choice([0, 0, 7], len(jobs)),
                   host_processors=int(rng.choice(whole)) if seed % 3 else None)
    return replace(jobs, queue=queue, queue_processors=most) if seed % 2 else jobs


def possible(jobs: QueueJobs, rules: QueueRules) -> QueueRules:
    """EASY in place of what queues with limits can't have."""
    is_out = (bool(jobs.queue_processors) and rules.backfilling == "conservative") or (
        jobs.host_processors is not None and rules.backfilling not in ("none", "any", "easy"))
    return replace(rules, backfilling="easy") if is_out else rules


def made_curves(jobs: QueueJobs, seed: int) -> Held:
    """Predictions that rise, fall, are outlived and end before the run does."""
    rng = np.random.default_rng(seed)
    uptimes, totals, offsets = [], [], [0]
    for _ in range(len(jobs)):
        n_steps = int(rng.integers(1, 4))
        uptime = np.append(0, np.cumsum(rng.integers(1, 9, n_steps - 1)))
        total = np.append(uptime[1:], uptime[-1]) + rng.integers(0, 20, n_steps)
        uptimes.append(uptime)
        totals.append(total)
        offsets.append(offsets[-1] + n_steps)
    return Held(jobs.request_ids, Curves(np.array(offsets), np.concatenate(uptimes), np.concatenate(totals)))


def source_of(kind: str, jobs: QueueJobs, seed: int) -> RunTimes:
    if kind == "drawn":
        return DrawnRunTimes(made_curves(jobs, seed), tuple(made_curves(jobs, 100 * seed + k) for k in range(4)))
    if kind == "two":
        return made_curves(jobs, seed), NoisyOracle(jobs, 1.0, seed)
    made: dict[str, Callable[[QueueJobs], LifetimeSource]] = {
        "requested": requested, "oracle": Oracle, "last-two": last_two}
    return made[kind](jobs) if kind in made else made_curves(jobs, seed)


def check_twin(jobs: QueueJobs, rules: QueueRules, source: RunTimes) -> None:
    schedule = replay_queue(jobs, rules, source)
    assert not isinstance(source, LearningSource)
    plan, fit = (source if isinstance(source, tuple) else (source, source))
    curves, fit_curves = (each.curves(jobs.requests()) for each in (plan, fit))
    fit_s = [fit_curves.total_at(row, 0) for row in range(len(jobs))]
    draws = [each.curves(jobs.requests()) for each in source.draws] if isinstance(source, DrawnRunTimes) else []
    twin = NaiveQueue(jobs, rules, curves, fit_s, draws).replay()
    assert schedule.start_s.tolist() == [job.start_s for job in twin]
    assert schedule.reservation_s.tolist() == [-1 if job.promised_s is None else job.promised_s for job in twin]
    assert faults(schedule) == []


@pytest.mark.slow
@settings(max_examples=400)
@given(made_jobs(), st.sampled_from(sorted(ORDERS)), st.sampled_from(sorted(ORDERS)),
       st.sampled_from([(None, None), (0, None), (5, None), (60, None), (None, 5)]),
       st.sampled_from([0.2, 0.5, 0.75, 1.0]), st.integers(0, 99))
def test_backfilling_by_chance_is_its_slow_twin(jobs: QueueJobs, order: str, second: str,
                                                guard: tuple[int | None, int | None], chance: float, seed: int) -> None:
    jobs = replace(jobs, host_processors=None)
    check_twin(jobs, QueueRules(order, second, "easy", *guard, chance), source_of("drawn", jobs, seed))


def test_by_hand_a_job_that_delays_the_head_in_one_draw_of_two() -> None:
    # 3 of 4 processors run; the head asks for 4; the last asks for 1 for 20 s. By the draws the running job ends at 10
    # or at 30: the last one delays the head in the first draw alone.
    jobs = jobs_of([(0, 10, 90, 3), (1, 5, 0, 4), (0, 20, 0, 1)], 4)
    draws = tuple(Held([0, 1, 2], one_step(np.array([end_s, 5, 20]))) for end_s in (10, 30))
    source = DrawnRunTimes(Held([0, 1, 2], one_step(np.array([10, 5, 20]))), draws)
    starts = {chance: replay_queue(jobs, QueueRules(chance=chance), source) for chance in (None, 0.5, 1.0)}
    assert {chance: each.start_s.tolist() for chance, each in starts.items()} == {
        None: [0, 10, 15], 0.5: [0, 21, 1], 1.0: [0, 10, 15]}
    assert {chance: int(each.reservation_s[1]) for chance, each in starts.items()} == {None: 10, 0.5: 10, 1.0: 30}


@dataclass
class DrawingOne:
    """Draws what a source draws."""

    source: DrawnRunTimes
    jobs: QueueJobs
    n_draws: int = 4

    def begin(self, jobs: QueueJobs) -> DrawingOne:
        assert jobs is self.jobs
        return self

    def answer(self, source: LifetimeSource, row: int) -> tuple[list[int], list[int]]:
        curves = source.curves(self.jobs.requests())
        part = slice(int(curves.offsets[row]), int(curves.offsets[row + 1]))
        return curves.uptime_s[part].tolist(), curves.total_s[part].tolist()

    def submitted(self, row: int, now_s: int) -> tuple[list[int], list[int]]:
        return self.answer(self.source.plan, row)

    def drawn(self, row: int) -> list[tuple[list[int], list[int]]]:
        return [self.answer(each, row) for each in self.source.draws]

    def started(self, row: int, now_s: int) -> None: ...

    def ended(self, row: int, now_s: int) -> None: ...


@settings(max_examples=25)
@given(made_jobs(), st.sampled_from(sorted(ORDERS)), st.integers(0, 99))
def test_draws_in_the_loop_are_those_of_a_source(jobs: QueueJobs, order: str, seed: int) -> None:
    jobs, source = replace(jobs, host_processors=None), source_of("drawn", jobs, seed)
    assert isinstance(source, DrawnRunTimes)
    rules = QueueRules(order, chance=0.5)
    assert replay_queue(jobs, rules, DrawingOne(source, jobs)).start_s.tolist() == replay_queue(
        jobs, rules, source).start_s.tolist()


def test_hosts_have_no_chance() -> None:
    jobs = replace(jobs_of([(0, 10, 0, 1)], 4), host_processors=2)
    with pytest.raises(ValueError, match="chance must be None on a machine of hosts"):
        replay_queue(jobs, QueueRules(chance=0.5), requested(jobs))


@settings(max_examples=25)
@given(made_jobs(), st.sampled_from(sorted(ORDERS)), st.sampled_from([0.2, 1.0]), st.integers(0, 99))
def test_draws_that_are_all_the_prediction_change_nothing(jobs: QueueJobs, order: str, chance: float,
                                                          seed: int) -> None:
    jobs, source = replace(jobs, host_processors=None), made_curves(jobs, seed)
    plain, by_chance = (replay_queue(jobs, QueueRules(order, chance=each), DrawnRunTimes(source, (source,) * 3))
                        for each in (None, chance))
    assert by_chance.start_s.tolist() == plain.start_s.tolist()
    assert by_chance.reservation_s.tolist() == plain.reservation_s.tolist()


@settings(max_examples=400)
@given(made_jobs(), st.sampled_from(sorted(ORDERS)), st.sampled_from(sorted(ORDERS)), st.sampled_from(BACKFILLINGS),
       st.sampled_from([(None, None), (0, None), (5, None), (60, None), (None, 0), (None, 5), (40, 9)]),
       st.sampled_from(["requested", "oracle", "last-two", "made", "two"]), st.integers(0, 99))
def test_the_compiled_queue_is_its_slow_twin(jobs: QueueJobs, order: str, second: str, backfilling: str,
                                             guard: tuple[int | None, int | None], kind: str, seed: int) -> None:
    check_twin(jobs, possible(jobs, QueueRules(order, second, backfilling, *guard)), source_of(kind, jobs, seed))


@pytest.mark.slow
def test_two_thousand_drawn_queues_are_their_slow_twins() -> None:
    rng = np.random.default_rng(5)
    kinds, orders = ("requested", "oracle", "last-two", "made", "two"), sorted(ORDERS)
    for number in range(2_000):
        n, n_processors = int(rng.integers(1, 40)), int(rng.integers(1, 17))
        rows = list(zip(rng.choice([0, 0, 1, 5], n).tolist(), rng.integers(1, 60, n).tolist(),
                        rng.choice([0, 3, 100], n).tolist(), rng.integers(1, n_processors + 1, n).tolist(),
                        strict=True))
        jobs = in_queues(jobs_of(rows, n_processors, rng.integers(-1, 4, n).tolist()), number % 5)
        guard = [(None, None), (0, None), (20, None), (None, 0), (None, 10), (60, 30)][int(rng.integers(6))]
        rules = QueueRules(str(rng.choice(orders)), str(rng.choice(orders)), str(rng.choice(BACKFILLINGS)), *guard)
        check_twin(jobs, possible(jobs, rules), source_of(kinds[number // 5 % len(kinds)], jobs, number))


def test_a_job_is_backfilled_only_if_it_delays_no_reservation() -> None:
    # 4 processors. Job 0 takes 3 until 10; job 1 (4 wide) waits for it: shadow 10, extra 0. Job 2 (1 wide, limit 8)
    # ends by 2 + 8 = 10 and starts at once; job 3 (1 wide, limit 8) would end at 11, after the shadow.
    jobs = jobs_of([(0, 10, 0, 3), (1, 10, 0, 4), (1, 5, 3, 1), (1, 5, 3, 1)], 4)
    schedule = replay_queue(jobs, QueueRules(), requested(jobs))
    assert schedule.start_s.tolist() == [0, 10, 2, 20]
    assert schedule.reservation_s.tolist() == [-1, 10, -1, 20]
    assert replay_queue(jobs, QueueRules(backfilling="none"), requested(jobs)).start_s.tolist() == [0, 10, 20, 20]
    # with no reservation job 3 follows job 2, and job 1 waits for both
    schedule = replay_queue(jobs, QueueRules(backfilling="any"), requested(jobs))
    assert schedule.start_s.tolist() == [0, 12, 2, 7]
    assert schedule.reservation_s.tolist() == [-1] * 4


def test_the_second_source_of_a_pair_decides_who_is_backfilled() -> None:
    # as above, and job 2 is planned to take 20 s: by that it would end at 22, by the second source's 8 s at 10
    jobs = jobs_of([(0, 10, 0, 3), (1, 10, 0, 4), (1, 5, 15, 1)], 4)
    plan, fit = requested(jobs), Held([0, 1, 2], one_step(np.array([10, 10, 8])))
    for backfilling in ("easy", "depth:1"):
        rules = QueueRules(backfilling=backfilling)
        assert replay_queue(jobs, rules, plan).start_s.tolist() == [0, 10, 20]
        assert replay_queue(jobs, rules, (plan, fit)).start_s.tolist() == [0, 10, 2]


def test_extra_processors_are_used_once() -> None:
    # Job 0 takes 2 of 6 until 10, job 1 takes 2 until 20; job 2 (3 wide) waits: shadow 10, 4 free then, extra 1.
    # Jobs 3 and 4 are 1 wide and long: only the first may use the extra processor.
    jobs = jobs_of([(0, 10, 0, 2), (0, 20, 0, 2), (0, 5, 0, 3), (0, 50, 0, 1), (0, 50, 0, 1)], 6)
    assert replay_queue(jobs, QueueRules(), requested(jobs)).start_s.tolist() == [0, 0, 10, 0, 15]


def test_a_job_that_has_waited_longer_than_the_guard_comes_first() -> None:
    # one processor; job 1 is long, and shorter ones come every 10 s: it starts at 51, the first end after 1 + 45
    rows = [(0, 11, 0, 1), (1, 99, 0, 1), *((10, 10, 0, 1) for _ in range(9))]
    jobs = jobs_of(rows, 1)
    rules = QueueRules("sjf", "sjf")
    assert replay_queue(jobs, rules, Oracle(jobs)).start_s[1] == 101
    guarded = QueueRules("sjf", "sjf", guard_s=45)
    assert replay_queue(jobs, guarded, Oracle(jobs)).start_s[1] == 51


def test_a_job_comes_first_once_later_ones_had_so_much_of_the_machine() -> None:
    # 2 processors, shortest first. Job 1 (2 wide, 100 s) waits for job 0, which came before it and does not count. Jobs
    # 2 to 6 overtake it, one after the other, 10 s on both processors each. It may be overtaken by 25 s of the
    # machine: 20 s are not more, 30 s are.
    jobs = jobs_of([(0, 51, 0, 2), (1, 100, 0, 2), *((1, 10, 0, 2) for _ in range(5))], 2)
    for overtaken_s, start_s in ((None, 101), (49, 101), (25, 81), (29, 81), (30, 91), (0, 61)):
        rules = QueueRules("sjf", "sjf", overtaken_s=overtaken_s)
        assert replay_queue(jobs, rules, requested(jobs)).start_s[1] == start_s
    # half of the machine counts half: 2 jobs side by side, then others
    halves = jobs_of([(0, 51, 0, 2), (1, 100, 0, 2), *((1, 10, 0, 1) for _ in range(9))], 2)
    assert replay_queue(halves, QueueRules("sjf", "sjf", overtaken_s=9), requested(halves)).start_s[1] == 61
    # with a guard of 40 s, which does not ask who came when, it is next at 51
    assert replay_queue(jobs, QueueRules("sjf", "sjf", guard_s=40, overtaken_s=30), requested(jobs)).start_s[1] == 51


def test_conservative_reservations_only_move_earlier_while_predictions_hold() -> None:
    rng = np.random.default_rng(3)
    rows = list(zip(rng.integers(0, 9, 300).tolist(), rng.integers(1, 60, 300).tolist(),
                    rng.integers(0, 60, 300).tolist(), rng.integers(1, 9, 300).tolist(), strict=True))
    jobs = jobs_of(rows, 8)
    for order in ("fcfs", "sjf", "wfp3"):
        schedule = replay_queue(jobs, QueueRules(order, backfilling="conservative"), requested(jobs))
        is_promised = schedule.reservation_s >= 0
        assert is_promised.sum() > 100
        assert (schedule.start_s <= schedule.reservation_s)[is_promised].all()


def test_thousands_of_equal_submissions_are_served_in_their_order() -> None:
    jobs = jobs_of([(0, 7, 0, 2)] * 5_000, 4)
    for backfilling in ("easy", "depth:5"):
        start_s = replay_queue(jobs, QueueRules(backfilling=backfilling), requested(jobs)).start_s
        np.testing.assert_array_equal(start_s, np.arange(5_000) // 2 * 7)


def test_a_prediction_never_ends_a_job_and_never_exceeds_the_limit() -> None:
    jobs = jobs_of([(0, 50, 10, 2), (0, 5, 0, 2)], 2)
    for total_s in (1, 10_000):
        schedule = replay_queue(jobs, QueueRules(), Held([0, 1], one_step(np.array([total_s, 5]))))
        assert schedule.start_s.tolist() == [0, 50]
        assert schedule.reservation_s[1] == min(total_s, 60)


@pytest.mark.parametrize(("rules", "message"), [
    ({"order": "lifo"}, "order must be one of fcfs, sjf, saf, wfp3, unicef, f1, got 'lifo'"),
    ({"backfilling": "depth:0"}, "backfilling must be one of none, any, easy, conservative, depth:K"),
    ({"backfilling": "easy:2"}, "backfilling must be one of"),
    ({"guard_s": -1}, "guard_s must be a whole number, at least 0, got -1"),
    ({"overtaken_s": 0.5}, "overtaken_s must be a whole number, at least 0, got 0.5"),
    ({"chance": 0.0}, "chance must be above 0 and at most 1, with backfilling easy, got 0.0 with easy"),
    ({"chance": float("nan")}, "chance must be above 0 and at most 1"),
    ({"chance": 0.5, "backfilling": "depth:2"}, "with backfilling easy, got 0.5 with depth:2"),
])
def test_rules_that_do_not_exist_are_refused(rules: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        QueueRules(**rules)  # type: ignore[arg-type]


def test_sources_with_bad_answers_are_refused() -> None:
    jobs = jobs_of([(0, 5, 0, 1), (0, 5, 0, 1)], 2)
    with pytest.raises(ValueError, match=r"source must give Curves, one a job \(1\), got"):
        replay_queue(jobs.take(np.array([0])), QueueRules(), Constant(one_step(np.array([1, 2]))))
    with pytest.raises(ValueError, match="total_s must be whole seconds, got nan"):
        one_step(np.array([np.nan]))


class Constant:
    def __init__(self, curves: Curves) -> None:
        self._curves = curves

    def curves(self, requests: object) -> Curves:
        return self._curves


@dataclass
class Heard:
    """A learner that hears everything, and predicts as it was told to."""

    jobs: QueueJobs
    answer: tuple[Sequence[int], Sequence[int]] | None = None
    calls: list[tuple[int, str, int]] = field(default_factory=list)

    def begin(self, jobs: QueueJobs) -> Heard:
        return self

    def submitted(self, row: int, now_s: int) -> tuple[Sequence[int], Sequence[int]]:
        self.calls.append((now_s, "submitted", row))
        return self.answer or ([0], [int(self.jobs.limit_s[row])])

    def started(self, row: int, now_s: int) -> None:
        self.calls.append((now_s, "started", row))

    def ended(self, row: int, now_s: int) -> None:
        self.calls.append((now_s, "ended", row))


@settings(max_examples=200)
@given(made_jobs(), st.sampled_from(sorted(ORDERS)), st.sampled_from(BACKFILLINGS))
def test_a_learner_hears_all_that_came_before_the_last_submission_in_order(jobs: QueueJobs, order: str,
                                                                           backfilling: str) -> None:
    rules, heard = possible(jobs, QueueRules(order, "sjf", backfilling)), Heard(jobs)
    schedule = replay_queue(jobs, rules, heard)
    assert schedule.start_s.tolist() == replay_queue(jobs, rules, requested(jobs)).start_s.tolist()
    rank = {"ended": 0, "submitted": 1, "started": 2}
    assert [(now_s, rank[what]) for now_s, what, _ in heard.calls] == sorted(
        (now_s, rank[what]) for now_s, what, _ in heard.calls)
    last_s = int(jobs.submission_s[-1])
    assert set(heard.calls) == {
        *((int(jobs.submission_s[row]), "submitted", row) for row in range(len(jobs))),
        *((int(at_s), "started", row) for row, at_s in enumerate(schedule.start_s.tolist()) if at_s < last_s),
        *((int(at_s), "ended", row) for row, at_s in enumerate(schedule.end_s.tolist()) if at_s <= last_s)}
    assert len(heard.calls) == len(set(heard.calls))


@pytest.mark.slow
@settings(max_examples=300)
@given(made_jobs(), st.sampled_from(sorted(ORDERS)), st.sampled_from(sorted(ORDERS)), st.sampled_from(BACKFILLINGS))
def test_simulated_history_is_the_recorded_one_of_its_own_schedule(jobs: QueueJobs, order: str, second: str,
                                                                   backfilling: str) -> None:
    """Had the log been as the replay made it, its recorded history would give the same predictions."""
    rules = possible(jobs, QueueRules(order, second, backfilling))
    schedule = replay_queue(jobs, rules, LastTwo())
    as_replayed = replace(jobs, recorded_end_s=schedule.end_s)
    again = replay_queue(as_replayed, rules, last_two(as_replayed))
    assert schedule.start_s.tolist() == again.start_s.tolist()
    assert schedule.reservation_s.tolist() == again.reservation_s.tolist()


def test_history_of_before_the_replay_is_what_had_ended_by_then() -> None:
    everything = replace(jobs_of([(0, 10, 90, 1), (1, 30, 70, 1), (49, 5, 95, 1)], 4, [0, 0, 0]),
                         recorded_end_s=np.array([10, 60, 70]))  # the second one ends after 50
    later = everything.take(np.array([False, False, True]))
    learner = LastTwo(everything.take(np.array([True, True, False]))).begin(later)
    assert learner.submitted(0, 50)[1][0] == 10
    assert LastTwo().begin(later).submitted(0, 50)[1][0] == 100


@pytest.mark.parametrize(("answer", "message"), [
    (([0], [float("nan")]), "total_s must be whole seconds, got nan"),
    (([0, 5], [4, 9]), "total_s must be at least the next uptime_s 5, got 4"),
    (([1], [4]), "uptime_s must be 0 at the start of a curve, got 1"),
    (([], []), "offsets must rise strictly"),
])
def test_a_learner_with_a_bad_curve_is_refused_with_the_job(answer: tuple[list[int], list[int]], message: str) -> None:
    jobs = replace(jobs_of([(0, 10, 0, 3), (1, 10, 0, 4)], 4), request_ids=pd.Index(["a", "b"]))
    with pytest.raises(ValueError, match=f"that of job a does not: {message}"):
        replay_queue(jobs, QueueRules(), Heard(jobs, answer))


def test_a_larger_priority_is_served_first_and_the_guard_before_all() -> None:
    # 1 processor, busy until 10. Of jobs 1 to 3, all of 10 s, the last has the largest priority.
    jobs = replace(jobs_of([(0, 10, 0, 1), (1, 10, 0, 1), (1, 10, 0, 1), (1, 10, 0, 1)], 1),
                   priority=np.array([0, 1, 0, 7]))
    assert replay_queue(jobs, QueueRules(), requested(jobs)).start_s.tolist() == [0, 20, 30, 10]
    assert replay_queue(jobs, QueueRules("sjf", "sjf"), requested(jobs)).start_s.tolist() == [0, 20, 30, 10]
    assert replay_queue(jobs, QueueRules(guard_s=5), requested(jobs)).start_s.tolist() == [0, 10, 20, 30]


def test_a_job_of_a_full_queue_holds_up_no_other() -> None:
    # 4 processors; queue 1 may use 2. Job 1 has to wait for job 0 of its queue; jobs 2 and 3 pass, 4 waits for room
    jobs = replace(jobs_of([(0, 10, 0, 2), (1, 10, 0, 1), (1, 5, 0, 1), (1, 30, 0, 1), (1, 5, 0, 3)], 4),
                   queue=np.array([1, 1, 0, 0, 0]), queue_processors=(4, 2))
    for backfilling in ("none", "any", "easy", "depth:2"):
        schedule = replay_queue(jobs, QueueRules(backfilling=backfilling), requested(jobs))
        assert schedule.start_s.tolist() == [0, 10, 2, 3, 20], backfilling
        assert schedule.reservation_s[1] == -1
    with pytest.raises(ValueError, match=r"backfilling must not be conservative if queues have limits .*got \(4, 2\)"):
        replay_queue(jobs, QueueRules(backfilling="conservative"), requested(jobs))


@settings(max_examples=100)
@given(made_jobs(), st.sampled_from(sorted(ORDERS)), st.sampled_from(["none", "any", "easy"]), st.integers(0, 99))
def test_hosts_of_one_processor_are_a_pool(jobs: QueueJobs, order: str, backfilling: str, seed: int) -> None:
    pool, rules = replace(jobs, host_processors=None), QueueRules(order, "saf", backfilling)
    first, second = (replay_queue(each, rules, made_curves(jobs, seed))
                     for each in (pool, replace(jobs, host_processors=1)))
    assert first.start_s.tolist() == second.start_s.tolist()
    assert first.reservation_s.tolist() == second.reservation_s.tolist()


def test_processors_left_on_different_hosts_are_no_room() -> None:
    # 2 hosts of 4. Jobs 0 and 1 take 3 each; job 2 needs 2 of one host and waits, though 2 are free.
    jobs = jobs_of([(0, 10, 0, 3), (0, 20, 0, 3), (1, 5, 0, 2), (1, 8, 0, 1), (1, 5, 0, 1)], 8)
    on_hosts = replace(jobs, host_processors=4)
    assert replay_queue(jobs, QueueRules(backfilling="none"), requested(jobs)).start_s.tolist() == [0, 0, 1, 6, 6]
    schedule = replay_queue(on_hosts, QueueRules(backfilling="none"), requested(jobs))
    assert schedule.start_s.tolist() == [0, 0, 10, 10, 10]
    # backfilled, job 3 ends at 10, as job 2 is to start; job 4 fits beside it
    assert replay_queue(on_hosts, QueueRules(), requested(jobs)).start_s.tolist() == [0, 0, 10, 2, 3]
    # a job of 6 fills one host, and its other 2 need a host that has them
    wide = replace(jobs_of([(0, 10, 0, 3), (1, 5, 0, 6)], 8), host_processors=4)
    assert replay_queue(wide, QueueRules(), requested(wide)).start_s.tolist() == [0, 10]
    with pytest.raises(ValueError, match="backfilling must be none, any or easy on a machine of hosts, got 'depth:2'"):
        replay_queue(wide, QueueRules(backfilling="depth:2"), requested(wide))
    with pytest.raises(ValueError, match=r"n_processors must be a multiple of host_processors \(3\), got 8"):
        replace(jobs, host_processors=3)
