"""Names that runs and versions have in MLflow: the experiment, kinds of runs, aliases, tags."""

from __future__ import annotations

import re

EXPERIMENT = "sojourn-lifetime"
CHAMPION, CHALLENGER = "champion", "challenger"
"""Aliases of versions."""
BUNDLE = "bundle"
"""A bundle's folder among a run's artifacts."""
RETRAIN, FAMILY = "retrain", "family"
STUDY = "study"
COMPARISON = "comparison"
ROLLBACK = "rollback"
"""Kinds of runs, for the tag `kind`; of a study and of a comparison artifacts have this name, too."""
CLEANED_TAG = "cleaned"
"""On a run and on a version: when `sojourn clean` removed its artifacts."""
LEFT_TAG = "rolled_back"
"""On a version that was left for another one: why. The same bytes do not become champion again by themselves."""


def tag_name(name: str) -> str:
    """The name with what MLflow refuses in names left out."""
    return re.sub(r"[^\w \-./:]", "", name)
