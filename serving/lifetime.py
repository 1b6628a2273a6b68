"""What a scheduler holds of each request: its lifetime curve, and what the curve was made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from sojourn.serving.curves import LifetimeCurve, lifetime_class
from sojourn.serving.inputs import HISTORY_OF, Admission

_HOUR_S = 3_600


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
    if seconds < _HOUR_S:
        return f"{seconds:.0f} s"
    return f"{seconds / _HOUR_S:.1f} h" if seconds < 48 * _HOUR_S else f"{seconds / (24 * _HOUR_S):.1f} d"
