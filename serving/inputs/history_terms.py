"""What the names and times of a live history mean: a model, or a predictor that starts from it, must mean the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sojourn.serving.inputs.encoder import WEEK_S, Encoder


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
