"""From a request to the numbers that the forest reads; shared by training and serving."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from sojourn.serving.errors import shown
from sojourn.serving.inputs.history import HistoryState
from sojourn.serving.inputs.history_definition import CATEGORY_FEATURES, HistoryDefinition
from sojourn.serving.inputs.limit import LIMIT, OF_LIMIT, fill_limit_features, limit_feature_names
from sojourn.serving.inputs.lookup import ROW, Lookup
from sojourn.serving.inputs.owner import OWNER_FEATURES

CLOCK_FEATURES = ("hour", "weekday")
"""Hour of day in [0, 24) and day of week (Monday = 0) of the arrival."""
SIZES = frozenset(("cpu_cores", "mem_gib", "gpu"))
"""Columns of every trace that are finite and not below 0: a host has room for no other."""
_NAN = math.nan
_DAY_S = 86_400
WEEK_S = 7 * _DAY_S
FIRST_MONDAY_S = 4 * _DAY_S
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

    >>> from sojourn.serving.inputs.history_definition import HistoryKey
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
        features = [*parsed.numbers, (second % _DAY_S) / 3_600.0, float(second // _DAY_S % 7),
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
