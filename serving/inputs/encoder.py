"""From a request to the features that the forest reads; shared by training and serving.

Features include the limit of a batch job (its requested time) and its ratio to the owners' earlier
lifetimes, and the row of a lookup table: that of the finest history key that has one. The row is a
number of the request (`lookup:row`), so whatever stores encoded requests stores it, too.

`HistoryTerms` is the meaning of names and times in a live history, which models must share.
"""

from __future__ import annotations

import hashlib
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from sojourn.serving.errors import shown
from sojourn.serving.inputs.history import CATEGORY_FEATURES, HistoryDefinition, HistoryState
from sojourn.serving.inputs.owner import OWNER_FEATURES
from sojourn.serving.kernel import register_jitable

LIMIT = "requested_s"
"""The column with a request's limit, seconds."""
LIMIT_MIN_S, LIMIT_MAX_S = 60.0, 3.0 * 365.0 * 86_400.0
"""Limits outside are read as none. Kills come tens of seconds late, so shorter limits have no effect."""
OF_LIMIT = ("mean", "last")
"""Features of each owner key relative to the limit: log10(lifetime / limit), 0 = the full limit."""
_PLACES = tuple(OWNER_FEATURES.index(part) for part in OF_LIMIT)


@register_jitable
def has_limit(limit_s: float) -> bool:
    """Whether a number of seconds is read as a limit; not NaN.

    >>> has_limit(3_600.0), has_limit(math.nan), has_limit(1.0)
    (True, False, False)
    """
    return LIMIT_MIN_S <= limit_s <= LIMIT_MAX_S


@register_jitable
def limit_log10(limit_s: float) -> float:
    """log10 of a limit in seconds; NaN if it is none.

    >>> limit_log10(1_000.0), limit_log10(1.0)
    (3.0, nan)
    """
    return math.log10(limit_s) if has_limit(limit_s) else math.nan


@register_jitable
def fill_limit_features(limit_s: float, is_owner: Sequence[Any], n_owner: int, n_category: int, start: int,
                        features: Any, at: int) -> int:
    """Write the limit features of each owner key to features[at:], from its history features; returns the end.

    is_owner: of each history key; the others are categories. n_owner, n_category: number of
    features of each. start: index of the first history feature.
    """
    level = limit_log10(limit_s)
    for idx in range(len(is_owner)):
        if is_owner[idx]:
            for place in _PLACES:
                features[at] = features[start + place] - level
                at += 1
            start += n_owner
        else:
            start += n_category
    return at


def limit_feature_names(owners: Sequence[str]) -> tuple[str, ...]:
    """Names of the limit features, in the order of the owner keys.

    >>> limit_feature_names(("user",))
    ('user:mean/limit', 'user:last/limit')
    """
    return tuple(f"{owner}:{part}/limit" for owner in owners for part in OF_LIMIT)


ROW = "lookup:row"
"""The feature's name; it follows the numbers of the request."""
N_ROWS_MAX = 1 << 18
"""The most rows of a table. A row needs 30 observed ends of its key, so traces of millions stay below it."""
_N_CODE_BYTES = 7


def key_code(key: Sequence[str]) -> int:
    """The 56-bit code of a key's text, the same in all traces.

    >>> key_code(("ann",))
    55862035216343730
    """
    text = "\x1f".join(key).encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=_N_CODE_BYTES).digest(), "big")


@dataclass(frozen=True, slots=True, eq=False)
class Lookup:
    """positions: of the history keys, coarse to fine.

    rows: for each position, code of a key -> row, from 1. Row 0 is of all requests; a request
    without a row of its keys reads it.

    >>> lookup = Lookup((0, 1), ({key_code(("lab",)): 1}, {key_code(("ann",)): 2}))
    >>> [lookup.row(keys) for keys in ((("lab",), ("ann",)), (("lab",), ("bob",)), (None, None))]
    [2.0, 1.0, 0.0]
    """

    positions: tuple[int, ...]
    rows: tuple[Mapping[int, int], ...]

    @property
    def n_rows(self) -> int:
        """Number of rows, including row 0."""
        return 1 + sum(map(len, self.rows))

    def row(self, keys: Sequence[tuple[str, ...] | None]) -> float:
        """The row of a request with these history keys; None = a missing key."""
        for position, rows in zip(reversed(self.positions), reversed(self.rows), strict=True):
            key = keys[position]
            if key is not None and rows and (row_number := rows.get(key_code(key))) is not None:
                return float(row_number)
        return 0.0

    def rows_of(self, codes: Sequence[np.ndarray], n: int) -> np.ndarray:
        """Rows of n requests, int64 (n,). codes: of each history key, int64 (n,), -1 where missing."""
        result = np.zeros(n, np.int64)
        for position, rows in zip(self.positions, self.rows, strict=True):  # coarse to fine
            hit = np.array([rows.get(code, 0) for code in codes[position].tolist()], np.int64)
            result = np.where(hit > 0, hit, result)
        return result

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Plain arrays, for each row from 1: the index of its key in `positions`, and its code, int64."""
        entries = sorted((row, place, code) for place, rows in enumerate(self.rows) for code, row in rows.items())
        return {"places": np.array([place for _, place, _ in entries], np.int64),
                "codes": np.array([code for _, _, code in entries], np.int64)}

    @classmethod
    def from_arrays(cls, positions: tuple[int, ...], places: np.ndarray, codes: np.ndarray) -> Lookup:
        """From arrays of `to_arrays`; ValueError for other arrays."""
        for name, array in (("places", places), ("codes", codes)):
            if array.ndim != 1 or array.dtype != np.int64 or len(array) != len(places):
                raise ValueError(f"{name} must be whole numbers, one a row, got {array.dtype} of shape {array.shape}")
        if len(codes) >= N_ROWS_MAX:
            raise ValueError(f"rows must be at most {N_ROWS_MAX}, got {len(codes) + 1}")
        if ((places < 0) | (places >= len(positions)) | (codes < 0) | (codes >= 1 << 8 * _N_CODE_BYTES)).any():
            raise ValueError(f"places must be below {len(positions)} and codes of {8 * _N_CODE_BYTES} bits")
        rows: list[dict[int, int]] = [{} for _ in positions]
        for row, (place, code) in enumerate(zip(places.tolist(), codes.tolist(), strict=True), 1):
            rows[place][code] = row
        if sum(map(len, rows)) < len(codes):
            raise ValueError("codes must name each key once")
        return cls(positions, tuple(rows))


CLOCK_FEATURES = ("hour", "weekday")
"""Hour of day in [0, 24) and day of week (Monday = 0) of the arrival."""
SIZES = frozenset(("cpu_cores", "mem_gib", "gpu"))
"""Columns of every trace that must be finite and not below 0, since a host must have room for them."""
_NAN = math.nan
HOUR_S, DAY_S, WEEK_S = 3_600, 86_400, 604_800
FIRST_MONDAY_S = 4 * DAY_S
"""1970-01-05 00:00, the first Monday of Unix time."""
UNIX_PHASE_S = WEEK_S - FIRST_MONDAY_S
"""`Encoder.phase_s` of a clock of Unix seconds: 1970-01-01 was a Thursday."""
_NO_NUMBERS = (bool, np.bool_, str, bytes, complex, np.complexfloating)
N_PARSED = 2_048
"""Size of the cache of parsed values: of requests in public traces, 94 to 99 % repeat one of the last so many."""
_REAL = (float, int, np.float64)
_N_MIXED_MAX = 4
_plus_zero = (0.0).__add__  # as a float, without negative zero, whose text differs
_Pick = Callable[[Any], tuple[Any, ...]]


class Parsed(NamedTuple):
    """A request's values as the encoder reads them; `unknown` lists the columns without a known value.

    numbers: of the request, then its row of the lookup table, if any.
    """

    numbers: tuple[float, ...]
    keys: tuple[tuple[str, ...] | None, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Encoder:
    """Creation-time features in a fixed order: numbers, lookup row if any, clock, owner history, limit features if any.

    numbers: quantities known at creation (cores, GiB, requested time).
    names: owner and category columns, read as text.
    history: the definition of the history features.
    phase_s: seconds from a Monday 00:00 to the clock's 0.
    lookup: if the model has a lookup table.

    >>> from sojourn.serving.inputs.history import HistoryKey
    >>> history = HistoryDefinition((HistoryKey("zone", ("zone",), "category"),))
    >>> encoder = Encoder(("cpu_cores",), ("zone",), history, phase_s=0)
    >>> encoder.feature_names()
    ('cpu_cores', 'hour', 'weekday', 'zone:ended', 'zone:mean')
    >>> parsed = encoder.parse({"cpu_cores": 2, "zone": "eu-1"})
    >>> encoder.encode(parsed, 3_600, HistoryState(history))[:3]
    [2.0, 1.0, 0.0]
    """

    numbers: tuple[str, ...]
    names: tuple[str, ...]
    history: HistoryDefinition
    phase_s: int = 0
    lookup: Lookup | None = field(default=None, repr=False)
    _known: frozenset[str] = field(init=False, repr=False, compare=False)
    _pick: _Pick = field(init=False, repr=False, compare=False)
    _plain_types: frozenset[tuple[type, ...]] = field(init=False, repr=False, compare=False)
    _parsed: Callable[[tuple[Any, ...]], Parsed | None] = field(init=False, repr=False, compare=False)
    _pick_key_numbers: _Pick = field(init=False, repr=False, compare=False)
    _key_picks: tuple[_Pick, ...] = field(init=False, repr=False, compare=False)
    _is_owner: tuple[bool, ...] = field(init=False, repr=False, compare=False)
    _no_limits: tuple[float, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        columns_read = frozenset(self.columns())
        if len(columns_read) < len(self.numbers) + len(self.names):
            raise ValueError(f"columns must differ from each other, got {self.numbers + self.names!r}")
        for key in self.history.keys:
            unknown = [column for column in key.columns if column not in columns_read]
            if unknown:
                raise ValueError(f"history key {key.name!r} must use known columns, got {unknown[0]!r}")
        keyed = {column for key in self.history.keys for column in key.columns}
        key_numbers = [column for column in self.numbers if column in keyed]
        at = {column: idx for idx, column in enumerate((*self.names, *key_numbers))}
        pick_key_numbers = _picker([self.numbers.index(column) for column in key_numbers])
        key_picks = tuple(_picker([at[column] for column in key.columns]) for key in self.history.keys)
        for name, value in {
            "_known": columns_read,
            "_pick": _picker(self.columns()),
            "_plain_types": _plain_types(len(self.numbers), len(self.names)),
            "_parsed": _values_parser(self.numbers, pick_key_numbers, key_picks, self.lookup),
            "_pick_key_numbers": pick_key_numbers,
            "_key_picks": key_picks,
            "_no_limits": (math.nan,) * len(self.limit_names()),
            "_is_owner": tuple(key.kind == "owner" for key in self.history.keys),
        }.items():
            object.__setattr__(self, name, value)

    def columns(self) -> tuple[str, ...]:
        """The request columns that the encoder reads."""
        return self.numbers + self.names

    def feature_names(self) -> tuple[str, ...]:
        """Names of the features of `encode`, in order."""
        row = () if self.lookup is None else (ROW,)
        return self.numbers + row + CLOCK_FEATURES + self.history.feature_names() + self.limit_names()

    @property
    def limit_place(self) -> int:
        """The index of a request's limit among its features; -1 if there is none."""
        return self.numbers.index(LIMIT) if LIMIT in self.numbers else -1

    def limit_names(self) -> tuple[str, ...]:
        """Names of the last features: the owner keys' history relative to the limit."""
        if self.limit_place < 0:
            return ()
        return limit_feature_names([key.name for key in self.history.keys if key.kind == "owner"])

    def fill_limits(self, features: list[float]) -> None:
        """Compute the limit features of an encoded request from the others; nothing if there is no limit."""
        place = self.limit_place
        if place >= 0:
            at = len(features) - len(OF_LIMIT) * sum(self._is_owner)
            fill_limit_features(features[place], self._is_owner, len(OWNER_FEATURES), len(CATEGORY_FEATURES),
                                self.n_numbers + len(CLOCK_FEATURES), features, at)

    @property
    def n_numbers(self) -> int:
        """How many numbers `parse` gives: those of the request, and its lookup row, if any."""
        return len(self.numbers) + (self.lookup is not None)

    def with_row(self, features: np.ndarray, codes: Sequence[np.ndarray]) -> np.ndarray:
        """Rows of an encoder without the lookup, float64 (n, m), with the lookup row added.

        Unchanged if there is no lookup.

        codes: of each history key, int64 (n,), -1 where missing.
        """
        if self.lookup is None or features.shape[1] == len(self.feature_names()):
            return features
        return np.insert(features, len(self.numbers), self.lookup.rows_of(codes, len(features)), axis=1)

    def set_row(self, features: list[float], keys: Sequence[tuple[str, ...] | None]) -> None:
        """Set the lookup row in features that another version encoded; nothing without a lookup."""
        if self.lookup is not None:
            features[len(self.numbers)] = self.lookup.row(keys)

    def parse(self, request: Mapping[str, Any]) -> Parsed:
        """Check and convert one request.

        A missing column is NaN (numbers) or no history (names), and `unknown` lists it. ValueError
        for an unknown column, a wrong or infinite number, a size (SIZES) that is NaN or below 0,
        and a name that is no text, whole number or boolean.
        """
        return self._parse_plain(request) or self._parse_any(request)

    def _parse_plain(self, request: Mapping[str, Any]) -> Parsed | None:
        """The fast way, for a dict of all columns with the expected types and finite numbers; None
        for other requests."""
        if type(request) is not dict or len(request) != len(self._known):
            return None
        try:
            values = self._pick(request)
        except KeyError:
            return None
        if tuple(map(type, values)) not in self._plain_types:
            return None
        return self._parsed(values)

    def __reduce__(self) -> tuple[Any, ...]:
        return Encoder, (self.numbers, self.names, self.history, self.phase_s, self.lookup)

    def _parse_any(self, request: Mapping[str, Any]) -> Parsed:
        if type(request) is not dict:
            if not isinstance(request, Mapping):
                raise ValueError(f"request must be a mapping from columns to values, got {shown(request)}")
            request = dict(request)  # read once: an error of a caller's class changes nothing
        if not request.keys() <= self._known:
            stranger = next(column for column in request if column not in self._known)
            raise ValueError(f"column must be one of {', '.join(self.columns())}, got {shown(stranger)}")
        numbers = tuple(_number(column, request.get(column)) for column in self.numbers)
        texts = tuple(_text(column, request.get(column)) for column in self.names)
        unknown = [column for column, number in zip(self.numbers, numbers, strict=True) if number != number]
        unknown += [column for column, text in zip(self.names, texts, strict=True) if text is None]
        pool = texts + tuple(map(_number_text, self._pick_key_numbers(numbers)))
        keys = tuple(None if None in key else key for key in (pick(pool) for pick in self._key_picks))
        if self.lookup is not None:
            numbers = (*numbers, self.lookup.row(keys))
        return Parsed(numbers, keys, tuple(unknown))

    def encode(self, parsed: Parsed, now_s: int, state: HistoryState) -> list[float]:
        """The request's features at `now_s` (float64 each); records nothing."""
        second = now_s + self.phase_s
        features = [*parsed.numbers, (second % DAY_S) / 3_600.0, float(second // DAY_S % 7),
                    *state.features(parsed.keys, now_s), *self._no_limits]  # fmt: skip
        self.fill_limits(features)
        return features


def _plain_types(n_numbers: int, n_names: int) -> frozenset[tuple[type, ...]]:
    """Types of the values that the fast way takes: numbers of these types, and text."""
    rows = product(_REAL, repeat=n_numbers) if n_numbers <= _N_MIXED_MAX else [(kind,) * n_numbers for kind in _REAL]
    return frozenset((*numbers, *(str,) * n_names) for numbers in rows)


def _values_parser(names: Sequence[str], pick_key_numbers: _Pick,
                   key_picks: Sequence[_Pick],
                   lookup: Lookup | None) -> Callable[[tuple[Any, ...]], Parsed | None]:
    """A function from the values of all columns, in order, to the parsed request; it caches results.

    names: of the numbers, which come first. Its result is None if a number is not finite or a size
    is below 0.
    """
    n_numbers = len(names)
    idx_sizes = [idx for idx, name in enumerate(names) if name in SIZES]

    @lru_cache(N_PARSED)
    def parsed(values: tuple[Any, ...]) -> Parsed | None:
        try:
            numbers = tuple(map(_plus_zero, values[:n_numbers]))
            if not math.isfinite(math.fsum(numbers)) or any(numbers[idx] < 0.0 for idx in idx_sizes):
                return None
        except (OverflowError, ValueError):  # ValueError: infinities of both signs
            return None
        pool = values[n_numbers:] + tuple(map(_number_text, pick_key_numbers(numbers)))
        keys = tuple([pick(pool) for pick in key_picks])
        return Parsed(numbers if lookup is None else (*numbers, lookup.row(keys)), keys, ())

    return parsed


def _picker(places: Sequence[Any]) -> _Pick:
    if len(places) == 1:
        return lambda values: (values[places[0]],)
    return itemgetter(*places) if places else lambda _: ()


@lru_cache(maxsize=4096)
def _number_text(number: float) -> str:
    return "-" if number != number else repr(number)


def _number(column: str, value: Any) -> float:
    if value is None:
        return _NAN
    if type(value) is float or type(value) is int:
        pass
    elif isinstance(value, _NO_NUMBERS) or not hasattr(value, "__float__"):
        raise ValueError(f"{column} must be a number, got {shown(value)}")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{column} must be a finite number, got {shown(value)}") from error
    if column in SIZES and not 0.0 <= number < math.inf:
        raise ValueError(f"{column} must be finite and at least 0, got {shown(value)}")
    if math.isinf(number):
        raise ValueError(f"{column} must be finite, got {shown(value)}")
    return _plus_zero(number)


def _text(column: str, value: Any) -> str | None:
    if value is None or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, str):
        return str.__str__(value)  # a subclass may hash or compare in another way, and the history keeps it
    if isinstance(value, np.bool_):
        return str(int(value))
    whole: Any = value
    try:
        return str(operator.index(whole))
    except (TypeError, ValueError):  # ValueError: more digits than Python prints
        pass
    raise ValueError(f"{column} must be text or a whole number, got {shown(value)}")


def clock_zero_s(phase_s: int) -> int:
    """Unix time of the bundle clock's 0: 0 if the clock counts Unix seconds.

    For a clock without dates it is the least time >= 0 with the right hours and weekdays; the whole
    history then seems old. phase_s: see `Encoder`.

    >>> clock_zero_s(UNIX_PHASE_S), clock_zero_s(0) == FIRST_MONDAY_S
    (0, True)
    """
    return (FIRST_MONDAY_S + phase_s) % WEEK_S


def counts_unix_s(phase_s: int, training: Mapping[str, Any]) -> bool:
    """Whether a bundle's times are Unix seconds: its training trace has dates.

    training: of the bundle. phase_s: see `Encoder`.

    >>> counts_unix_s(UNIX_PHASE_S, {"start_unix_s": 1_704_067_200}), counts_unix_s(UNIX_PHASE_S, {})
    (True, False)
    """
    return type(training.get("start_unix_s")) is int and phase_s % WEEK_S == UNIX_PHASE_S


@dataclass(frozen=True, slots=True)
class HistoryTerms:
    """The meaning of a live history. definition: `HistoryDefinition.as_dict` without `instant_s`.
    numbers: columns of its keys that are numbers. phase_s: of the clock."""

    definition: Mapping[str, Any]
    numbers: frozenset[str]
    phase_s: int

    @classmethod
    def of(cls, encoder: Encoder) -> HistoryTerms:
        """The terms of a model."""
        columns = {column for key in encoder.history.keys for column in key.columns}
        definition = replace(encoder.history, instant_s=None)
        return cls(definition.as_dict(), frozenset(columns.intersection(encoder.numbers)), encoder.phase_s)

    def clash(self, other: HistoryTerms, whose: str) -> str:
        """The first difference to other terms, as a message; "" if there is none.

        A column of a history key that is a number in one and text in the other gives other keys
        ("2.0" and "2"). whose: the source of the live history, for the message.
        """
        for name, value in self.definition.items():
            if other.definition[name] != value:
                return (f"history must have the {name} of {whose}, whose live history goes on ({value!r}), "
                        f"got {other.definition[name]!r}")
        for key in self.definition["keys"]:
            for column in key["columns"]:
                if (column in self.numbers) != (column in other.numbers):
                    kind = "a number" if column in self.numbers else "text"
                    return (f"the history's column {column!r} must be {kind}, as in {whose}, whose live history goes "
                            f"on, got the other")
        if (other.phase_s - self.phase_s) % WEEK_S:
            return f"phase_s must be {self.phase_s}, the clock of {whose} that live times are on, got {other.phase_s}"
        return ""
