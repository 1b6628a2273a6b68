"""Why a request has the prediction that it has: Shapley values of its inputs, computed on the served curve.

The answer is the log10 of the median remaining time at an uptime, exactly as the curve gives it.
The inputs form groups: each number, the arrival time, the history of each key. The effect of a
group is its Shapley value in the game "these groups are as in the request, all others as in an
earlier request", averaged over a few earlier requests in the bundle (the interventional value
function: Janzing, Minorics and Blöbaum, AISTATS 2020). These are effects in the model, not causes:
a mixture of two requests may never occur. TreeSHAP's path-dependent values would need the training
rows of each node, which ONNX does not hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sojourn.serving import checks as document_fields
from sojourn.serving.answers.curve_builder import CurveBuilder
from sojourn.serving.bundle import Schema
from sojourn.serving.checks import N_BACKGROUND_MAX
from sojourn.serving.errors import BundleError
from sojourn.serving.inputs import CLOCK_FEATURES, Encoder

ARRIVAL = "arrival time"
LOOKUP_ROW = "row of the lookup table"
LATEST_ENDS = "latest ends"
"""What the habits change, of a model that has them."""
N_EXACT_MAX = 10
"""Up to this many groups, every coalition is computed (1,024); above, orders are drawn at random."""
N_ORDERS = 64
"""Orders that are drawn, each with its reverse (antithetic: Mitchell et al., JMLR 23:43, 2022)."""
Game = Callable[[np.ndarray], np.ndarray]
"""Coalitions, bool (m, n) -> their values, float64 (m,)."""


@dataclass(frozen=True, slots=True)
class InputGroup:
    """Features that are explained together. idx: their positions in the encoder's order."""

    name: str
    idx: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Attribution:
    """The effect of each group of inputs on one answer. All in log10 seconds; base + effects = answer.

    base: mean log10 median of the background requests. effects: float64 per group; above 0 = longer-lived.
    is_exact: every coalition was computed; else effects are means over drawn orders, and only their sum is exact.
    """

    groups: tuple[InputGroup, ...]
    effects: tuple[float, ...]
    base: float
    answer: float
    is_exact: bool

    def with_last(self, name: str, median_s: float) -> Attribution:
        """With another group, which makes the answer this median, in seconds."""
        answer = math.log10(max(median_s, 1.0))
        return replace(self, groups=(*self.groups, InputGroup(name, ())), answer=answer,
                       effects=(*self.effects, answer - self.answer))


def input_groups(encoder: Encoder) -> tuple[InputGroup, ...]:
    """The encoder's features in groups: each number, the row of the lookup table, the arrival time, each key's history.

    >>> from sojourn.serving.inputs.history import HistoryDefinition, HistoryKey
    >>> encoder = Encoder(("cpu_cores",), ("zone",), HistoryDefinition((HistoryKey("zone", ("zone",), "category"),)))
    >>> [(group.name, group.idx) for group in input_groups(encoder)]
    [('cpu_cores', (0,)), ('arrival time', (1, 2)), ('history of zone', (3, 4))]
    """
    sizes = [(name, 1) for name in encoder.numbers]
    if encoder.lookup is not None:
        sizes.append((LOOKUP_ROW, 1))
    sizes.append((ARRIVAL, len(CLOCK_FEATURES)))
    sizes += [(key.history_name, len(key.feature_names())) for key in encoder.history.keys]
    places, start = [], 0
    for _, size in sizes:
        places.append([*range(start, start + size)])
        start += size
    owners = [idx for idx, key in enumerate(encoder.history.keys) if key.kind == "owner"]
    limits, first = encoder.limit_names(), len(sizes) - len(encoder.history.keys)
    for idx in range(len(limits)):  # computed from a key's history and the limit; see `Encoder.fill_limits`
        places[first + owners[idx * len(owners) // len(limits)]].append(start + idx)
    return tuple(InputGroup(name, tuple(idx)) for (name, _), idx in zip(sizes, places, strict=True))


def background_of(schema: Schema) -> np.ndarray | None:
    """Earlier requests' encoded features, float64 (B, number of the encoder's features); None in older bundles.

    BundleError if schema.json holds something else under that name.
    """
    rows = schema.document.get("background")
    if rows is None:
        return None
    n_features = len(schema.encoder.feature_names())
    try:
        background = np.array([[math.nan if value is None else document_fields.number(value, "background") for value in
                                document_fields.sequence(row, "background's rows", n_features)]
                               for row in document_fields.sequence(rows, "background", N_BACKGROUND_MAX)], np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise BundleError(f"schema.json: background must be rows of numbers, got {error}") from error
    if background.ndim != 2 or background.shape[1] != n_features or np.isinf(background).any():
        raise BundleError(f"schema.json: background must be finite rows of {n_features}, got {background.shape}")
    return background


def attribute(builder: CurveBuilder, features: list[float], background: np.ndarray,
              uptime_s: float = 0.0) -> Attribution:
    """The effect of each group of inputs on the log10 median remaining seconds of one encoded request.

    features: from the encoder. background: float64 (B, the same number), B >= 1. Deterministic. A
    median below one second counts as one second.
    """
    groups = input_groups(builder.schema.encoder)
    row = np.array(features, np.float64)
    if background.ndim != 2 or len(background) == 0 or background.shape[1] != len(row):
        raise ValueError(f"background must be at least one row of {len(row)}, got {background.shape}")
    group_of = np.empty(len(row), np.int64)
    for number, group in enumerate(groups):
        group_of[list(group.idx)] = number
    read = np.unique(builder.forest.feature)
    read = np.union1d(read[read < len(row)], np.array(builder.schema.numbers.age_features.sources, np.int64))
    if (lookup := builder.schema.numbers.lookup) is not None:
        read = np.union1d(read, [lookup.place])
    memo: dict[bytes, float] = {}

    def median_log10(encoded: np.ndarray) -> float:
        features = encoded.tolist()
        builder.schema.encoder.fill_limits(features)
        mixture = np.array(features)
        key = mixture[read].tobytes()  # many mixtures differ only in features that the forest does not read
        if key not in memo:
            memo[key] = math.log10(max(builder.curve(mixture.tolist()).quantile(0.5, uptime_s), 1.0))
        return memo[key]

    def game(coalitions: np.ndarray) -> np.ndarray:
        return np.array([math.fsum(median_log10(mixture) for mixture in np.where(members[group_of], row, background))
                         for members in coalitions]) / len(background)  # fmt: skip

    is_exact = len(groups) <= N_EXACT_MAX
    effects = exact_shapley(game, len(groups)) if is_exact else drawn_shapley(game, len(groups))
    base, answer = game(np.array([[False] * len(groups), [True] * len(groups)])).tolist()
    return Attribution(groups, tuple(effects.tolist()), base, answer, is_exact)


def exact_shapley(game: Game, n: int) -> np.ndarray:
    """Shapley values, float64 (n,), of all 2^n coalitions (Shapley 1953).

    >>> exact_shapley(lambda taken: 2.0 * taken[:, 0] + 4.0 * (taken[:, 1] & taken[:, 2]), 3).tolist()
    [2.0, 2.0, 2.0]
    """
    codes = np.arange(2**n)
    members = (codes[:, None] >> np.arange(n) & 1).astype(bool)
    values = game(members)
    size = members.sum(axis=1)
    weight = np.array([1.0 / (n * math.comb(n - 1, k)) for k in range(n)])
    effects = np.empty(n)
    for player in range(n):
        without = codes[~members[:, player]]
        effects[player] = math.fsum(weight[size[without]] * (values[without | 1 << player] - values[without]))
    return effects


def drawn_shapley(game: Game, n: int, n_orders: int = N_ORDERS, seed: int = 0) -> np.ndarray:
    """Shapley values, float64 (n,), as means over drawn orders and their reverses; their sum is exact.

    >>> drawn_shapley(lambda taken: taken @ [1.0, 2.0, 3.0], 3).tolist()
    [1.0, 2.0, 3.0]
    """
    rng = np.random.default_rng(seed)
    orders = [order for _ in range(n_orders) for forth in [rng.permutation(n)] for order in (forth, forth[::-1])]
    places = np.argsort(orders, axis=1)  # of each player in each order
    members = places[:, None, :] < np.arange(n + 1)[None, :, None]  # the first k of an order, k = 0..n
    coalitions, inverse = np.unique(members.reshape(-1, n), axis=0, return_inverse=True)
    steps = np.diff(game(coalitions)[inverse.reshape(len(orders), n + 1)], axis=1)
    return np.array([math.fsum(column) / len(orders) for column in np.take_along_axis(steps, places, axis=1).T])
