"""A queue of rigid jobs before a pool of processors, compiled. Slow twin: tests/naive_queueing.py.

The waiting jobs stand in two lists, sorted by the primary and by the backfilling order. The running ones stand in
ascending order of (predicted end, start). The profile, for plans with several reservations, says how many processors
are free from each of its times on.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sojourn.simulator.jit import inlined, inner, kept_kernel

FCFS, SJF, SAF, WFP3, UNICEF, F1 = range(6)
NONE, EASY, CONSERVATIVE, DEPTH, ANY = range(5)
NEVER = 2**62
(FREE, N_RUNNING, N_WAITING, N_STARTED, NEXT_END, IS_FREED, IS_GROWN, N_STEPS, DUE, N_PASSES, PROCESSORS, SINCE,
 IS_GUARDED, IS_COUNTED, N_NUMBERS) = range(15)
"""Places in `State.numbers`. IS_FREED, IS_GROWN: since the last pass a job ended before its predicted end, or a
prediction fell; a prediction rose. PROCESSORS: of the machine. SINCE: until when `overtaken` is counted. IS_GUARDED:
whether there is a guard. IS_COUNTED: whether one counts what overtook a job."""


class Jobs(NamedTuple):
    """int64 (n,), in order of submission. planned_s: predicted run time at uptime 0, in 1..limit. fit_s: run time by
    which a job is backfilled. first, last: its breakpoints in uptime_s and total_s. rank: of its priority, 0 or more,
    smaller first. queue: its place in queue_processors, (n_queues,): the most that a queue's jobs may use at once.
    drawn_first, drawn_last: (n, n_draws), breakpoints of its drawn curves; n_draws may be 0."""

    submission_s: np.ndarray
    run_s: np.ndarray
    limit_s: np.ndarray
    size: np.ndarray
    planned_s: np.ndarray
    fit_s: np.ndarray
    first: np.ndarray
    last: np.ndarray
    uptime_s: np.ndarray
    total_s: np.ndarray
    rank: np.ndarray
    queue: np.ndarray
    queue_processors: np.ndarray
    drawn_first: np.ndarray
    drawn_last: np.ndarray


class State(NamedTuple):
    """start_s, reservation_s: (n,), -1 = not yet, none. reserved_s: what a waiting job has now, or, with depth, the
    pass that gave it. turn: by which ties are broken, the index of a waiting job, the place of a start. started: the
    jobs in order of start. overtaken: of a waiting job, processor-seconds that later ones ran since its submission.
    by_limit: with a guard, the running ones in order of (limit_end_s, start). by_turn: of those that run, if that is
    counted, in order of submission; later_size: processors from each on. rank: -1 = late. queue_free: (n_queues,).

    Of a machine of hosts, else empty: host_free, (n_hosts,). levels: how many hosts have 0 to all processors free.
    later_free, later_levels: the same at a reservation. first_host, next_host: the whole hosts of a job, as a chain, -1
    = no more. rest_host: that of its other processors, -1 = none. picked: hosts of the next start.

    drawn_step, drawn_end_s: (n, n_draws), as step and predicted_end_s by each draw. drawn_running: (n_draws, .), the
    running jobs in order of drawn end. shadow_s, spare: (n_draws,), the head's start by a draw, and the processors that
    others may still have then."""

    start_s: np.ndarray
    reservation_s: np.ndarray
    reserved_s: np.ndarray
    predicted_end_s: np.ndarray
    change_s: np.ndarray
    step: np.ndarray
    turn: np.ndarray
    started: np.ndarray
    overtaken: np.ndarray
    by_turn: np.ndarray
    later_size: np.ndarray
    limit_end_s: np.ndarray
    running: np.ndarray
    by_limit: np.ndarray
    primary: np.ndarray
    second: np.ndarray
    primary_key: np.ndarray
    second_key: np.ndarray
    time_s: np.ndarray
    room: np.ndarray
    rank: np.ndarray
    queue_free: np.ndarray
    host_free: np.ndarray
    levels: np.ndarray
    later_free: np.ndarray
    later_levels: np.ndarray
    first_host: np.ndarray
    next_host: np.ndarray
    rest_host: np.ndarray
    picked: np.ndarray
    drawn_step: np.ndarray
    drawn_end_s: np.ndarray
    drawn_running: np.ndarray
    shadow_s: np.ndarray
    spare: np.ndarray
    numbers: np.ndarray


class Rules(NamedTuple):
    """order, second_order: of the queue, of backfilling. depth: jobs with a reservation. guard_s, overtaken_s: NEVER =
    none. chance: of the draws in which the head must not be delayed; 0 = by one predicted run time."""

    order: int
    second_order: int
    backfilling: int
    depth: int
    guard_s: int
    overtaken_s: int
    chance: float


@inlined
def is_past(jobs: Jobs, s: State, rules: Rules, j: int, now: np.int64) -> bool:
    """Whether a waiting job is past its guard: waited too long, or was overtaken by too much work."""
    return now - jobs.submission_s[j] > rules.guard_s or (
        s.numbers[IS_COUNTED] == 1 and (s.overtaken[j] - 1) // s.numbers[PROCESSORS] >= rules.overtaken_s)


@inner
def key_of(jobs: Jobs, s: State, rules: Rules, order: int, j: int, now: np.int64) -> float:
    """Smaller = earlier, among jobs of one rank, which is set here."""
    wait, planned, size = now - jobs.submission_s[j], float(jobs.planned_s[j]), float(jobs.size[j])
    s.rank[j] = jobs.rank[j]
    if is_past(jobs, s, rules, j, now):
        s.rank[j] = -1
        return 0.0
    if order == SJF:
        return planned
    if order == SAF:
        return planned * size
    if order == WFP3:
        ratio = wait / planned
        return -(ratio * ratio * ratio) * size
    if order == UNICEF:
        return -(wait / (math.log2(max(size, 2.0)) * planned))
    if order == F1:
        return math.log10(planned) * size + 870.0 * math.log10(max(jobs.submission_s[j] - jobs.submission_s[0], 1))
    return 0.0


@inlined
def sift(listed: np.ndarray, key: np.ndarray, turn: np.ndarray, at: int) -> None:
    """The job at a place goes before those with a larger (key, turn)."""
    j = listed[at]
    while at > 0:
        before = listed[at - 1]
        if key[before] < key[j] or (key[before] == key[j] and turn[before] < turn[j]):
            break
        listed[at] = before
        at -= 1
    listed[at] = j


@inner
def sift_drawn(s: State, draw: int, at: int) -> None:
    """As `sift`, of the running jobs by a draw."""
    listed = s.drawn_running[draw]
    j = listed[at]
    while at > 0:
        before = listed[at - 1]
        end, own = s.drawn_end_s[before, draw], s.drawn_end_s[j, draw]
        if end < own or (end == own and s.turn[before] < s.turn[j]):
            break
        listed[at] = before
        at -= 1
    listed[at] = j


@inlined
def sift_waiting(s: State, listed: np.ndarray, key: np.ndarray, at: int) -> None:
    """The waiting job at a place goes before those with a larger (rank, key, turn)."""
    j = listed[at]
    while at > 0:
        before = listed[at - 1]
        if s.rank[before] < s.rank[j] or (s.rank[before] == s.rank[j] and (
                key[before] < key[j] or (key[before] == key[j] and s.turn[before] < s.turn[j]))):
            break
        listed[at] = before
        at -= 1
    listed[at] = j


@inlined
def sort_anew(jobs: Jobs, s: State, rules: Rules, listed: np.ndarray, key: np.ndarray, order: int,
              now: np.int64) -> None:
    """Keys of now; the list is nearly in order."""
    for i in range(s.numbers[N_WAITING]):
        key[listed[i]] = key_of(jobs, s, rules, order, listed[i], now)
    for i in range(1, s.numbers[N_WAITING]):
        sift_waiting(s, listed, key, i)


@inlined
def drop_started(s: State, listed: np.ndarray, n: int) -> int:
    to = 0
    for i in range(n):
        if s.start_s[listed[i]] < 0:
            listed[to] = listed[i]
            to += 1
    return to


@inner
def held(jobs: Jobs, k: int, last: int, uptime: np.int64, limit: np.int64) -> tuple[int, np.int64, np.int64]:
    """The breakpoint of a curve at an uptime, from a breakpoint k before it, the total there, and the uptime at which
    that changes. The limit is never outlived."""
    while k < last and jobs.uptime_s[k + 1] <= uptime:
        k += 1
    total = max(jobs.total_s[k], 1)
    while total <= uptime:
        total *= 2
    change = jobs.uptime_s[k + 1] if k < last else total
    if total >= limit:
        total = limit
        if k == last:
            change = np.int64(NEVER)
    return k, total, change


@inner
def predict(jobs: Jobs, s: State, j: int, now: np.int64) -> None:
    """The predicted end of a running job at its uptime, and when it or a drawn one changes."""
    uptime, limit = now - s.start_s[j], jobs.limit_s[j]
    s.step[j], total, change = held(jobs, s.step[j], jobs.last[j], uptime, limit)
    s.predicted_end_s[j] = s.start_s[j] + total
    for draw in range(s.drawn_end_s.shape[1]):
        s.drawn_step[j, draw], total, other = held(jobs, s.drawn_step[j, draw], jobs.drawn_last[j, draw], uptime, limit)
        s.drawn_end_s[j, draw] = s.start_s[j] + total
        change = min(change, other)
    s.change_s[j] = NEVER if change == NEVER else s.start_s[j] + change


@inlined
def copy(values: np.ndarray, to: np.ndarray) -> None:
    for k in range(len(values)):
        to[k] = values[k]


@inner
def has_room(levels: np.ndarray, size: np.int64) -> bool:
    """Whether hosts have room for a job: as many whole ones as it fills, and one for what is left of it."""
    whole = len(levels) - 1
    n_spare, rest = levels[whole] - size // whole, size % whole
    if n_spare < 0 or rest == 0 or n_spare > 0:
        return n_spare >= 0
    for level in range(rest, whole):
        if levels[level] > 0:
            return True
    return False


@inlined
def can_start(jobs: Jobs, s: State, j: int) -> bool:
    size = jobs.size[j]
    is_free = size <= s.numbers[FREE] and size <= s.queue_free[jobs.queue[j]]
    if is_free and len(s.host_free) > 0:
        is_free = has_room(s.levels, size)
    return is_free


@inner
def pick(s: State, size: np.int64) -> None:
    """Fills picked: the first free hosts, as many as the job fills, then for what is left the host with the least room,
    the first of these. There is room."""
    whole, n = len(s.levels) - 1, 0
    n_whole, rest = size // whole, size % whole
    best = whole + 1
    for host in range(len(s.host_free)):
        free = s.host_free[host]
        if n < n_whole and free == whole:
            s.picked[n] = host
            n += 1
        elif rest <= free < best and rest > 0:
            best, s.picked[n_whole] = free, host


@inlined
def take(free: np.ndarray, levels: np.ndarray, host: int, size: np.int64 | int) -> None:
    """`size` processors of a host; given back, if it is negative."""
    levels[free[host]] -= 1
    free[host] -= size
    levels[free[host]] += 1


@inner
def take_picked(s: State, free: np.ndarray, levels: np.ndarray, size: np.int64, sign: int) -> None:
    whole = len(levels) - 1
    for k in range(size // whole):
        take(free, levels, s.picked[k], sign * whole)
    if size % whole > 0:
        take(free, levels, s.picked[size // whole], sign * (size % whole))


@inner
def hold_hosts(s: State, j: int, size: np.int64) -> None:
    whole = len(s.levels) - 1
    pick(s, size)
    take_picked(s, s.host_free, s.levels, size, 1)
    s.first_host[j], s.rest_host[j] = -1, -1
    for k in range(size // whole):
        s.next_host[s.picked[k]], s.first_host[j] = s.first_host[j], s.picked[k]
    if size % whole > 0:
        s.rest_host[j] = s.picked[size // whole]


@inner
def give_back(s: State, free: np.ndarray, levels: np.ndarray, j: int, size: np.int64) -> None:
    """What a running job has of its hosts."""
    whole, host = len(levels) - 1, s.first_host[j]
    while host >= 0:
        take(free, levels, host, -whole)
        host = s.next_host[host]
    if s.rest_host[j] >= 0:
        take(free, levels, s.rest_host[j], -(size % whole))


@inner
def leaves_room(s: State, size: np.int64, of_head: np.int64) -> bool:
    """Whether the head fits at its reservation beside a job that starts now; if so, that is noted."""
    pick(s, size)
    take_picked(s, s.later_free, s.later_levels, size, 1)
    if has_room(s.later_levels, of_head):
        return True
    take_picked(s, s.later_free, s.later_levels, size, -1)
    return False


@inner
def start(jobs: Jobs, s: State, j: int, now: np.int64, begun_s: np.int64) -> None:
    s.start_s[j] = begun_s
    s.turn[j] = s.numbers[N_STARTED]
    s.started[s.numbers[N_STARTED]] = j
    s.step[j] = jobs.first[j]
    for draw in range(len(s.spare)):
        s.drawn_step[j, draw] = jobs.drawn_first[j, draw]
    predict(jobs, s, j, now)
    n = s.numbers[N_RUNNING]
    for draw in range(len(s.spare)):
        s.drawn_running[draw, n] = j
        sift_drawn(s, draw, n)
    s.running[n] = j
    sift(s.running, s.predicted_end_s, s.turn, n)
    if s.numbers[IS_GUARDED] == 1:
        s.by_limit[n], s.limit_end_s[j] = j, begun_s + jobs.limit_s[j]
        sift(s.by_limit, s.limit_end_s, s.turn, n)
    if s.numbers[IS_COUNTED] == 1:
        at = n
        while at > 0 and s.by_turn[at - 1] > j:
            s.by_turn[at] = s.by_turn[at - 1]
            at -= 1
        s.by_turn[at] = j
    s.numbers[N_RUNNING] = n + 1
    s.numbers[N_STARTED] += 1
    s.numbers[FREE] -= jobs.size[j]
    s.queue_free[jobs.queue[j]] -= jobs.size[j]
    if len(s.host_free) > 0:
        hold_hosts(s, j, jobs.size[j])
    s.numbers[NEXT_END] = min(s.numbers[NEXT_END], begun_s + jobs.run_s[j])


@inner
def drop_ended(jobs: Jobs, s: State, listed: np.ndarray, now: np.int64) -> None:
    """Of the running jobs in an order."""
    to = 0
    for i in range(s.numbers[N_RUNNING]):
        if s.start_s[listed[i]] + jobs.run_s[listed[i]] > now:
            listed[to] = listed[i]
            to += 1


@inlined
def end_and_predict(jobs: Jobs, s: State, now: np.int64) -> None:
    """Jobs whose run is over leave; predictions that change by now are made anew."""
    to, is_moved, next_end = 0, False, np.int64(NEVER)
    if s.numbers[IS_GUARDED] == 1:
        drop_ended(jobs, s, s.by_limit, now)
    if s.numbers[IS_COUNTED] == 1:
        drop_ended(jobs, s, s.by_turn, now)
    for draw in range(len(s.spare)):
        drop_ended(jobs, s, s.drawn_running[draw], now)
    for i in range(s.numbers[N_RUNNING]):
        j = s.running[i]
        end, before = s.start_s[j] + jobs.run_s[j], s.predicted_end_s[j]
        if end <= now:
            s.numbers[FREE] += jobs.size[j]
            s.queue_free[jobs.queue[j]] += jobs.size[j]
            if len(s.host_free) > 0:
                give_back(s, s.host_free, s.levels, j, jobs.size[j])
            if end < before:
                s.numbers[IS_FREED] = 1
            continue
        if s.change_s[j] <= now:
            predict(jobs, s, j, now)
            if s.predicted_end_s[j] > before:
                s.numbers[IS_GROWN] = 1
            elif s.predicted_end_s[j] < before:
                s.numbers[IS_FREED] = 1
            is_moved = True
        next_end = min(next_end, end)
        s.running[to] = j
        to += 1
    s.numbers[N_RUNNING], s.numbers[NEXT_END] = to, next_end
    if is_moved:
        for i in range(1, to):
            sift(s.running, s.predicted_end_s, s.turn, i)
            for draw in range(len(s.spare)):
                sift_drawn(s, draw, i)


@inner
def backfill_by_chance(jobs: Jobs, s: State, listed: np.ndarray, chance: float, head: int, now: np.int64) -> None:
    """A job starts if, in so many draws of all run times, the head is not delayed: the job ends by the head's start or
    leaves it room. The head's reservation: its start in so many draws, at the latest."""
    n_draws, numbers = len(s.spare), s.numbers
    n_least = math.ceil(chance * n_draws - 1e-9)
    for draw in range(n_draws):
        s.shadow_s[draw], s.spare[draw] = NEVER, numbers[FREE] - jobs.size[head]
        for i in range(numbers[N_RUNNING]):
            j = s.drawn_running[draw, i]
            s.spare[draw] += jobs.size[j]
            if s.spare[draw] >= 0:
                s.shadow_s[draw] = s.drawn_end_s[j, draw]
                break
    if s.reservation_s[head] < 0:
        s.reservation_s[head] = NEVER
        for draw in range(n_draws):
            n_by = 0
            for other in range(n_draws):
                n_by += s.shadow_s[other] <= s.shadow_s[draw]
            if n_by >= n_least:
                s.reservation_s[head] = min(s.reservation_s[head], s.shadow_s[draw])
    for i in range(numbers[N_WAITING]):
        if numbers[FREE] == 0:
            break
        j = listed[i]
        size = jobs.size[j]
        if size > numbers[FREE] or s.start_s[j] >= 0 or j == head or not can_start(jobs, s, j):
            continue
        n_well = 0
        for draw in range(n_draws):
            n_well += size <= s.spare[draw] or now + drawn_run(jobs, j, draw) <= s.shadow_s[draw]
        if n_well >= n_least:
            for draw in range(n_draws):
                if now + drawn_run(jobs, j, draw) > s.shadow_s[draw]:
                    s.spare[draw] -= size
            start(jobs, s, j, now, now)


@inlined
def drawn_run(jobs: Jobs, j: int, draw: int) -> np.int64:
    return min(max(jobs.total_s[jobs.drawn_first[j, draw]], 1), jobs.limit_s[j])


@inlined
def pass_easy(jobs: Jobs, s: State, rules: Rules, listed: np.ndarray, now: np.int64) -> None:
    """From the head, jobs that fit start; the first that does not gets a reservation; others must not delay it; if it
    is past its guard, by the limits. Jobs of a queue that is full are passed over; with ANY, all that do not fit."""
    n, at, numbers = s.numbers[N_WAITING], 0, s.numbers
    while at < n:
        j = s.primary[at]
        if can_start(jobs, s, j):
            start(jobs, s, j, now, now)
        elif rules.backfilling != ANY and jobs.size[j] <= s.queue_free[jobs.queue[j]]:
            break
        at += 1
    if at == n or rules.backfilling != EASY:
        return
    head = s.primary[at]
    reservation, extra = np.int64(NEVER), numbers[FREE] - jobs.size[head]
    is_late = is_past(jobs, s, rules, head, now)
    if len(s.spare) > 0 and not is_late:
        backfill_by_chance(jobs, s, listed, rules.chance, head, now)
        return
    ends_s, running, fit_s = s.predicted_end_s, s.running, jobs.fit_s
    if is_late:
        ends_s, running, fit_s = s.limit_end_s, s.by_limit, jobs.limit_s
    has_hosts = len(s.host_free) > 0
    if has_hosts:
        copy(s.host_free, s.later_free)
        copy(s.levels, s.later_levels)
    for i in range(numbers[N_RUNNING]):
        j = running[i]
        extra += jobs.size[j]
        if has_hosts:
            give_back(s, s.later_free, s.later_levels, j, jobs.size[j])
        if extra >= 0 and (not has_hosts or has_room(s.later_levels, jobs.size[head])):
            reservation = ends_s[j]
            break
    if s.reservation_s[head] < 0:
        s.reservation_s[head] = reservation
    for i in range(n):
        if numbers[FREE] == 0:
            break
        j = listed[i]
        size = jobs.size[j]
        if size > numbers[FREE] or s.start_s[j] >= 0 or j == head or not can_start(jobs, s, j):
            continue
        is_early = now + fit_s[j] <= reservation
        if is_early or (size <= extra and (not has_hosts or leaves_room(s, size, jobs.size[head]))):
            start(jobs, s, j, now, now)
            if not is_early:
                extra -= size


@inner
def profile_of_running(jobs: Jobs, s: State, now: np.int64) -> None:
    n, room = 1, s.numbers[FREE]
    s.time_s[0], s.room[0] = now, room
    for i in range(s.numbers[N_RUNNING]):
        j = s.running[i]
        room += jobs.size[j]
        if s.predicted_end_s[j] != s.time_s[n - 1]:
            s.time_s[n] = s.predicted_end_s[j]
            n += 1
        s.room[n - 1] = room
    s.numbers[N_STEPS] = n


@inner
def earliest(s: State, size: np.int64, length: np.int64) -> np.int64:
    """The first time from which `size` processors are free for `length` s. The last step has room for any job."""
    begin, n = 0, s.numbers[N_STEPS]
    for i in range(n):
        if s.room[i] < size:
            begin = i + 1
        elif i + 1 == n or s.time_s[i + 1] >= s.time_s[begin] + length:
            break
    return s.time_s[begin]


@inner
def step_at(s: State, time: np.int64) -> int:
    """The step that begins at a time, which is not before the first; made if there is none."""
    n = s.numbers[N_STEPS]
    low = int(np.searchsorted(s.time_s[:n], time))
    if low < n and s.time_s[low] == time:
        return low
    for i in range(n, low, -1):
        s.time_s[i], s.room[i] = s.time_s[i - 1], s.room[i - 1]
    s.time_s[low], s.room[low] = time, s.room[low - 1]
    s.numbers[N_STEPS] = n + 1
    return low


@inner
def reserve(s: State, begin: np.int64, end: np.int64, size: np.int64) -> None:
    """`size` fewer processors are free from begin to end; more, if it is negative."""
    first = step_at(s, begin)
    for i in range(first, step_at(s, end)):
        s.room[i] -= size


@inner
def pass_conservative(jobs: Jobs, s: State, now: np.int64) -> None:
    """Each waiting job has a reservation. One is moved earlier if something ended early; if a prediction rose, all are
    made anew in primary order. None is in the past: a pass runs when the first is due."""
    n, numbers = s.numbers[N_WAITING], s.numbers
    profile_of_running(jobs, s, now)
    for i in range(n):
        j = s.primary[i]
        if numbers[IS_GROWN] == 1:
            s.reserved_s[j] = -1
        elif s.reserved_s[j] >= 0:
            reserve(s, s.reserved_s[j], s.reserved_s[j] + jobs.planned_s[j], jobs.size[j])
    numbers[DUE] = NEVER
    for i in range(n):
        j = s.primary[i]
        size, planned, at = jobs.size[j], jobs.planned_s[j], s.reserved_s[j]
        if at < 0 or (numbers[IS_FREED] == 1 and at > now):
            if at >= 0:
                reserve(s, at, at + planned, -size)
            at = earliest(s, size, planned)
            reserve(s, at, at + planned, size)
            s.reserved_s[j] = at
        if at == now:
            start(jobs, s, j, now, now)
            continue
        numbers[DUE] = min(numbers[DUE], at)
        if s.reservation_s[j] < 0:
            s.reservation_s[j] = at
    numbers[IS_FREED], numbers[IS_GROWN] = 0, 0


@inner
def pass_depth(jobs: Jobs, s: State, listed: np.ndarray, depth: int, now: np.int64) -> None:
    """The first `depth` jobs that cannot start have reservations of now; others must delay none of them."""
    n, at, n_reserved, numbers = s.numbers[N_WAITING], 0, 0, s.numbers
    profile_of_running(jobs, s, now)
    while at < n and n_reserved < depth:
        j = s.primary[at]
        at += 1
        if jobs.size[j] > s.queue_free[jobs.queue[j]]:
            continue
        time = earliest(s, jobs.size[j], jobs.planned_s[j])
        reserve(s, time, time + jobs.planned_s[j], jobs.size[j])
        if time == now:
            start(jobs, s, j, now, now)
            continue
        n_reserved += 1
        s.reserved_s[j] = numbers[N_PASSES]
        if s.reservation_s[j] < 0:
            s.reservation_s[j] = time
    for i in range(n):
        if numbers[FREE] == 0:
            break
        j = listed[i]
        size = jobs.size[j]
        if s.start_s[j] >= 0 or s.reserved_s[j] == numbers[N_PASSES] or not can_start(jobs, s, j):
            continue
        if earliest(s, size, jobs.fit_s[j]) == now:
            reserve(s, now, now + jobs.planned_s[j], size)
            start(jobs, s, j, now, now)


@inner
def submit(jobs: Jobs, s: State, rules: Rules, j: int, now: np.int64) -> None:
    last = s.numbers[N_WAITING]
    s.overtaken[j] = 0
    s.primary[last], s.primary_key[j] = j, key_of(jobs, s, rules, rules.order, j, now)
    sift_waiting(s, s.primary, s.primary_key, last)
    if has_second(rules):
        s.second[last], s.second_key[j] = j, key_of(jobs, s, rules, rules.second_order, j, now)
        sift_waiting(s, s.second, s.second_key, last)
    s.numbers[N_WAITING] = last + 1


@inlined
def count_overtaking(jobs: Jobs, s: State, now: np.int64) -> None:
    """Adds, to each waiting job, what ran since then of jobs that were submitted after it."""
    numbers, n, passed_s = s.numbers, s.numbers[N_RUNNING], now - s.numbers[SINCE]
    numbers[SINCE] = now
    if numbers[N_WAITING] == 0:
        return
    s.later_size[n] = 0
    for i in range(n - 1, -1, -1):
        s.later_size[i] = s.later_size[i + 1] + jobs.size[s.by_turn[i]]
    for i in range(numbers[N_WAITING]):
        j = s.primary[i]
        s.overtaken[j] += passed_s * s.later_size[np.searchsorted(s.by_turn[:n], j)]


@inlined
def has_second(rules: Rules) -> bool:
    """Whether jobs are backfilled in an order of their own."""
    return rules.second_order != rules.order and (rules.backfilling == EASY or rules.backfilling == DEPTH)


@inner
def serve(jobs: Jobs, s: State, rules: Rules, at: int, until_s: int) -> int:
    """Until every job has started, or until_s, when nothing is done yet; the next job to be submitted. Those from `at`
    on are still to be. A pass runs at DUE at the latest."""
    n, numbers = len(jobs.submission_s), s.numbers
    order, second_order, backfilling, depth = rules[:4]
    is_moving = order in (WFP3, UNICEF) or numbers[IS_GUARDED] == 1
    is_second_moving = second_order in (WFP3, UNICEF) or numbers[IS_GUARDED] == 1
    while at < n or numbers[N_WAITING] > 0:
        now = min(numbers[NEXT_END], numbers[DUE])
        if at < n:
            now = min(now, jobs.submission_s[at])
        if now >= until_s:
            break
        numbers[DUE] = NEVER
        if numbers[IS_COUNTED] == 1:
            count_overtaking(jobs, s, now)
        is_joined = at < n and jobs.submission_s[at] == now
        if numbers[NEXT_END] <= now or numbers[N_WAITING] > 0 or is_joined:
            end_and_predict(jobs, s, now)
        while at < n and jobs.submission_s[at] == now:
            submit(jobs, s, rules, at, now)
            at += 1
        n_waiting = numbers[N_WAITING]
        if n_waiting == 0:
            continue
        numbers[N_PASSES] += 1
        if is_moving:
            sort_anew(jobs, s, rules, s.primary, s.primary_key, order, now)
        if has_second(rules) and is_second_moving:
            sort_anew(jobs, s, rules, s.second, s.second_key, second_order, now)
        listed, n_before = s.second if has_second(rules) else s.primary, numbers[N_STARTED]
        if backfilling == CONSERVATIVE:
            pass_conservative(jobs, s, now)
        elif backfilling == DEPTH:
            pass_depth(jobs, s, listed, depth, now)
        else:
            pass_easy(jobs, s, rules, listed, now)
        if numbers[N_STARTED] > n_before:
            numbers[N_WAITING] = drop_started(s, s.primary, n_waiting)
            if has_second(rules):
                drop_started(s, s.second, n_waiting)
    return at


@kept_kernel
def replay_queue(jobs: Jobs, s: State, rules: Rules, at: int, until_s: int) -> int:
    """Fills start_s, and reservation_s: the first time at which a job was promised to start; -1 = never promised. The
    rest: as `serve`, which it goes on with."""
    return serve(jobs, s, rules, at, until_s)


@kept_kernel
def replay_draws(jobs: Jobs, s: State, rules: Rules, begun_s: np.ndarray, now: np.int64, run_s: np.ndarray,
                 start_s: np.ndarray) -> None:
    """Fills start_s, int64 (n_draws, n): the queue of `now` served without further submissions, once for each run_s.

    begun_s: (n,), rising, of the jobs that run, which come first; -1 = waits.
    """
    n, numbers = len(begun_s), s.numbers
    n_processors, is_guarded = numbers[FREE], numbers[IS_GUARDED]
    for draw in range(len(run_s)):
        drawn = Jobs(jobs.submission_s, run_s[draw], jobs.limit_s, jobs.size, jobs.planned_s, jobs.fit_s, jobs.first,
                     jobs.last, jobs.uptime_s, jobs.total_s, jobs.rank, jobs.queue, jobs.queue_processors,
                     jobs.drawn_first, jobs.drawn_last)
        copy(jobs.queue_processors, s.queue_free)
        for k in range(N_NUMBERS):
            numbers[k] = 0
        numbers[IS_GUARDED] = is_guarded
        numbers[FREE], numbers[NEXT_END], numbers[DUE] = n_processors, NEVER, now
        for j in range(n):
            s.turn[j], s.start_s[j], s.reserved_s[j], s.reservation_s[j] = j, -1, -1, -1
            if begun_s[j] >= 0:
                start(drawn, s, j, now, begun_s[j])
            else:
                submit(drawn, s, rules, j, now)
        serve(drawn, s, rules, n, NEVER)
        for j in range(n):
            start_s[draw, j] = s.start_s[j]
