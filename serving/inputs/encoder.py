"""From a request to the numbers that the forest reads; shared by training and serving.

The limit that a request states (a batch job's requested time), and how its owners' habits stand to it.

Which row of a lookup table a request reads: that of its finest history key that has one, found where it is parsed.

The row is one more number of the request (`lookup:row`), so that all that keeps encoded requests keeps it, too.

When a bundle's clock began.

What the names and times of a live history mean: a model, or a predictor that starts from it, must mean the same.
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
"""The number of a request that is read as its limit, seconds."""
LIMIT_MIN_S, LIMIT_MAX_S = 60.0, 3.0 * 365.0 * 86_400.0
"""Other limits are read as none. Kills come tens of seconds late: beside a shorter limit they tell nothing of it."""
OF_LIMIT = ("mean", "last")
"""Of each owner key, what is set against the limit: log10 of the lifetime over the limit, 0 = the whole of it."""
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
    """log10 of a limit in seconds; NaN where it is none.

    >>> limit_log10(1_000.0), limit_log10(1.0)
    (3.0, nan)
    """
    return math.log10(limit_s) if has_limit(limit_s) else math.nan


@register_jitable
def fill_limit_features(limit_s: float, is_owner: Sequence[Any], n_owner: int, n_category: int, start: int,
                        features: Any, at: int) -> int:
    """Write what stands to the limit of each owner key into features[at:], from its history features; returns the end.

    is_owner: of each history key, the others are categories; n_owner, n_category: how many features each has.
    start: where the history features begin.
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
    """Names of those features, of the owner keys in order.

    >>> limit_feature_names(("user",))
    ('user:mean/limit', 'user:last/limit')
    """
    return tuple(f"{owner}:{part}/limit" for owner in owners for part in OF_LIMIT)


ROW = "lookup:row"
"""The feature's name. It stands after the request's own numbers."""
N_ROWS_MAX = 1 << 18
"""Rows of a table at most. A row takes the 30 observed ends of its key, so that a trace of millions stays below it."""
_N_CODE_BYTES = 7


def key_code(key: Sequence[str]) -> int:
    """The 56-bit code that stands for a key's text in any trace.

    >>> key_code(("ann",))
    55862035216343730
    """
    text = "\x1f".join(key).encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=_N_CODE_BYTES).digest(), "big")


@dataclass(frozen=True, slots=True, eq=False)
class Lookup:
    """positions: of the history keys, coarse to fine. rows: for each of them the row of each key's code, from 1.

    Row 0 is of all requests: who has no key with a row of its own reads it.

    >>> lookup = Lookup((0, 1), ({key_code(("lab",)): 1}, {key_code(("ann",)): 2}))
    >>> [lookup.row(keys) for keys in ((("lab",), ("ann",)), (("lab",), ("bob",)), (None, None))]
    [2.0, 1.0, 0.0]
    """

    positions: tuple[int, ...]
    rows: tuple[Mapping[int, int], ...]

    @property
    def n_rows(self) -> int:
        """Rows of the table, that of all requests included."""
        return 1 + sum(map(len, self.rows))

    def row(self, keys: Sequence[tuple[str, ...] | None]) -> float:
        """The row of a request with these history keys, None where one is missing."""
        for position, rows in zip(reversed(self.positions), reversed(self.rows), strict=True):
            key = keys[position]
            if key is not None and rows and (found := rows.get(key_code(key))) is not None:
                return float(found)
        return 0.0

    def rows_of(self, codes: Sequence[np.ndarray], n: int) -> np.ndarray:
        """Rows of n requests, int64 (n,). codes: of each history key, int64 (n,), -1 where missing."""
        chosen = np.zeros(n, np.int64)
        for position, rows in zip(self.positions, self.rows, strict=True):  # finer keys come later and win
            hit = np.array([rows.get(code, 0) for code in codes[position].tolist()], np.int64)
            chosen = np.where(hit > 0, hit, chosen)
        return chosen

    def to_arrays(self) -> dict[str, np.ndarray]:
        """As plain arrays: of each row from 1 its key's place in `positions` and its code, int64."""
        found = sorted((row, place, code) for place, rows in enumerate(self.rows) for code, row in rows.items())
        return {"places": np.array([place for _, place, _ in found], np.int64),
                "codes": np.array([code for _, _, code in found], np.int64)}

    @classmethod
    def from_arrays(cls, positions: tuple[int, ...], places: np.ndarray, codes: np.ndarray) -> Lookup:
        """What `to_arrays` gave; ValueError where it is something else."""
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
"""Columns of every trace that are finite and not below 0: a host has room for no other."""
_NAN = math.nan
HOUR_S, DAY_S, WEEK_S = 3_600, 86_400, 604_800
FIRST_MONDAY_S = 4 * DAY_S
"""1970-01-05 00:00, the first Monday of Unix time."""
UNIX_PHASE_S = WEEK_S - FIRST_MONDAY_S
"""`Encoder.phase_s` of a clock that counts Unix seconds: 1970-01-01 was a Thursday."""
_NO_NUMBERS = (bool, np.bool_, str, bytes, complex, np.complexfloating)
N_PARSED = 2_048
"""Requests whose parsed values are kept: of the public traces' requests, 94 to 99 % repeat one of the last so many."""
_REAL = (float, int, np.float64)
_N_MIXED_MAX = 4
_plus_zero = (0.0).__add__  # a float of the number, and no negative zero: it is the same number but another text
_Pick = Callable[[Any], tuple[Any, ...]]


class Parsed(NamedTuple):
    """A request's values as the encoder reads them; `unknown` names the columns whose values it does not know.

    numbers: the request's, then its row of the lookup table where the encoder has one.
    """

    numbers: tuple[float, ...]
    keys: tuple[tuple[str, ...] | None, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Encoder:
    """Creation-time features in a fixed order: numbers, the row of the lookup table if any, clock, owner history, and
    where a number is the request's limit, how each owner's history stands to it.

    numbers: quantities known at creation (cores, GiB, requested time).
    names: owner and category columns, read as text.
    history: the definition whose features follow.
    phase_s: seconds from a Monday 00:00 to the clock's 0.
    lookup: of a model that has a lookup table.

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
        known = frozenset(self.columns())
        if len(known) < len(self.numbers) + len(self.names):
            raise ValueError(f"columns must differ from each other, got {self.numbers + self.names!r}")
        for key in self.history.keys:
            strangers = [column for column in key.columns if column not in known]
            if strangers:
                raise ValueError(f"history key {key.name!r} must use known columns, got {strangers[0]!r}")
        keyed = {column for key in self.history.keys for column in key.columns}
        key_numbers = [column for column in self.numbers if column in keyed]
        at = {column: idx for idx, column in enumerate((*self.names, *key_numbers))}
        pick_key_numbers = _picker([self.numbers.index(column) for column in key_numbers])
        key_picks = tuple(_picker([at[column] for column in key.columns]) for key in self.history.keys)
        for name, value in {
            "_known": known,
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
        """Names of the features that `encode` gives, in order."""
        row = () if self.lookup is None else (ROW,)
        return self.numbers + row + CLOCK_FEATURES + self.history.feature_names() + self.limit_names()

    @property
    def limit_place(self) -> int:
        """Where a request's limit stands among its features; -1 where no number is one."""
        return self.numbers.index(LIMIT) if LIMIT in self.numbers else -1

    def limit_names(self) -> tuple[str, ...]:
        """Names of the last features, which set the owner keys' history against the limit."""
        if self.limit_place < 0:
            return ()
        return limit_feature_names([key.name for key in self.history.keys if key.kind == "owner"])

    def fill_limits(self, features: list[float]) -> None:
        """Write the last features of an encoded request from the others; nothing where no number is a limit."""
        place = self.limit_place
        if place >= 0:
            at = len(features) - len(OF_LIMIT) * sum(self._is_owner)
            fill_limit_features(features[place], self._is_owner, len(OWNER_FEATURES), len(CATEGORY_FEATURES),
                                self.n_numbers + len(CLOCK_FEATURES), features, at)

    @property
    def n_numbers(self) -> int:
        """How many numbers `parse` gives: the request's, and its row of the lookup table where there is one."""
        return len(self.numbers) + (self.lookup is not None)

    def with_row(self, features: np.ndarray, codes: Sequence[np.ndarray]) -> np.ndarray:
        """Rows that an encoder without the lookup made, float64 (n, m), as this one makes them; others as they are.

        codes: of each history key, int64 (n,), -1 where missing.
        """
        if self.lookup is None or features.shape[1] == len(self.feature_names()):
            return features
        return np.insert(features, len(self.numbers), self.lookup.rows_of(codes, len(features)), axis=1)

    def set_row(self, features: list[float], keys: Sequence[tuple[str, ...] | None]) -> None:
        """Find the row anew, in features of this order that another version encoded; nothing without a lookup."""
        if self.lookup is not None:
            features[len(self.numbers)] = self.lookup.row(keys)

    def parse(self, request: Mapping[str, Any]) -> Parsed:
        """Check and convert one request.

        A missing column is NaN (numbers) or no history (names), and is listed in `unknown`. Refused with
        ValueError: an unknown column, a number that is not one, an infinite number, a size (SIZES) that is NaN or below
        0, a name that is no text, whole number or boolean.
        """
        return self._parse_plain(request) or self._parse_any(request)

    def _parse_plain(self, request: Mapping[str, Any]) -> Parsed | None:
        """A dict of all columns, all of them text or finite numbers as expected; None for another request."""
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
            request = dict(request)  # read once: what a caller's own class raises passes through, and changes nothing
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
    """Types of the values of a request that needs no second look: numbers of these types, and text."""
    mixed = product(_REAL, repeat=n_numbers) if n_numbers <= _N_MIXED_MAX else [(kind,) * n_numbers for kind in _REAL]
    return frozenset((*numbers, *(str,) * n_names) for numbers in mixed)


def _values_parser(names: Sequence[str], pick_key_numbers: _Pick,
                   key_picks: Sequence[_Pick],
                   lookup: Lookup | None) -> Callable[[tuple[Any, ...]], Parsed | None]:
    """A function of the values of all columns, in order, the same for equal ones; it keeps its latest answers.

    names: of the numbers, which come first. It gives None where a number is not finite, and where a size is below 0.
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
    """A function from a container to the tuple of what stands in these places."""
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
        return str.__str__(value)  # a subclass may hash or compare otherwise, and the history keeps it
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

    For a clock without dates it is the least time >= 0 at which hours and weekdays are right; all of the history then
    looks long past. phase_s: see `Encoder`.

    >>> clock_zero_s(UNIX_PHASE_S), clock_zero_s(0) == FIRST_MONDAY_S
    (0, True)
    """
    return (FIRST_MONDAY_S + phase_s) % WEEK_S


def counts_unix_s(phase_s: int, training: Mapping[str, Any]) -> bool:
    """Whether a bundle's times are Unix seconds, since its training trace has dates; else its clock is its own.

    training: what the bundle says of it. phase_s: see `Encoder`.

    >>> counts_unix_s(UNIX_PHASE_S, {"start_unix_s": 1_704_067_200}), counts_unix_s(UNIX_PHASE_S, {})
    (True, False)
    """
    return type(training.get("start_unix_s")) is int and phase_s % WEEK_S == UNIX_PHASE_S


@dataclass(frozen=True, slots=True)
class HistoryTerms:
    """definition: as `HistoryDefinition.as_dict`, but for how instant ends are read. numbers: columns of its keys that
    are read as numbers. phase_s: of the clock."""

    definition: Mapping[str, Any]
    numbers: frozenset[str]
    phase_s: int

    @classmethod
    def of(cls, encoder: Encoder) -> HistoryTerms:
        """Those of a model."""
        columns = {column for key in encoder.history.keys for column in key.columns}
        kept = replace(encoder.history, instant_s=None)
        return cls(kept.as_dict(), frozenset(columns.intersection(encoder.numbers)), encoder.phase_s)

    def clash(self, other: HistoryTerms, whose: str) -> str:
        """What makes a live history of these terms mean something else in others; "" where nothing does.

        A history key's column that is read as a number here and as text there makes other keys ("2.0" and "2").
        whose: where the live history is from, for the message.
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
