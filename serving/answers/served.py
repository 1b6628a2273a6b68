"""All that belongs to one served version of the model, in one object that never changes.

`Lifetime` is a scheduler's handle of a request: its lifetime curve and the inputs of that curve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sojourn.serving.answers.attribution import background_of
from sojourn.serving.answers.curve_builder import CurveBuilder, Refresher
from sojourn.serving.bundle import Bundle, HabitSection, Schema
from sojourn.serving.checks import LATEST_S, clock_second
from sojourn.serving.curves import LifetimeCurve, lifetime_class
from sojourn.serving.errors import BundleError, shown
from sojourn.serving.inputs import HISTORY_OF, HOUR_S, UNKNOWN, Encoder, HistoryTerms, Parsed, Receipt

USUAL_SHARE = 0.5
"""A column that fewer training requests had is usually missing, so `unknown` does not list it."""
REACH_S = 631_152_000
"""20 years: a model of a trace without dates answers for so long after the trace's end."""
FIRST_UNIX_S, LAST_UNIX_S = 100_000_000, 4_200_000_000
"""1973 and 2103: other numbers are not Unix seconds, but have another clock or unit."""


def clock_span(schema: Schema) -> tuple[int, int]:
    """The first and the latest second of the training trace's clock; a time outside is on another one."""
    end_s = schema.training.get("history_to_s")
    if schema.is_dated:
        return FIRST_UNIX_S, LAST_UNIX_S
    return -LATEST_S, end_s + REACH_S if type(end_s) is int else LATEST_S


@dataclass(frozen=True, slots=True)
class Served:
    """One version of the model, ready to answer.

    A call reads it once, so it never sees two versions. background: earlier requests to explain
    against, float64 (B, number of the encoder's features), or None. retired: columns that an
    earlier served version read and this one does not; requests may still give them. first_s,
    latest_s: a time before or after them is on another clock than the training trace. rare: columns
    that fewer than USUAL_SHARE of the training requests had, if the bundle has the shares.
    refresher: predicts a running request anew, if the bundle has such a model. instant_s: how its
    history is read, see `HistoryDefinition`. habits: those of the bundle, if its curves are mixed with them.
    recalibrates: see `Bundle`.
    """

    version: str
    schema: Schema
    encoder: Encoder
    builder: CurveBuilder
    background: np.ndarray | None
    retired: frozenset[str] = frozenset()
    first_s: int = -LATEST_S
    latest_s: int = LATEST_S
    rare: frozenset[str] = frozenset()
    refresher: Refresher | None = None
    instant_s: int | None = None
    habits: HabitSection | None = None
    recalibrates: bool = False

    @classmethod
    def of(cls, bundle: Bundle) -> Served:
        """The bundle's model, its compiled code loaded; BundleError if it does not match the schema."""
        schema, encoder = bundle.schema, bundle.schema.encoder
        first_s, latest_s = clock_span(schema)
        shares = schema.training.get("given_shares")
        share_of = shares if isinstance(shares, dict) else {}
        rare = frozenset(name for name in encoder.columns()
                         if type(share_of.get(name)) in (int, float) and share_of[name] < USUAL_SHARE)
        builder = CurveBuilder(schema, bundle.model, rare=rare)
        return cls(bundle.version, schema, encoder, builder, background_of(schema),
                   first_s=first_s, latest_s=latest_s, rare=rare,
                   refresher=None if bundle.refresh is None else Refresher.of(bundle.refresh),
                   instant_s=encoder.history.instant_s, habits=bundle.habits, recalibrates=bundle.recalibrates)

    def following(self, older: Served) -> Served:
        """This version in the place of an older one, whose live history and clock go on.

        BundleError if that history has another meaning here: another definition or clock, or a
        key's column is a number in one and text in the other ("2.0" and "2"). Other columns may
        differ, and so may setting instant ends apart: the history keeps all ends.
        """
        clash = HistoryTerms.of(older.encoder).clash(HistoryTerms.of(self.encoder), f"version {older.version}")
        if clash:
            raise BundleError(f"schema.json: {clash}")
        retired = (older.retired | {*older.encoder.columns()}) - {*self.encoder.columns()}
        return replace(self, retired=retired)

    def now(self, value: Any) -> int:
        """The value as a second of the training trace's clock, an int; ValueError if it cannot be one.

        value: see `Predictor.admit`. A model of a trace without dates refuses Unix time, since it
        answers only for 20 years after the trace's end.
        """
        if type(value) is int and self.first_s <= value <= self.latest_s:
            return value
        now_s = clock_second(value, "now_s")
        if self.first_s <= now_s <= self.latest_s:
            return now_s
        if self.schema.is_dated:
            raise ValueError(f"now_s must be Unix seconds, the clock of the training trace, got {shown(value)}")
        raise ValueError(f"now_s must be seconds on the own clock of the training trace, which has no dates and ends "
                         f"at {self.schema.training.get('history_to_s')}; got {shown(value)}")

    def parse(self, request: Mapping[str, Any]) -> Parsed:
        """The request as this version reads it; ValueError as `Encoder.parse`. `unknown` lists no rare column."""
        if self.retired and isinstance(request, Mapping):
            request = {column: value for column, value in request.items() if column not in self.retired}
        parsed = self.encoder.parse(request)
        if self.rare and parsed.unknown:
            return parsed._replace(unknown=tuple([name for name in parsed.unknown if name not in self.rare]))
        return parsed

    def unknown_keys(self, parsed: Parsed, slots: Sequence[int]) -> tuple[str, ...]:
        """Names of the missing histories: of keys that the request gives and the history does not hold."""
        keys = self.encoder.history.keys
        return tuple(key.history_name for key, values, slot in zip(keys, parsed.keys, slots, strict=True)
                     if slot == UNKNOWN and values is not None)


class Current:
    """The version that is served now: replaced in one step while the predictor's lock is held, read once by a call."""

    __slots__ = ("served",)

    def __init__(self, served: Served) -> None:
        self.served = served




class Lifetime:
    """One request's prediction: its curve, and the inputs that the model did not know.

    unknown: columns that the request lacks (but not rare ones, see `Served.rare`), and `history of
    KEY` for a history key that the model has not seen; see `not_given` and `not_seen`.

    `remaining` and `next_change`, the hot calls, are methods of the curve (see `LifetimeCurve`).
    version: of its model; a reload changes neither curve nor version. admission: its identity in
    the predictor; None if it was only predicted. Copies of a handle, pickled ones too, name one
    admission. Do not write to fields; refusing writes would make a handle cost five times as much.
    """

    __slots__ = ("_encoded", "_n_before", "admission", "arrival_s", "curve", "next_change", "remaining", "unknown",
                 "version")  # fmt: skip

    def __init__(self, curve: LifetimeCurve, encoded: Any, arrival_s: int, unknown: tuple[str, ...],
                 version: str, admission: Receipt | None, n_before: int = 0) -> None:
        self.curve = curve
        self.remaining = curve.remaining
        self.next_change = curve.next_change
        self._encoded = encoded  # a buffer: 8 bytes a feature; Python floats would take 32
        self._n_before = n_before  # numbers of the curve, before the features
        self.arrival_s = arrival_s
        self.unknown = unknown
        self.version = version
        self.admission = admission

    @property
    def id(self) -> str | None:
        """The admission's random identity as text, to be stored with the VM or pod; None if it was not admitted.

        `Predictor.ended`, `withdraw` and `handle` take it, after a restart from a snapshot too.
        """
        return None if self.admission is None else self.admission.id

    @property
    def not_given(self) -> tuple[str, ...]:
        """Columns that the model reads and the request lacks, without rare ones (see `Served.rare`)."""
        return tuple(name for name in self.unknown if not name.startswith(HISTORY_OF))

    @property
    def not_seen(self) -> tuple[str, ...]:
        """History keys, such as an owner, that the request gives and the model has not seen."""
        return tuple(name.removeprefix(HISTORY_OF) for name in self.unknown if name.startswith(HISTORY_OF))

    def __repr__(self) -> str:
        """Mean, median and 90 % quantile at its start, then the unknown inputs."""
        spans = [f"{word} {_span(seconds)}" for word, seconds in (
            ("mean", self.remaining(0.0)), ("median", self.quantile(0.5, 0.0)),
            ("90 % within", self.quantile(0.9, 0.0)))]
        lacks = [f"{words}: {', '.join(names)}" for words, names in (
            ("not given", self.not_given), ("not seen", self.not_seen)) if names]
        return f"Lifetime({'; '.join([', '.join(spans), f'version {self.version}', *lacks])})"

    @property
    def features(self) -> list[float]:
        """The encoded request as the forest read it."""
        return np.frombuffer(self._encoded)[self._n_before:].tolist()

    def quantile(self, q: float, uptime_s: float) -> float:
        """The remaining time that a share `q` of such requests does not exceed, seconds."""
        return self.curve.quantile(q, uptime_s)

    def survival(self, horizon_s: float, uptime_s: float) -> float:
        """Probability of still running `horizon_s` seconds after the uptime, in [0, 1]."""
        return self.curve.survival(horizon_s, uptime_s)

    def lifetime_class(self, uptime_s: float = 0.0) -> int:
        """LAVA's class (1-4) of the mean remaining time at an uptime."""
        return lifetime_class(self.remaining(uptime_s))


class RefreshedLifetime(Lifetime):
    """A running request's prediction as of `refreshed_s`; its curve is valid from its age at that time on."""

    __slots__ = ("refreshed_s",)

    def __init__(self, refreshed_s: int, *fields: Any) -> None:
        super().__init__(*fields)
        self.refreshed_s = refreshed_s


def _span(seconds: float) -> str:
    """A duration for people.

    >>> [_span(seconds) for seconds in (40.0, 5_400.0, 500_000.0)]
    ['40 s', '1.5 h', '5.8 d']
    """
    if seconds < HOUR_S:
        return f"{seconds:.0f} s"
    return f"{seconds / HOUR_S:.1f} h" if seconds < 48 * HOUR_S else f"{seconds / (24 * HOUR_S):.1f} d"
