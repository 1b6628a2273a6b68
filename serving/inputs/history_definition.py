"""What of the past a model knows: the combinations of columns that history is kept for, and how."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sojourn.serving.inputs.owner import ALL_TOGETHER, OWNER_FEATURES, OWNER_FEATURES_APART

HISTORY_OF = "history of "
CATEGORY_FEATURES = ("ended", "mean")
"""Features of a category key, in order: log1p of the count up to the window, smoothed mean of log10 lifetimes (s)."""


@dataclass(frozen=True, slots=True)
class HistoryKey:
    """A combination of request columns that history is kept for, and how: `owner` or `category`."""

    name: str
    columns: tuple[str, ...]
    kind: str

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError(f"history key {self.name!r} must have at least one column, got none")
        if self.kind not in ("owner", "category"):
            raise ValueError(f"kind must be owner or category, got {self.kind!r}")

    @property
    def history_name(self) -> str:
        """What its history is called beside the request's columns, which may have the key's name: `history of NAME`."""
        return f"{HISTORY_OF}{self.name}"

    def feature_names(self, is_apart: bool = False) -> tuple[str, ...]:
        """Names of this key's features, in the order in which they are written. is_apart: of instant ends."""
        owner_parts = OWNER_FEATURES_APART if is_apart else OWNER_FEATURES
        parts = owner_parts if self.kind == "owner" else CATEGORY_FEATURES
        return tuple(f"{self.name}:{part}" for part in parts)


@dataclass(frozen=True, slots=True)
class HistoryDefinition:
    """All that decides what history a row sees; part of the bundle, equal in training and serving.

    keys: the history keys, in feature order.
    window: how many ended requests of an owner are remembered.
    batch_gap_s: arrivals of an owner no further apart than this belong to one batch.
    category_memory: the category mean moves by at least 1 / category_memory at each end.
    prior_strength: how many requests the overall mean counts for in a category's mean.
    n_keys_max: owners or categories kept per key. Beyond it the owner whose last arrival is oldest is forgotten, or
        the category of which the last end is oldest, in training too. An owner takes 800 to 900 bytes in a full table
        (1 to 16 ended requests), so one of the default size takes 120 to 136 MB.
    instant_s: ends within so many seconds are instant: owners' habits are of the others, and their share among the last
        is a feature (docs/lifetime.md). None = all lifetimes together. How the history is read, not what it keeps.
    """

    keys: tuple[HistoryKey, ...]
    window: int = 16
    batch_gap_s: int = 300
    category_memory: int = 2_000
    prior_strength: float = 20.0
    n_keys_max: int = 150_000
    instant_s: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("window", 1), ("n_keys_max", 1), ("category_memory", 1), ("batch_gap_s", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**62:
                raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}")
        if self.instant_s is not None and (isinstance(self.instant_s, bool) or not isinstance(self.instant_s, int)
                                           or not 0 <= self.instant_s < 2**31):
            raise ValueError(f"instant_s must be None or a whole number of seconds >= 0, got {self.instant_s!r}")
        if not isinstance(self.prior_strength, int | float) or not 0.0 <= self.prior_strength < math.inf:
            raise ValueError(f"prior_strength must be finite and >= 0, got {self.prior_strength!r}")

    def feature_names(self) -> tuple[str, ...]:
        """Names of all history features, in order."""
        return tuple(name for key in self.keys for name in key.feature_names(self.instant_s is not None))

    @property
    def instant_log10(self) -> float:
        """Log10 lifetimes (s) of at most this are instant ends; ALL_TOGETHER = none is. A lifetime is at least 1 s."""
        return ALL_TOGETHER if self.instant_s is None else math.log10(max(self.instant_s, 1))

    def as_dict(self) -> dict[str, Any]:
        """JSON form, as the bundle's schema holds it; no `instant_s` where there is none."""
        apart = {} if self.instant_s is None else {"instant_s": self.instant_s}
        return {
            "keys": [{"name": key.name, "columns": list(key.columns), "kind": key.kind} for key in self.keys],
            "window": self.window,
            "batch_gap_s": self.batch_gap_s,
            "category_memory": self.category_memory,
            "prior_strength": self.prior_strength,
            "n_keys_max": self.n_keys_max,
            **apart,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> HistoryDefinition:
        """The definition that `as_dict` wrote; KeyError or TypeError where it is not one."""
        fields = dict(document)
        keys = tuple(HistoryKey(str(key["name"]), tuple(map(str, key["columns"])), str(key["kind"]))
                     for key in fields.pop("keys"))
        return cls(keys, **fields)
