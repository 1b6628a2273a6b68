"""A forest's leaf masks as the tables that `serving/c/core/forest.h` reads, for exported C and for the extension.

The fields of `MaskTables` stand in the order of the C's `SJ_FOREST_FIELDS`, with its types.

Creation features are masks, as in `LeafMasks`. What varies with the age is not: a request's steps are the bits of a
word. For a node on something that varies, a word says at which steps a request goes to the node's right child. A leaf
that its masks leave over is reached at a step unless the request goes right at a node that has the leaf on its left,
or a leaf further left is reached (QuickScorer's rule). `places` puts the smaller child on the left, so a leaf needs
0.7 words on average. Nodes of one feature and side with the same threshold share their word, a *slot*.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sojourn.serving.forest.forest import ZERO, Forest
from sojourn.serving.forest.leaf_masks import (
    NO_AGE_FEATURES,
    AgeFeatures,
    LeafMasks,
    last_within,
    leaf_masks,
    leaf_steps,
    places,
)

N_SLOT_STEPS_MAX = 63
"""The most steps of a model with age features: bits of a word, less one."""
BLOCK = 32
"""Turns of a block, SJ_BLOCK of the C: a request's slots are read for its block, and the turns below it replayed."""
N_BUFFERED = 64
"""Parts of trees in a call's scratch, SJ_N_BUFFERED of the C."""
_LANES = 8
"""Words of a vector register: rows of masks and thresholds fill whole ones."""
_N_SLOTS_MAX, _N_OWN_SLOTS_MAX = 1 << 15, 1 << 10


class MaskTables(NamedTuple):
    """Tables of a forest with T trees and L leaves for C: F features, then m set against the age, then what varies.

    shape: int32, see SJ_N_TREES in the C. masks: uint64 (R, W), W = T in whole vectors; the rows of the U creation
    features that have splits, NaN's row of each varying feature, all leaves. thresholds: float64, of the U features
    in blocks of 8 from starts[2 * u + 1], int32 (2 * U + 1,), filled with infinity; from starts[2 * u] the last of each
    block but the last one, in blocks, too. features, first_rows, nan_rows: int32 (U,), their numbers, the row of masks
    of bin 0 and of NaN; zeros: float64 (U,), absolute values up to it are missing ones.
    leaves: float64 (L + 64,), those of tree t from leaf_starts[t], int32 (T,); leaf_slots: uint16 (L + 64, 2), a leaf's
    two slots; the last 64 of both are read and not used. leaf_steps: uint16 (L, 2), without age features, the first
    step at which what varies lets a leaf be reached, the first after.
    slot_splits: float64 (S,), slot_is_false: uint8 (S,): the threshold of a slot, and 1 if left is above it. Slot 0 has
    no steps, those of the last feature follow, whose bits are static_slots, uint64; then those of the m features in
    turn, from slot_starts[a], int32 (m + 1,). pairs: uint16 (P, 2), more slots, each the OR of two.
    A slot of an age feature is true from a step on, or before it, and that step moves with the feature's value: each
    value at which it moves is a turn. turns: float64, rising, in blocks of 32, those of a feature from
    block_starts[a], int32 (m + 1,); tops: float64, the last turn of each block; moves: uint16, for each turn 64 times
    the slot among its feature's, plus the step, whose bit changes; levels: uint8, before each block the steps at
    which its feature's slots turn, from level_starts[a], int32 (m,); slot_flips: uint64 (S + 8,), XORed into the bits
    from that step on. sources: int32 (m,). Arrays are contiguous and begin cache lines.
    """

    shape: np.ndarray
    masks: np.ndarray
    thresholds: np.ndarray
    zeros: np.ndarray
    leaves: np.ndarray
    slot_splits: np.ndarray
    static_slots: np.ndarray
    slot_flips: np.ndarray
    turns: np.ndarray
    tops: np.ndarray
    features: np.ndarray
    starts: np.ndarray
    first_rows: np.ndarray
    nan_rows: np.ndarray
    leaf_starts: np.ndarray
    sources: np.ndarray
    slot_starts: np.ndarray
    block_starts: np.ndarray
    level_starts: np.ndarray
    leaf_slots: np.ndarray
    leaf_steps: np.ndarray
    pairs: np.ndarray
    moves: np.ndarray
    levels: np.ndarray
    slot_is_false: np.ndarray


def mask_tables(forest: Forest, grid: np.ndarray, age_features: AgeFeatures = NO_AGE_FEATURES) -> MaskTables | None:
    """The tables of a forest; None if leaf masks cannot take it, see `leaf_masks`, or it has too many steps.

    grid: the values of the forest's last feature, float64 (K,), rising; empty if nothing varies. age_features: see
    `varying_walk`.
    """
    n_aged, n_steps = len(age_features), len(grid)
    if (n_aged and n_steps > N_SLOT_STEPS_MAX) or n_steps >= 1 << 16:
        return None
    walked = forest if n_steps else forest.with_spare()
    masks = leaf_masks(walked, age_features)
    if masks is None:
        return None
    n_fixed = walked.n_features - 1 - n_aged
    keys, leaf_slots, pairs = _slots(walked, masks, n_fixed)
    features, sides, splits = (np.array(column) for column in zip(*keys, strict=True))
    turned = _turns(features, splits, n_fixed, age_features)
    if turned is None or len(keys) + len(pairs) > _N_SLOTS_MAX:
        return None
    blocks, falls = turned
    is_static = (features < 0) | (features == n_fixed + n_aged)
    static = [_bits(grid > split) if side == 0 else _bits(grid <= split)
              for side, split in zip(sides[is_static], splits[is_static], strict=True)]
    static[0] = 0
    fixed = _fixed_tables(masks, n_fixed)
    shape = [len(masks.leaf_starts), fixed["masks"].shape[1], len(fixed["features"]), n_fixed, n_aged,
             n_aged + 1 if n_steps else 0, max(n_steps, 1), len(static), len(keys), len(pairs), len(fixed["masks"]) - 1]
    spare = np.zeros((64, 2), np.int64)
    tables = fixed | blocks | {
        "shape": shape, "leaves": np.append(masks.leaves, spare[:, 0]), "slot_splits": splits, "pairs": pairs,
        "static_slots": np.array(static, np.uint64), "slot_is_false": sides, "sources": age_features.sources,
        "slot_flips": np.where(np.append((sides == 0) ^ falls, [False] * _LANES), np.uint64(2**64 - 1), np.uint64(0)),
        "slot_starts": np.searchsorted(np.where(is_static, -1, features), n_fixed + np.arange(n_aged + 1)),
        "leaf_starts": masks.leaf_starts, "leaf_slots": np.concatenate([leaf_slots, spare]),
        "leaf_steps": spare[:0] if n_aged or not n_steps else np.column_stack(leaf_steps(masks, grid)),
    }  # fmt: skip
    return MaskTables(**{name: _aligned(np.asarray(tables[name], _TYPES.get(name, np.int32)))
                         for name in MaskTables._fields})


_TYPES: dict[str, type] = {
    **dict.fromkeys(("masks", "static_slots", "slot_flips"), np.uint64),
    **dict.fromkeys(("thresholds", "zeros", "leaves", "slot_splits", "turns", "tops"), np.float64),
    **dict.fromkeys(("leaf_slots", "leaf_steps", "pairs", "moves"), np.uint16),
    **dict.fromkeys(("levels", "slot_is_false"), np.uint8),
}  # fmt: skip


def _aligned(values: np.ndarray) -> np.ndarray:
    """A contiguous copy that begins a cache line: else each vector lies in two."""
    room = np.empty(values.nbytes + 64, np.uint8)
    copy = room[-room.ctypes.data % 64:][:values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


def n_scratch_words(tables: MaskTables) -> int:
    """How many words of scratch a call needs: `sj_scratch_bytes` of the C, in words of 8 bytes."""
    _, n_words, n_used, _, _, n_varying, _, _, n_slots, n_pairs, _ = tables.shape.tolist()
    return int(N_BUFFERED * 11 + n_words + n_slots + n_pairs + _LANES + (n_used + n_varying + 1) // 2)


def _bits(is_set: np.ndarray) -> int:
    """A word with these bits, the first 64 of them."""
    return sum(1 << idx for idx, bit in enumerate(is_set[:64].tolist()) if bit)


def _fixed_tables(masks: LeafMasks, n_fixed: int) -> dict[str, np.ndarray]:
    """The masks of the creation features with splits, and what finds their rows."""
    used = [idx for idx in range(n_fixed) if masks.starts[idx] < masks.starts[idx + 1]]
    rows: list[np.ndarray] = []
    thresholds: list[np.ndarray] = []
    first_rows, starts, n_rows = [], [0], 0
    for idx in used:
        values, first = masks.thresholds_of(idx), masks.first_row(idx)
        filled = np.append(values, np.full(-len(values) % _LANES, np.inf))
        tops = filled[_LANES - 1:-1:_LANES]
        thresholds += [tops, np.full(-len(tops) % _LANES, np.inf), filled]
        first_rows.append(n_rows)
        n_rows += len(values) + 2
        starts += [starts[-1] + len(tops) + -len(tops) % _LANES]
        starts += [starts[-1] + len(filled)]
        rows.append(masks.masks[first:first + len(values) + 2])
    nan_rows = np.array(first_rows, np.int64) + [len(block) - 1 for block in rows]
    last = [masks.first_row(idx) + len(masks.thresholds_of(idx)) + 1 for idx in range(n_fixed, len(masks.starts) - 1)]
    table = np.concatenate([*rows, masks.masks[[*last, -1]]])
    padded = np.zeros((len(table), -(-table.shape[1] // _LANES) * _LANES), np.uint64)
    padded[:, :table.shape[1]] = table
    return {"masks": padded, "thresholds": np.concatenate([*thresholds, np.empty(0)]), "features": np.array(used),
            "starts": np.array(starts), "first_rows": np.array(first_rows), "nan_rows": nan_rows,
            "zeros": np.where(masks.is_zero_missing[used], ZERO, -1.0)}


_Key = tuple[int, int, float]
"""A slot: the feature, 0 if left is the true child or 1 if it is the false one, the threshold."""


def _slots(forest: Forest, masks: LeafMasks, n_fixed: int) -> tuple[list[_Key], np.ndarray, np.ndarray]:
    """The slots in order, two slots of each leaf, and pairs of slots for leaves that need more than two."""
    _, (true_start, false_start, _, _), leaf_tree, leaf_place = places(forest, n_fixed)
    needs: dict[int, dict[tuple[int, int], float]] = {}  # of each leaf: thresholds by feature and side
    waiting: list[tuple[int, dict[tuple[int, int], float]]] = [(root, {}) for root in forest.roots.tolist()]
    while waiting:
        node, need = waiting.pop()
        if node < 0:
            needs[~node] = need
            continue
        feature, split, below = int(forest.feature[node]), float(forest.split[node]), dict(need)
        is_true_left = bool(true_start[node] < false_start[node])
        if feature >= n_fixed:
            key = feature, int(not is_true_left)
            tightest = min if is_true_left else max  # at one feature the words of two thresholds contain each other
            below[key] = tightest(need.get(key, split), split)
        waiting += [(int(forest.on_true[node]), below if is_true_left else need),
                    (int(forest.on_false[node]), need if is_true_left else below)]
    varying = forest.n_features - 1
    used = {(*key, split) for need in needs.values() for key, split in need.items()}
    keys = [(-1, 0, np.inf), *sorted(used, key=lambda key: (key[0] != varying, key))]  # the last feature comes first
    slot_of = {key: slot for slot, key in enumerate(keys)}
    leaf_slots, pairs = np.zeros((len(forest.leaves), 2), np.int64), dict[tuple[int, int], int]()
    for leaf, need in needs.items():
        slots = sorted(slot_of[(*key, split)] for key, split in need.items())
        while len(slots) > 2:
            pair = slots[0], slots[1]
            slots = [pairs.setdefault(pair, len(keys) + len(pairs)), *slots[2:]]
        place = masks.leaf_starts[leaf_tree[leaf]] + leaf_place[leaf]
        leaf_slots[place, :len(slots)] = slots
    return keys, leaf_slots, np.array(list(pairs), np.int64).reshape(-1, 2)


def _turns(features: np.ndarray, splits: np.ndarray, n_fixed: int,
           age_features: AgeFeatures) -> tuple[dict[str, np.ndarray], np.ndarray] | None:
    """The blocks of turns of all age features, and which slots are true before a step; None if one is neither."""
    falls = np.zeros(len(features), np.bool_)
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for position, (is_log, ages) in enumerate(zip(age_features.is_log, age_features.scales(), strict=True)):
        slots = np.flatnonzero(features == n_fixed + position)
        edges = last_within(splits[slots][None, :], ages[:, None], is_log)  # (K, slots)
        is_falling, is_rising = (edges[1:] <= edges[:-1]).all(axis=0), (edges[1:] >= edges[:-1]).all(axis=0)
        if not (is_falling | is_rising).all() or len(slots) > _N_OWN_SLOTS_MAX:
            return None
        falls[slots] = ~is_rising
        order = np.argsort(edges.T.ravel(), kind="stable")
        moved, step = order // len(ages), np.where(is_rising, 1, -1)
        n_blocks = len(order) // BLOCK + 1  # the last one is never full
        turns, moves = np.full(n_blocks * BLOCK, np.inf), np.zeros(n_blocks * BLOCK, np.int64)
        turns[:len(order)] = edges.T.ravel()[order]
        moves[:len(order)] = 64 * moved + order % len(ages)
        levels = np.empty((n_blocks, len(slots)), np.int64)
        level = np.where(is_rising, 0, len(ages))
        for block in range(n_blocks):
            levels[block] = level
            now = moved[block * BLOCK:(block + 1) * BLOCK]
            np.add.at(level, now, step[now])
        parts.append((turns, moves, levels.ravel()))
    columns = list(zip(*parts, strict=True)) if parts else [(), (), ()]
    turns, moves, levels = (np.concatenate([np.empty(0), *column]) for column in columns)
    sizes = [(len(turn) // BLOCK, len(level)) for turn, _, level in parts]
    block_starts, level_starts = (np.cumsum([0, *(size[at] for size in sizes)]) for at in range(2))
    return {"turns": turns, "tops": turns[BLOCK - 1::BLOCK], "moves": moves, "block_starts": block_starts,
            "levels": np.append(levels, np.zeros(_LANES)), "level_starts": level_starts}, falls
