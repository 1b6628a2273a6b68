"""A lifetime family as the registry knows it: how to make its model, and what is asked of it besides the contract."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from sojourn.models.lifetime.contract import LifetimeModel
from sojourn.models.lifetime.search_space import SearchSpace


@dataclass(frozen=True, slots=True)
class Family:
    """Called, it gives an unfitted model with its defaults.

    build: makes that model. about: what it is, one line for the docs. answers: where its distribution comes from.
    complexity: its place in the order of simplicity, 1 = the simplest; a choice within the noise takes the simpler
    family. It says how much a family takes from few rows, not how long its code is (measured: docs/lifetime.md,
    "Candidate"). 1: a value that the request or its history holds. 2: one pooled curve, from which trees depart as long
    as the validation window bears them out. 3: a curve of its own for each key. 4: one answer of trees or of a linear
    model; the spread of the first is that of the validation window's residuals. 5: trees asked anew at each age, or a
    whole curve of them. 6: a network, or several models at once.
    trained: whether a retrain fits it. is_baseline: a team might use it without a model; studies compare with it.
    search: what `sojourn search` may vary, None = nothing is worth a search. Whether a family can be served is what
    its `export` says.
    """

    build: Callable[[], LifetimeModel]
    about: str
    answers: Literal["whole distribution", "through its residuals"]
    complexity: int = field(kw_only=True)
    trained: Literal["always", "by default", "when asked"] = "when asked"
    is_baseline: bool = False
    search: SearchSpace | None = None

    def __call__(self) -> LifetimeModel:
        return self.build()
