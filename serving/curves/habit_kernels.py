"""What each owner's requests do of late: discrete hazards over nested keys, counted as they run and end.

There is no fit. Each key of a request has a node: all requests, each owner, the finest owner with
the limit, and with the whole shape. In each interval a node counts the requests that came through
or ended there, with a slow and a fast memory; old ones fade by each new one. So running requests
count up to their ages, late intervals fade no faster than they are visited, and an idle owner keeps
its habits. A request's hazard starts from that of all and is drawn to each node in turn, as far as
the node has counts. `Blend` weighs these hazards against those of a model, by how both did of late.
The same functions replay a trace and serve; with numba they are compiled.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from sojourn.serving.curves.formulas import HALF_S, N_HAZARD, WIDTH_MIN_S, fill_hazard, fill_limit_axis
from sojourn.serving.inputs import has_limit
from sojourn.serving.kernel import register_jitable

HAZARD_TOP = 1.0 - 1e-12
"""The largest hazard of an interval, so that its cumulative hazard is finite."""
N_NODES_MAX = 20_000
"""The most nodes of a level; beyond it the one with the oldest last arrival is removed."""
UNTIMED = -1
"""The interval of a request that counts only when it ends, since it waits after its admission."""
_MIX, _MASK = 0x9E3779B97F4A7C15, (1 << 63) - 1


class HabitRules(NamedTuple):
    """Constants. memory: requests in an interval after which a count weighs 1/e, of all requests (`all_memory`), and
    of a node's slow and fast counts. prior: weight of the coarser hazard, in requests, beside slow and fast counts.
    """

    all_memory: float = 4_000.0
    memory: float = 512.0
    fast_memory: float = 2.0
    prior: float = 16.0
    fast_prior: float = 4.0


class Habits(NamedTuple):
    """edges: float64 (J + 1,) s; shares: float64 (K + 1,) of the limit, or empty; base: float64 (J + K,), the hazards
    before anything is counted. rules: float64 (5,), `HabitRules`. counts: float64 (S, J + K, 4), of each node at risk
    and ended, slow, then fast; node 0 is of all. born: int64 (S,), the first admission of the node's present key.
    """

    edges: np.ndarray
    shares: np.ndarray
    base: np.ndarray
    rules: np.ndarray
    counts: np.ndarray
    born: np.ndarray


class OpenOnes(NamedTuple):
    """Requests that run, by place: start_s float64, limit_s float64, interval int64, serial int64 (-1 = none), nodes
    int64 (n, levels). Heap of their next edges: due_s float64, due_place and due_serial int64; size: int64 (1,).
    """

    start_s: np.ndarray
    limit_s: np.ndarray
    interval: np.ndarray
    serial: np.ndarray
    nodes: np.ndarray
    due_s: np.ndarray
    due_place: np.ndarray
    due_serial: np.ndarray
    size: np.ndarray


class BlendRules(NamedTuple):
    """Constants of the weights. all_memory, memory: intervals after which a loss weighs 1/e, over all and of an owner.
    all_prior: weight of one half at the start; prior: of the overall weight beside an owner's; both in sums of squared
    differences.
    """

    all_memory: float = 20_000.0
    memory: float = 5_000.0
    all_prior: float = 0.1
    prior: float = 10.0


class Blend(NamedTuple):
    """Weights of a model beside the habits, by their latest losses in the intervals that requests came through.

    rules: float64 (4,), `BlendRules`. buckets: int64 (J + K,), of each interval. places: int64 (2,), the level whose
    nodes have weights, and the first place of `model`. sums: float64 (S, buckets, 2), of squared differences of the
    two hazards, and of their products with the miss of the habits. model, known: float32 (n, J + K), the cumulative
    hazards that the model and the habits predicted for each open request; is_weighed: bool (n,), they are set.
    """

    rules: np.ndarray
    buckets: np.ndarray
    places: np.ndarray
    sums: np.ndarray
    model: np.ndarray
    known: np.ndarray
    is_weighed: np.ndarray


def joined_code(first: Any, second: Any) -> Any:
    """The code of two codes together, 63 bits: of Python's numbers, or of uint64 arrays.

    >>> joined_code(1, 2) == int(joined_code(np.array([1], np.uint64), np.array([2], np.uint64))[0])
    True
    """
    if isinstance(first, np.ndarray):
        mixed = (first * np.uint64(_MIX)) ^ ((first >> np.uint64(29)) + second * np.uint64(0xBF58476D1CE4E5B9))
        mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(_MIX)
        return (mixed ^ (mixed >> np.uint64(31))) & np.uint64(_MASK)
    whole = (1 << 64) - 1
    one = (first * _MIX & whole) ^ ((first >> 29) + second * 0xBF58476D1CE4E5B9 & whole)
    one = (one ^ (one >> 32)) * _MIX & whole
    return (one ^ (one >> 31)) & _MASK


def new_habits(edges: np.ndarray, shares: np.ndarray, base: np.ndarray, rules: HabitRules, n_nodes: int) -> Habits:
    """Habits of so many nodes without counts."""
    return Habits(edges, shares, base, np.array(rules, np.float64), np.zeros((n_nodes, len(base), 4)),
                  np.full(n_nodes, -1, np.int64))


def new_blend(rules: BlendRules, buckets: np.ndarray, level: int, n_nodes: int, n: int, first: int = 0) -> Blend:
    """A blend without losses, with room for n requests from place `first` on; none is weighed yet."""
    shape = (n, len(buckets))
    return Blend(np.array(rules, np.float64), buckets.astype(np.int64), np.array([level, first], np.int64),
                 np.zeros((n_nodes, int(buckets.max()) + 1, 2)), np.zeros(shape, np.float32),
                 np.zeros(shape, np.float32), np.zeros(n, np.bool_))


def new_open(n: int, n_levels: int) -> OpenOnes:
    """Room for n running requests, with nodes at so many levels below that of all."""
    return OpenOnes(np.zeros(n), np.zeros(n), np.zeros(n, np.int64), np.full(n, -1, np.int64),
                    np.full((n, n_levels), -1, np.int64), np.zeros(n), np.zeros(n, np.int64), np.zeros(n, np.int64),
                    np.zeros(1, np.int64))


@register_jitable
def first_interval(limit_s: float, habits: Habits) -> int:
    """The interval in which a request with this limit begins."""
    if len(habits.shares) and has_limit(limit_s) and habits.shares[0] * limit_s - HALF_S < WIDTH_MIN_S:
        return len(habits.edges) - 1
    return 0


@register_jitable
def interval_end(interval: int, limit_s: float, habits: Habits) -> tuple[float, float, int]:
    """The uptime at which an interval ends, s; its part of the whole interval; and the interval after it.

    Infinite beyond the last. The axis is that of `serving.curves.fill_limit_axis`.
    """
    edges, shares = habits.edges, habits.shares
    n_ages = len(edges) - 1
    if not (len(shares) and has_limit(limit_s)):
        return (math.inf, 0.0, interval) if interval >= n_ages else (edges[interval + 1], 1.0, interval + 1)
    if interval >= n_ages:
        idx = interval - n_ages
        if idx >= len(shares) - 1:
            return math.inf, 0.0, interval
        return shares[idx + 1] * limit_s - HALF_S, 1.0, interval + 1
    switch_s, lower_s, upper_s = shares[0] * limit_s - HALF_S, edges[interval], edges[interval + 1]
    if switch_s < upper_s or interval == n_ages - 1:
        return switch_s, (switch_s - lower_s) / (upper_s - lower_s), n_ages
    return upper_s, 1.0, n_ages if switch_s - upper_s < WIDTH_MIN_S else interval + 1


@register_jitable
def count_one(habits: Habits, nodes: Any, serial: int, interval: int, part: float, ended: float) -> None:
    """Count one request in an interval, at all of its nodes that still have its keys."""
    rules, counts = habits.rules, habits.counts
    fade = min(part / rules[0], 0.5)
    counts[0, interval, 0] += part - fade * counts[0, interval, 0]
    counts[0, interval, 1] += ended - fade * counts[0, interval, 1]
    slow, fast = min(part / rules[1], 0.5), min(part / rules[2], 0.5)
    for level in range(len(nodes)):
        node = nodes[level]
        if node >= 0 and serial >= habits.born[node]:
            counts[node, interval, 0] += part - slow * counts[node, interval, 0]
            counts[node, interval, 1] += ended - slow * counts[node, interval, 1]
            counts[node, interval, 2] += part - fast * counts[node, interval, 2]
            counts[node, interval, 3] += ended - fast * counts[node, interval, 3]


@register_jitable
def fill_hazards(habits: Habits, nodes: Any, hazards: Any) -> None:
    """Write the cumulative hazards (J + K,) of a request with these nodes; -1 = none."""
    rules, counts = habits.rules, habits.counts
    prior, fast_prior = rules[3], rules[4]
    for interval in range(len(habits.base)):
        hazard = (counts[0, interval, 1] + prior * habits.base[interval]) / (counts[0, interval, 0] + prior)
        for level in range(len(nodes)):
            node = nodes[level]
            if node >= 0 and counts[node, interval, 0] > 0.0:
                hazard = (counts[node, interval, 1] + prior * hazard) / (counts[node, interval, 0] + prior)
                hazard = (counts[node, interval, 3] + fast_prior * hazard) / (counts[node, interval, 2] + fast_prior)
        hazards[interval] = -math.log1p(-min(hazard, HAZARD_TOP))


@register_jitable
def weigh_one(habits: Habits, blend: Blend, nodes: Any, serial: int, place: int, interval: int, part: float,
              ended: float) -> None:
    """Count the losses of both predictions in an interval that a request came through, or in which it ended.

    With weight w of the model, the loss is (ended - w model - (1 - w) habits)^2, the Brier score of the interval among
    those at risk in it, so censoring needs no weights. Its least w is a ratio of two sums.
    """
    at = place - blend.places[1]
    if not 0 <= at < len(blend.is_weighed) or not blend.is_weighed[at]:
        return
    model = -math.expm1(-part * blend.model[at, interval])
    known = -math.expm1(-part * blend.known[at, interval])
    squared, product = (model - known) * (model - known), (ended - known) * (model - known)
    sums, bucket = blend.sums, blend.buckets[interval]
    sums[0, bucket, 0] += squared - sums[0, bucket, 0] / blend.rules[0]
    sums[0, bucket, 1] += product - sums[0, bucket, 1] / blend.rules[0]
    node = nodes[blend.places[0]] if blend.places[0] >= 0 else -1
    if node >= 0 and serial >= habits.born[node]:
        sums[node, bucket, 0] += squared - sums[node, bucket, 0] / blend.rules[1]
        sums[node, bucket, 1] += product - sums[node, bucket, 1] / blend.rules[1]


@register_jitable
def fill_weights(blend: Blend, nodes: Any, weights: Any) -> None:
    """Write the model's weight in each bucket, in [0, 1], for a request with these nodes: its owner's, drawn to the
    overall one, and that to one half."""
    rules, sums = blend.rules, blend.sums
    node = nodes[blend.places[0]] if blend.places[0] >= 0 else -1
    for bucket in range(sums.shape[1]):
        weight = (sums[0, bucket, 1] + 0.5 * rules[2]) / (sums[0, bucket, 0] + rules[2])
        weight = min(max(weight, 0.0), 1.0)
        if node >= 0:
            weight = (sums[node, bucket, 1] + rules[3] * weight) / (sums[node, bucket, 0] + rules[3])
            weight = min(max(weight, 0.0), 1.0)
        weights[bucket] = weight


@register_jitable
def is_before(due_s: float, serial: int, other_s: float, other: int) -> bool:
    """Whether an edge comes before another one; at one moment by admission, so that a restored heap has this order."""
    return due_s < other_s or (due_s == other_s and serial <= other)


@register_jitable
def push_due(ones: OpenOnes, due_s: float, place: int, serial: int) -> None:
    """Put a request's next edge into the heap."""
    at = ones.size[0]
    ones.size[0] += 1
    while at > 0:
        above = (at - 1) // 2
        if is_before(ones.due_s[above], ones.due_serial[above], due_s, serial):
            break
        ones.due_s[at], ones.due_place[at] = ones.due_s[above], ones.due_place[above]
        ones.due_serial[at] = ones.due_serial[above]
        at = above
    ones.due_s[at], ones.due_place[at], ones.due_serial[at] = due_s, place, serial


@register_jitable
def pop_due(ones: OpenOnes) -> None:
    """Remove the first edge of the heap."""
    ones.size[0] -= 1
    n, at = ones.size[0], 0
    due_s, place, serial = ones.due_s[n], ones.due_place[n], ones.due_serial[n]
    while True:
        below = 2 * at + 1
        if below >= n:
            break
        if below + 1 < n and is_before(ones.due_s[below + 1], ones.due_serial[below + 1], ones.due_s[below],
                                       ones.due_serial[below]):
            below += 1
        if is_before(due_s, serial, ones.due_s[below], ones.due_serial[below]):
            break
        ones.due_s[at], ones.due_place[at] = ones.due_s[below], ones.due_place[below]
        ones.due_serial[at] = ones.due_serial[below]
        at = below
    ones.due_s[at], ones.due_place[at], ones.due_serial[at] = due_s, place, serial


@register_jitable
def advance(habits: Habits, ones: OpenOnes, blend: Blend, now_s: float) -> None:
    """Count who came through the end of an interval before `now_s`."""
    while ones.size[0] > 0 and ones.due_s[0] < now_s:
        place, serial = ones.due_place[0], ones.due_serial[0]
        pop_due(ones)
        if ones.serial[place] != serial:  # it ended
            continue
        interval, limit_s = ones.interval[place], ones.limit_s[place]
        _, part, following = interval_end(interval, limit_s, habits)
        count_one(habits, ones.nodes[place], serial, interval, part, 0.0)
        weigh_one(habits, blend, ones.nodes[place], serial, place, interval, part, 0.0)
        ones.interval[place] = following
        upper_s = interval_end(following, limit_s, habits)[0]
        if upper_s < math.inf:
            push_due(ones, ones.start_s[place] + upper_s, place, serial)


@register_jitable
def begin(habits: Habits, ones: OpenOnes, place: int, serial: int, seen_s: float) -> None:
    """Follow the request at `place`, whose start, limit and nodes are set, from the first whole interval after its
    uptime `seen_s` on. serial: of its admission, rising."""
    ones.serial[place] = serial
    limit_s = ones.limit_s[place]
    interval = first_interval(limit_s, habits)
    lower_s = 0.0
    upper_s, _, following = interval_end(interval, limit_s, habits)
    while lower_s < seen_s and upper_s < math.inf:
        interval, lower_s = following, upper_s
        upper_s, _, following = interval_end(interval, limit_s, habits)
    ones.interval[place] = interval
    if upper_s < math.inf:
        push_due(ones, ones.start_s[place] + upper_s, place, serial)


@register_jitable
def finish(habits: Habits, ones: OpenOnes, blend: Blend, place: int, lifetime_s: float, is_event: bool) -> None:
    """Count the end of the request at `place`, and follow it no longer; without an event it only leaves."""
    serial, limit_s = ones.serial[place], ones.limit_s[place]
    ones.serial[place] = -1
    if not is_event:
        return
    interval = first_interval(limit_s, habits)
    upper_s, _, following = interval_end(interval, limit_s, habits)
    while upper_s < lifetime_s:
        interval = following
        upper_s, _, following = interval_end(interval, limit_s, habits)
    if upper_s < math.inf:
        count_one(habits, ones.nodes[place], serial, interval, 1.0, 1.0)
        weigh_one(habits, blend, ones.nodes[place], serial, place, interval, 1.0, 1.0)


@register_jitable
def fill_blended(habits: Habits, blend: Blend, numbers: Any, limit_s: float, tail_s: float, known: Any, weights: Any,
                 model: Any, blended: Any) -> None:
    """Write the numbers of a curve whose hazards are the model's and the habits', by weights.

    numbers: of the model's curve, as `fill_hazard` writes them, flat. limit_s: NaN without limit axis. known: (J + K,),
    cumulative hazards of the habits. weights: of the model in each bucket. model: (J + K,), gets the model's cumulative
    hazards of whole intervals. blended: as numbers; on a limit axis the edges follow.
    """
    edges, shares = habits.edges, habits.shares
    n_ages = len(edges) - 1
    n = len(habits.base)
    own_edges, own_known = np.empty(n + 1), np.empty(n)
    n_of_age = n
    if len(shares) > 0:
        n_of_age = fill_limit_axis(known, edges, shares, limit_s, tail_s, own_edges, own_known)  # type: ignore[arg-type]
    else:  # a loop, here and below: numba compiles it in less time than `own_edges[:] = edges`
        for idx in range(n):
            own_edges[idx], own_known[idx] = edges[idx], known[idx]
        own_edges[n] = edges[n]
    hazards = np.empty(n)
    for idx in range(n):
        model[idx] = 0.0
    for idx in range(n):
        own = numbers[idx] * (own_edges[idx + 1] - own_edges[idx])
        hazards[idx] = own
        interval = idx if idx < n_of_age else n_ages + idx - n_of_age
        if interval < n and (idx < n_of_age or has_limit(limit_s)):
            weight = weights[blend.buckets[interval]]
            hazards[idx] = weight * own + (1.0 - weight) * own_known[idx]
            part = 1.0
            if idx < n_of_age:
                part = (own_edges[idx + 1] - own_edges[idx]) / (edges[idx + 1] - edges[idx])
            model[interval] = own / part
    size = n + 1
    fill_hazard(hazards, own_edges, tail_s,  # type: ignore[arg-type]
                blended[:size], blended[size:2 * size], blended[2 * size:3 * size],
                blended[3 * size:N_HAZARD * size])
    if len(blended) > N_HAZARD * size:
        for idx in range(size):
            blended[N_HAZARD * size + idx] = own_edges[idx]


@register_jitable
def answer_by_habits(habits: Habits, ones: OpenOnes, blend: Blend, now_s: float, nodes: Any, numbers: Any,
                     limit_s: float, tail_s: float, is_blended: bool, known: Any, weights: Any, model: Any,
                     blended: Any) -> None:
    """Count up to now; write what the habits give a request that is asked about now, and its curve with them.

    numbers and the rest: as in `fill_blended`; known and weights are written, too. Not is_blended: weights are 0.
    """
    advance(habits, ones, blend, now_s)
    fill_hazards(habits, nodes, known)
    if is_blended:
        fill_weights(blend, nodes, weights)
    else:
        for bucket in range(len(weights)):
            weights[bucket] = 0.0
    fill_blended(habits, blend, numbers, limit_s, tail_s, known, weights, model, blended)


@register_jitable
def follow_by_habits(habits: Habits, ones: OpenOnes, blend: Blend, place: int, serial: int, start_s: float,
                     limit_s: float, nodes: Any, known: Any, model: Any, is_weighed: bool, seen_s: float) -> None:
    """Put an admitted request at a place, and follow it; seen_s below 0: only put it there."""
    ones.start_s[place], ones.limit_s[place], ones.serial[place] = start_s, limit_s, serial
    for level in range(len(nodes)):
        ones.nodes[place, level] = nodes[level]
    for idx in range(len(known)):
        blend.known[place, idx], blend.model[place, idx] = known[idx], model[idx]
    blend.is_weighed[place] = is_weighed
    ones.interval[place] = UNTIMED
    if seen_s >= 0.0:
        begin(habits, ones, place, serial, seen_s)


@register_jitable
def end_by_habits(habits: Habits, ones: OpenOnes, blend: Blend, place: int, end_s: float, began_s: float,
                  lifetime_s: float) -> bool:
    """Count up to an end, and the end of the request at a place; whether it began when it was admitted.

    A request that is not timed is counted from its begin on.
    """
    is_timed = ones.start_s[place] == began_s
    ones.start_s[place] = began_s
    if ones.interval[place] == UNTIMED:
        begin(habits, ones, place, ones.serial[place], 0.0)
    advance(habits, ones, blend, end_s)
    finish(habits, ones, blend, place, lifetime_s, True)
    blend.is_weighed[place] = False
    return is_timed
