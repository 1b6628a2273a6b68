"""From a request to the numbers that the forest reads; shared by training and serving."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from sojourn.serving.errors import shown
from sojourn.serving.history import HistoryDefinition, HistoryState

CLOCK_FEATURES = ("hour", "weekday")
"""Hour of day in [0, 24) and day of week (Monday = 0) of the arrival."""
_NAN = math.nan
_DAY_S = 86_400
_NO_NUMBERS = (bool, np.bool_, str, bytes, complex, np.complexfloating)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A request's values as the encoder reads them; `unknown` names the columns that told it nothing."""

    numbers: tuple[float, ...]
    keys: tuple[tuple[str, ...] | None, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Encoder:
    """Creation-time features in a fixed order: numbers, clock, then the owner history.

    numbers: quantities known at creation (cores, GiB, requested time).
    names: owner and category columns, read as text.
    history: the definition whose features follow.
    phase_s: seconds from a Monday 00:00 to the clock's 0.

    >>> from sojourn.serving.history import HistoryKey
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
    _known: frozenset[str] = field(init=False, repr=False, compare=False)
    _plans: tuple[tuple[tuple[bool, int], ...], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        known = frozenset(self.columns())
        if len(known) < len(self.numbers) + len(self.names):
            raise ValueError(f"columns must differ from each other, got {self.numbers + self.names!r}")
        for key in self.history.keys:
            strangers = [column for column in key.columns if column not in known]
            if strangers:
                raise ValueError(f"history key {key.name!r} must use known columns, got {strangers[0]!r}")
        plans = tuple(tuple((column in self.names, (self.names if column in self.names else self.numbers).index(column))
                            for column in key.columns) for key in self.history.keys)
        object.__setattr__(self, "_known", known)
        object.__setattr__(self, "_plans", plans)

    def columns(self) -> tuple[str, ...]:
        """The request columns that the encoder reads."""
        return self.numbers + self.names

    def feature_names(self) -> tuple[str, ...]:
        """Names of the features that `encode` gives, in order."""
        return self.numbers + CLOCK_FEATURES + self.history.feature_names()

    def parse(self, request: Mapping[str, Any]) -> Parsed:
        """Check and convert one request.

        A missing column is NaN (numbers) or no history (names), and is listed in `unknown`. Refused with
        ValueError: an unknown column, a number that is not one, an infinite number, a name that is no text,
        whole number or boolean.
        """
        if type(request) is not dict:
            if not isinstance(request, Mapping):
                raise ValueError(f"request must be a mapping from columns to values, got {shown(request)}")
            request = dict(request)  # read once: what a caller's own class raises passes through, and changes nothing
        if not request.keys() <= self._known:
            stranger = next(column for column in request if column not in self._known)
            raise ValueError(f"column must be one of {', '.join(self.columns())}, got {shown(stranger)}")
        unknown = []
        numbers = []
        get = request.get
        for column in self.numbers:
            number = get(column)
            if type(number) is not float or number - number != 0.0:  # finite floats need no second look
                number = _number(column, number)
                if number != number:
                    unknown.append(column)
            numbers.append(number)
        texts = []
        for column in self.names:
            text = get(column)
            if type(text) is not str:
                text = _text(column, text)
                if text is None:
                    unknown.append(column)
            texts.append(text)
        return Parsed(tuple(numbers), self._keys(texts, numbers), tuple(unknown))

    def _keys(self, texts: Sequence[str | None], numbers: Sequence[float]) -> tuple[tuple[str, ...] | None, ...]:
        """The history keys of a request: its names, and numbers by their shortest decimal form."""
        keys: list[tuple[str, ...] | None] = []
        for plan in self._plans:
            values = []
            for is_name, idx in plan:
                value = texts[idx] if is_name else _number_text(numbers[idx])
                if value is None:
                    keys.append(None)
                    break
                values.append(value)
            else:
                keys.append(tuple(values))
        return tuple(keys)

    def encode(self, parsed: Parsed, now_s: int, state: HistoryState) -> list[float]:
        """The request's features at `now_s` (float64 each); records nothing."""
        second = now_s + self.phase_s
        return [*parsed.numbers, (second % _DAY_S) / 3_600.0, float(second // _DAY_S % 7),
                *state.features(parsed.keys, now_s)]  # fmt: skip


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
    if math.isinf(number):
        raise ValueError(f"{column} must be finite, got {shown(value)}")
    return number


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
