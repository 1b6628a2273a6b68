"""Creation features set against the age that is asked about: how far a request is past what its owner's others lived.

A tree on the interval alone would need a split for every habit; one on the difference does. Only hazard models have
them, one value per interval. One code for training rows, live curves and explanations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sojourn.serving import document_fields
from sojourn.serving.document_fields import N_COLUMNS_MAX, N_INTERVALS_MAX
from sojourn.serving.forest.forest import LARGEST

_AGE_MIN_S = 1e-3


class AgeScales(NamedTuple):
    """`AgeFeatures` as arrays, for compiled code.

    sources: int64 (m,). is_log: bool (m,). ages_s: float64 (K,), s. log_ages: float64 (K,), log10 s.
    """

    sources: np.ndarray
    is_log: np.ndarray
    ages_s: np.ndarray
    log_ages: np.ndarray


@dataclass(frozen=True, slots=True)
class AgeFeatures:
    """Which features are set against which ages.

    sources: positions in the encoder's order. is_log: per source, True = log10 seconds, and the value is
    `source - log10(age)`; False = seconds, and it is `source / age`. ages_s: float64 (K,), rising, above 0, one per
    interval; log_ages: their log10 as the model was trained with.
    """

    sources: tuple[int, ...] = ()
    is_log: tuple[bool, ...] = ()
    ages_s: tuple[float, ...] = ()
    log_ages: tuple[float, ...] = ()

    def __len__(self) -> int:
        return len(self.sources)

    @classmethod
    def of(cls, names: Sequence[str], edges: np.ndarray) -> AgeFeatures:
        """Those of a feature list: the requested time, mean and last of each owner key, at the intervals' middles.

        >>> chosen = AgeFeatures.of(("cpu_cores", "user:mean", "user:last", "zone:mean"), np.array([0.0, 10.0, 1000.0]))
        >>> chosen.sources, chosen.is_log, [round(age_s, 3) for age_s in chosen.ages_s]
        ((1, 2), (True, True), [3.162, 100.0])
        """
        owners = {name.removesuffix(":last") for name in names if name.endswith(":last")}
        wanted = {f"{owner}:{part}" for owner in owners for part in ("mean", "last")}
        sources = [(idx, name in wanted) for idx, name in enumerate(names) if name == "requested_s" or name in wanted]
        if not sources:
            return cls()
        ages_s = np.sqrt(np.maximum(edges[:-1], 1.0) * edges[1:])
        return cls(tuple(idx for idx, _ in sources), tuple(is_log for _, is_log in sources), tuple(ages_s.tolist()),
                   tuple(np.log10(ages_s).tolist()))

    @classmethod
    def from_document(cls, document: Mapping[str, Any], names: Sequence[str]) -> AgeFeatures:
        """From a schema's `age_features`; none where it has none. ValueError where it is not what `as_dict` gives."""
        found = document.get("age_features")
        if found is None:
            return cls()
        forms = {"log10": True, "seconds": False}
        positions = {name: idx for idx, name in enumerate(names)}
        sources = document_fields.sequence(found["sources"], "age_features sources", N_COLUMNS_MAX)
        ages_s, log_ages = (document_fields.numbers(found[part], part, N_INTERVALS_MAX)
                            for part in ("ages_s", "log_ages"))
        chosen = cls(tuple(positions[document_fields.text(name, "source")] for name, _ in sources),
                     tuple(forms[document_fields.text(form, "form")] for _, form in sources), ages_s, log_ages)
        numbers = np.array([ages_s, log_ages])  # ValueError where their numbers differ
        if numbers.shape[1] == 0 or not (np.abs(numbers) <= LARGEST).all():
            raise ValueError("age_features must name finite ages")
        if (np.diff(numbers) <= 0.0).any() or numbers[0, 0] < _AGE_MIN_S:
            raise ValueError(f"ages_s must rise from above 0, at least {_AGE_MIN_S:g}, and log_ages with them")
        return chosen

    def as_dict(self, names: Sequence[str]) -> dict[str, Any]:
        """As JSON values for a bundle's schema; `names`: the encoder's features."""
        forms = [[names[idx], "log10" if is_log else "seconds"]
                 for idx, is_log in zip(self.sources, self.is_log, strict=True)]
        return {"sources": forms, "ages_s": list(self.ages_s), "log_ages": list(self.log_ages)}

    def scales(self) -> list[np.ndarray]:
        """For each source the numbers that it is set against: ages in s, or their log10; float64 (K,) each."""
        return [np.array(self.log_ages if is_log else self.ages_s) for is_log in self.is_log]

    def names(self, names: Sequence[str]) -> list[str]:
        """Names of the values, as `user:mean/age`; `names`: the encoder's features."""
        return [f"{names[idx]}/age" for idx in self.sources]

    def at(self, features: np.ndarray, interval: np.ndarray) -> np.ndarray:
        """Values float64 (n, len(self)) of rows (n, n_features) in the intervals int64 (n,); NaN stays NaN."""
        values = np.empty((len(features), len(self)))
        ages_s, log_ages = np.array(self.ages_s), np.array(self.log_ages)
        with np.errstate(over="ignore"):  # infinity is where compiled code ends, too
            for position, (source, is_log) in enumerate(zip(self.sources, self.is_log, strict=True)):
                column = features[:, source]
                values[:, position] = column - log_ages[interval] if is_log else column / ages_s[interval]
        return values

    def rows(self, features: np.ndarray, interval: np.ndarray) -> np.ndarray:
        """Rows as a hazard forest reads them: features, their values against the age, the interval."""
        return np.column_stack([features, self.at(features, interval), interval])

    def arrays(self) -> AgeScales:
        """What the compiled walk reads."""
        return AgeScales(np.array(self.sources, np.int64), np.array(self.is_log, np.bool_),
                         np.array(self.ages_s, np.float64), np.array(self.log_ages, np.float64))


NO_AGE_FEATURES = AgeFeatures()
"""Of models that set nothing against the age."""

