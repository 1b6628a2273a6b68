"""Compiled loops over hosts and packed curves; imported only if numba is installed.

Slow twins: the curves.
"""

from __future__ import annotations

import numpy as np
from numba.core.types import float64, int32, int64, voidptr
from numba.extending import intrinsic
from numba.np.numpy_support import carray

from sojourn.serving.curves import habit_kernels as _habits
from sojourn.serving.curves.curve_arrays import (
    AT_AFTER,
    AT_GAP,
    AT_RATE,
    AT_SECONDS,
    AT_TOTAL,
    HAZARD,
    LIMITED,
    N_BLOCK,
    N_INTERVAL,
    N_STEP,
    POINT,
    Hosts,
    hazard_mean,
    n_at_most,
    n_below,
    next_change_at,
    quantile_at,
    survival_at,
)
from sojourn.serving.curves.formulas import AFTER, GAPS, RATES, mean_seconds, once_remaining, outlived_total
from sojourn.serving.curves.habit_kernels import Blend, Habits, OpenOnes
from sojourn.serving.kernel import kernel

N_BATCH = 128
"""Size of a batch of requests; results of 64 to 8,192 are about equally fast."""


@kernel
def point_seconds(scores, smearing):
    """Mean remaining in whole seconds of each raw score."""
    seconds = np.empty(len(scores))
    for idx in range(len(scores)):
        seconds[idx] = np.rint(mean_seconds(scores[idx], smearing))
    return seconds


@kernel
def remaining_rows(curves, slots, uptimes_s):
    """`remaining_at` of each slot at its uptime, whole seconds float64 (n,); empty if a slot or an uptime is invalid.

    In each batch, searches, loads and arithmetic are separate loops, with the same loads for all
    kinds: loads from a large table overlap, which halves the time.
    """
    answers = np.empty(len(slots))
    model, column = np.empty(N_BATCH, np.int64), np.empty(N_BATCH, np.int64)
    upper_s, first, second, third = np.empty(N_BATCH), np.empty(N_BATCH), np.empty(N_BATCH), np.empty(N_BATCH)
    for start in range(0, len(slots), N_BATCH):
        n = min(N_BATCH, len(slots) - start)
        for idx in range(n):
            slot, uptime_s = slots[start + idx], uptimes_s[start + idx]
            model[idx] = curves.model[slot] if 0 <= slot < len(curves.model) else -1
            if model[idx] < 0 or not 0.0 <= uptime_s < np.inf:
                return np.empty(0)
        for idx in range(n):
            kind, bounds = curves.kind[model[idx]], curves.bounds[model[idx]]
            if kind == HAZARD:
                position = n_at_most(bounds, uptimes_s[start + idx])
                column[idx], upper_s[idx] = N_INTERVAL * (position - 1) + AT_RATE, bounds[position]
            elif kind == LIMITED:
                n_edges, slot = curves.n_bounds[model[idx]] - 1, slots[start + idx]
                position = n_at_most(curves.numbers[slot, :n_edges], uptimes_s[start + idx])
                column[idx] = n_edges + N_INTERVAL * (position - 1) + AT_RATE
                upper_s[idx] = curves.numbers[slot, position] if position < n_edges else np.inf
            elif kind == POINT:
                column[idx] = N_STEP * n_below(bounds, uptimes_s[start + idx]) + AT_SECONDS
            else:
                column[idx] = AT_TOTAL
        for idx in range(n):
            slot = slots[start + idx]
            first[idx] = curves.numbers[slot, column[idx]]
            second[idx] = curves.numbers[slot, column[idx] + AT_GAP - AT_RATE]
            third[idx] = curves.numbers[slot, column[idx] + AT_AFTER - AT_RATE]
        for idx in range(n):
            kind, uptime_s = curves.kind[model[idx]], uptimes_s[start + idx]
            if kind in (HAZARD, LIMITED):
                answers[start + idx] = hazard_mean(upper_s[idx], first[idx], second[idx], third[idx], uptime_s)
            elif kind == POINT:
                answers[start + idx] = first[idx]
            else:
                answers[start + idx] = np.rint(once_remaining(first[idx], uptime_s))
    return answers


@kernel
def quantile_rows(curves, slots, shares, uptimes_s):
    answers = np.empty(len(slots))
    for idx in range(len(slots)):
        answers[idx] = quantile_at(curves, slots[idx], shares[idx], uptimes_s[idx])
    return answers


@kernel
def survival_rows(curves, slots, horizons_s, uptimes_s):
    answers = np.empty(len(slots))
    for idx in range(len(slots)):
        answers[idx] = survival_at(curves, slots[idx], horizons_s[idx], uptimes_s[idx])
    return answers


@kernel
def next_change_rows(curves, slots, uptimes_s):
    answers = np.empty(len(slots))
    for idx in range(len(slots)):
        answers[idx] = next_change_at(curves, slots[idx], uptimes_s[idx])
    return answers


@intrinsic
def ptr(typing_context, address):
    """A pointer to what lies at an address, int64."""
    return voidptr(int64), lambda context, builder, signature, values: builder.inttoptr(
        values[0], context.get_value_type(voidptr))


@kernel
def hosts_at(places):
    """`Hosts` by address, first and last size of each array, int64 (12, 3): to pass 12 arrays costs 0.6 us or more."""
    a, n, m = places[:, 0], places[:, 1], places[:, 2]
    return Hosts(carray(ptr(a[0]), n[0], float64), carray(ptr(a[1]), n[1], float64), carray(ptr(a[2]), n[2], float64),
                 carray(ptr(a[3]), n[3], int32), carray(ptr(a[4]), (n[4], m[4]), int32),
                 carray(ptr(a[5]), (n[5], m[5]), float64), carray(ptr(a[6]), n[6], int32),
                 carray(ptr(a[7]), n[7], float64), carray(ptr(a[8]), n[8], int32),
                 carray(ptr(a[9]), (n[9], m[9]), float64), carray(ptr(a[10]), (n[10], m[10]), float64),
                 carray(ptr(a[11]), n[11], int64))


@kernel
def host_exits(places, now_s):
    """Latest exit of each host at `now_s`, float64 (n_hosts,); due hosts are updated first."""
    hosts = hosts_at(places)
    for block in range(len(hosts.soon_s)):
        if hosts.soon_s[block] > now_s:
            continue
        start, soon_s = block * N_BLOCK, np.inf
        for host in range(start, min(start + N_BLOCK, len(hosts.exit_s))):
            if hosts.due_s[host] <= now_s:
                refresh_host(hosts, host, now_s)
            soon_s = min(soon_s, hosts.due_s[host])
        hosts.soon_s[block] = soon_s
    answers = np.empty(len(hosts.exit_s))
    for host in range(len(answers)):
        answers[host] = max(hosts.exit_s[host], now_s)
    return answers


@kernel
def refresh_host(hosts, host, now_s):
    """Set a non-empty host's exit, its last-leaving request, and its next due time.

    As long as the exit does not fall, only members whose `rises_s` has come are looked at: the others' numbers lie in
    memory that no recent decision has read.
    """
    rows, rises_s = hosts.members[host, : hosts.n_members[host]], hosts.rises_s[host]
    exit_s, last = hosts.exit_s[host], hosts.last[host]
    is_lower = hosts.due_s[host] == -np.inf
    for idx in range(len(rows)):
        if rows[idx] == last and rises_s[idx] <= now_s:
            is_lower |= held_exit(hosts, last, now_s) < exit_s
    if is_lower:
        exit_s, last = -np.inf, -1
    for idx in range(len(rows)):
        if is_lower or rises_s[idx] <= now_s:
            row_exit_s = held_exit(hosts, rows[idx], now_s)
            if row_exit_s > exit_s:
                exit_s, last = row_exit_s, rows[idx]
    due_s = np.inf
    for idx in range(len(rows)):
        if is_lower or rises_s[idx] <= now_s:
            rises_s[idx] = rises_at(hosts, rows[idx], -np.inf if rows[idx] == last else exit_s, now_s)
        due_s = min(due_s, rises_s[idx])
    hosts.exit_s[host], hosts.last[host], hosts.due_s[host] = exit_s, last, due_s


@kernel
def place_hazard(places, host, row, start_s, of_model, numbers, bounds, interval, now_s):
    """`place_row` for a hazard curve by its numbers; sets the held totals. bounds, interval: of its model."""
    hosts, n_edges = hosts_at(places), len(bounds)
    steps_s, held_s = hosts.changes_s[of_model, : len(interval)], hosts.totals_s[row]
    for idx in range(len(interval)):
        at = interval[idx]
        upper_s = bounds[at + 1] if at + 1 < n_edges else np.inf
        left_s = hazard_mean(upper_s, numbers[RATES * n_edges + at], numbers[GAPS * n_edges + at],
                             numbers[AFTER * n_edges + at], steps_s[idx])
        held_s[idx] = steps_s[idx] + max(left_s, 1.0)
        if idx + 1 < len(interval):
            held_s[idx] = max(held_s[idx], steps_s[idx + 1])
    held_s[len(interval) :] = -np.inf
    join_host(hosts, host, row, start_s, of_model, now_s)


@kernel
def place_row(places, host, row, start_s, of_model, held_s, now_s):
    """Add a request with these held totals to a host."""
    hosts = hosts_at(places)
    hosts.totals_s[row, : len(held_s)] = held_s
    hosts.totals_s[row, len(held_s) :] = -np.inf
    join_host(hosts, host, row, start_s, of_model, now_s)


@kernel
def join_host(hosts, host, row, arrival_s, model, now_s):
    """Add a request whose held totals are set; a host's exit that was valid at `now_s` stays valid."""
    hosts.arrival_s[row], hosts.model[row] = arrival_s, model
    idx = hosts.n_members[host]
    hosts.members[host, idx], hosts.rises_s[host, idx] = row, -np.inf
    hosts.n_members[host] += 1
    if hosts.due_s[host] <= now_s:
        return
    limit_s, exit_s = hosts.exit_s[host], held_exit(hosts, row, now_s)
    if exit_s > limit_s:
        hosts.exit_s[host], hosts.last[host], limit_s = exit_s, row, -np.inf
    hosts.rises_s[host, idx] = rises_at(hosts, row, limit_s, now_s)
    hosts.due_s[host] = min(hosts.due_s[host], hosts.rises_s[host, idx])
    block = host // N_BLOCK
    hosts.soon_s[block] = min(hosts.soon_s[block], hosts.due_s[host])


@kernel
def leave_row(places, host, row):
    """Remove a request from its host; the host becomes due if it was the last-leaving one."""
    hosts = hosts_at(places)
    members, rises_s, n_left = hosts.members, hosts.rises_s, hosts.n_members[host] - 1
    for idx in range(n_left):
        if members[host, idx] == row:
            members[host, idx], rises_s[host, idx] = members[host, n_left], rises_s[host, n_left]
    hosts.n_members[host] = n_left
    if n_left == 0:
        hosts.exit_s[host], hosts.due_s[host] = -np.inf, np.inf
    elif hosts.last[host] == row:
        hosts.due_s[host] = hosts.soon_s[host // N_BLOCK] = -np.inf
    return hosts.model[row]


@kernel
def held_exit(hosts, row, now_s):
    """A request's held exit."""
    step = held_step(hosts, row, now_s)
    total_s = hosts.totals_s[row, step]
    if step == hosts.n_changes[hosts.model[row]] - 1:
        total_s = outlived_total(total_s, now_s - hosts.arrival_s[row])
    return hosts.arrival_s[row] + total_s


@kernel
def rises_at(hosts, row, limit_s, now_s):
    """The next change at which a request's held exit is above a limit; if none, the end of the last one."""
    arrival_s, model = hosts.arrival_s[row], hosts.model[row]
    n_changes = hosts.n_changes[model]
    for step in range(held_step(hosts, row, now_s) + 1, n_changes):
        if arrival_s + hosts.totals_s[row, step] > limit_s:
            return arrival_s + hosts.changes_s[model, step]
    return arrival_s + outlived_total(hosts.totals_s[row, n_changes - 1], now_s - arrival_s)


@kernel
def held_step(hosts, row, now_s):
    """The index of a request's held total that is valid now."""
    return max(n_at_most(hosts.changes_s[hosts.model[row]], now_s - hosts.arrival_s[row]) - 1, 0)


fill_blended = kernel(_habits.fill_blended)


@kernel
def answer_by_habits(edges, shares, base, rules, counts, born, start_s, limit_s, interval, serial, nodes_of,
                     due_s, due_place, due_serial, size, blend_rules, buckets, places, sums, model_of, known_of,
                     is_weighed,
                     now_s, nodes, numbers, own_limit_s, tail_s, is_blended, known, weights, model, blended):
    habits = Habits(edges, shares, base, rules, counts, born)
    ones = OpenOnes(start_s, limit_s, interval, serial, nodes_of, due_s, due_place, due_serial, size)
    blend = Blend(blend_rules, buckets, places, sums, model_of, known_of, is_weighed)
    _habits.answer_by_habits(habits, ones, blend, now_s, nodes, numbers, own_limit_s, tail_s, is_blended, known,
                             weights, model, blended)


@kernel
def follow_by_habits(edges, shares, base, rules, counts, born, start_s, limit_s, interval, serial, nodes_of,
                     due_s, due_place, due_serial, size, blend_rules, buckets, places, sums, model_of, known_of,
                     is_weighed,
                     place, own_serial, own_start_s, own_limit_s, nodes, known, model, is_own, seen_s):
    habits = Habits(edges, shares, base, rules, counts, born)
    ones = OpenOnes(start_s, limit_s, interval, serial, nodes_of, due_s, due_place, due_serial, size)
    blend = Blend(blend_rules, buckets, places, sums, model_of, known_of, is_weighed)
    _habits.follow_by_habits(habits, ones, blend, place, own_serial, own_start_s, own_limit_s, nodes, known, model,
                             is_own, seen_s)


@kernel
def end_by_habits(edges, shares, base, rules, counts, born, start_s, limit_s, interval, serial, nodes_of,
                  due_s, due_place, due_serial, size, blend_rules, buckets, places, sums, model_of, known_of,
                  is_weighed,
                  place, end_s, began_s, lifetime_s):
    habits = Habits(edges, shares, base, rules, counts, born)
    ones = OpenOnes(start_s, limit_s, interval, serial, nodes_of, due_s, due_place, due_serial, size)
    blend = Blend(blend_rules, buckets, places, sums, model_of, known_of, is_weighed)
    return _habits.end_by_habits(habits, ones, blend, place, end_s, began_s, lifetime_s)
