"""What is served: all that belongs to one version of the model, in one object that never changes.

What a scheduler holds of each request: its lifetime curve, and what the curve was made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sojourn.serving.answers.attribution import background_of
from sojourn.serving.answers.curve_builder import CurveBuilder, FirstAnswer, Refresher
from sojourn.serving.bundle import Bundle, Schema
from sojourn.serving.checks import LATEST_S, clock_second
from sojourn.serving.curves import LifetimeCurve, lifetime_class
from sojourn.serving.errors import BundleError, shown
from sojourn.serving.inputs import HISTORY_OF, HOUR_S, UNKNOWN, Admission, Encoder, HistoryTerms, Parsed

USUAL_SHARE = 0.5
"""A column that a smaller share of the training requests had is usually missing, and is not named where it is."""
REACH_S = 631_152_000
"""20 years: how long after its trace's end a model of a trace without dates is asked at most."""
FIRST_UNIX_S, LAST_UNIX_S = 100_000_000, 4_200_000_000
"""1973 and 2103: other numbers are no Unix seconds of a recorded trace, but of another clock or in another unit."""


@dataclass(frozen=True, slots=True)
class Served:
    """One version of the model, ready to answer. A call reads it once, so that it never sees two versions.

    first: the compiled way from a request to its curve, where there is one; not for several threads at once.
    background: earlier requests to explain against, float64 (B, number of the encoder's features), or None.
    retired: columns that a version served before read and this one does not; requests may go on naming them.
    first_s, latest_s: a time before or after them is on another clock than the training trace's.
    rare: columns that fewer than USUAL_SHARE of the training requests had, where the bundle says so.
    refresher: what predicts a running request anew, where the bundle has such a model. instant_s: how its history is
    read, see `HistoryDefinition`.
    """

    version: str
    schema: Schema
    encoder: Encoder
    builder: CurveBuilder
    first: FirstAnswer | None
    background: np.ndarray | None
    retired: frozenset[str] = frozenset()
    first_s: int = -LATEST_S
    latest_s: int = LATEST_S
    rare: frozenset[str] = frozenset()
    refresher: Refresher | None = None
    instant_s: int | None = None

    @classmethod
    def of(cls, bundle: Bundle) -> Served:
        """The bundle's model, its compiled code loaded; BundleError where it is not what the schema says."""
        schema, encoder = bundle.schema, bundle.schema.encoder
        builder = CurveBuilder(schema, bundle.model)
        end_s = schema.training.get("history_to_s")
        first_s, latest_s = -LATEST_S, end_s + REACH_S if type(end_s) is int else LATEST_S
        if schema.is_dated:
            first_s, latest_s = FIRST_UNIX_S, LAST_UNIX_S
        shares = schema.training.get("given_shares")
        known = shares if isinstance(shares, dict) else {}
        rare = frozenset(name for name in encoder.columns()
                         if type(known.get(name)) in (int, float) and known[name] < USUAL_SHARE)
        return cls(bundle.version, schema, encoder, builder, builder.first_answer(), background_of(schema),
                   first_s=first_s, latest_s=latest_s, rare=rare,
                   refresher=None if bundle.refresh is None else Refresher.of(bundle.refresh),
                   instant_s=encoder.history.instant_s)

    def following(self, older: Served) -> Served:
        """This version in the place of an older one, whose live history and clock go on.

        BundleError where that history would mean something else to it: another definition, a key's column read as
        a number here and as text there ("2.0" and "2"), another clock. What else it reads may differ, and whether it
        sets instant ends apart: the history keeps them all.
        """
        clash = HistoryTerms.of(older.encoder).clash(HistoryTerms.of(self.encoder), f"version {older.version}")
        if clash:
            raise BundleError(f"schema.json: {clash}")
        retired = (older.retired | {*older.encoder.columns()}) - {*self.encoder.columns()}
        return replace(self, retired=retired)

    def now(self, value: Any) -> int:
        """The value as a second of the training trace's clock, an int; ValueError if it cannot be one.

        value: see `Predictor.admit`. A model of a trace without dates answers for 20 years after the trace's end,
        so that Unix time is refused there.
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
        """The request as this version reads it; ValueError as `Encoder.parse`. `unknown` names no rare column."""
        if self.retired and isinstance(request, Mapping):
            request = {column: value for column, value in request.items() if column not in self.retired}
        parsed = self.encoder.parse(request)
        if self.rare and parsed.unknown:
            return parsed._replace(unknown=tuple([name for name in parsed.unknown if name not in self.rare]))
        return parsed

    def unknown_keys(self, parsed: Parsed, slots: Sequence[int]) -> tuple[str, ...]:
        """Names of the histories that there are none of, for history keys that a request gives."""
        keys = self.encoder.history.keys
        return tuple(key.history_name for key, given, slot in zip(keys, parsed.keys, slots, strict=True)
                     if slot == UNKNOWN and given is not None)


class Current:
    """The version that is served now: replaced in one step while the predictor's lock is held, read once by a call."""

    __slots__ = ("served",)

    def __init__(self, served: Served) -> None:
        self.served = served




class Lifetime:
    """One request's prediction: its curve, and what of the request the model did not know.

    unknown: columns that the request lacks, by their names (not those that fewer than half of the training requests
    had, where the bundle says so), and `history of KEY` for a history key of which the model has seen nothing;
    `not_given` and `not_seen` tell them apart.

    `remaining` and `next_change`, the hot calls, are the curve's own (see `LifetimeCurve`). version: the
    model that made it; curve and version stay what they are when the predictor reloads. admission: by which the
    predictor knows it; None where it was only predicted. Copies of a handle, pickled ones too, name one admission.
    Fields are for reading; refusing writes would make a handle cost five times as much.
    """

    __slots__ = ("_encoded", "_n_before", "admission", "arrival_s", "curve", "next_change", "remaining", "unknown",
                 "version")  # fmt: skip

    def __init__(self, curve: LifetimeCurve, encoded: np.ndarray, arrival_s: int, unknown: tuple[str, ...],
                 version: str, admission: Admission | None, n_before: int = 0) -> None:
        self.curve = curve
        self.remaining = curve.remaining
        self.next_change = curve.next_change
        self._encoded = encoded  # 8 bytes a feature; as numbers they would take 32
        self._n_before = n_before  # numbers of the curve, which stand before
        self.arrival_s = arrival_s
        self.unknown = unknown
        self.version = version
        self.admission = admission

    @property
    def id(self) -> str | None:
        """The admission's random identity as text, to be kept beside the VM or pod; None where nothing was admitted.

        `Predictor.ended`, `withdraw` and `handle` take it, after a restart from a snapshot too.
        """
        return None if self.admission is None else self.admission.id

    @property
    def not_given(self) -> tuple[str, ...]:
        """Columns that the model reads and the request lacks, but those that most training requests lacked, too."""
        return tuple(name for name in self.unknown if not name.startswith(HISTORY_OF))

    @property
    def not_seen(self) -> tuple[str, ...]:
        """History keys, such as an owner, that the request gives and of which the model has seen nothing."""
        return tuple(name.removeprefix(HISTORY_OF) for name in self.unknown if name.startswith(HISTORY_OF))

    def __repr__(self) -> str:
        """As at its start: the mean, the median and the longest of nine in ten, then what was not known."""
        spans = [f"{word} {_span(seconds)}" for word, seconds in (
            ("mean", self.remaining(0.0)), ("median", self.quantile(0.5, 0.0)),
            ("90 % within", self.quantile(0.9, 0.0)))]
        lacks = [f"{words}: {', '.join(names)}" for words, names in (
            ("not given", self.not_given), ("not seen", self.not_seen)) if names]
        return f"Lifetime({'; '.join([', '.join(spans), f'version {self.version}', *lacks])})"

    @property
    def features(self) -> list[float]:
        """The encoded request as the forest read it."""
        return self._encoded[self._n_before:].tolist()

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
    """A running request's prediction as of a later moment, `refreshed_s`: its curve counts from the age of then on."""

    __slots__ = ("refreshed_s",)

    def __init__(self, refreshed_s: int, *fields: Any) -> None:
        """fields: as of `Lifetime`."""
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
