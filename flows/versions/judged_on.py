"""What a version was judged on: measures are comparable only where that is the same."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

JUDGED_TAG, OTHER_TAG = "judged_on", "not_comparable_with"
"""Tags: the key of what judged a run or version; the version before it that something else had judged."""


@dataclass(frozen=True, slots=True)
class JudgedOn:
    """The requests that judged a version, and what counted as long-lived.

    trace: its name. data_hash: of its content. window: which of its requests, in words. threshold_s: of "long-lived";
    None = there is no such measure.
    """

    trace: str
    data_hash: str
    window: str
    threshold_s: int | None = None

    @property
    def key(self) -> str:
        """A short name: the trace's, and 8 hex digits of a hash of the rest.

        >>> JudgedOn("my trace.swf", "f0", "judged on the rest", 3_600).key
        'my-trace.swf-5b14c195'
        """
        digest = hashlib.sha256(json.dumps([self.trace, self.data_hash, self.window, self.threshold_s]).encode())
        return f"{re.sub(r'[^A-Za-z0-9_.]+', '-', self.trace)}-{digest.hexdigest()[:8]}"


def keyed(key: str, scores: Mapping[str, float]) -> dict[str, float]:
    """Measures under names that only measures of the same key share; MLflow shows those of a key as a section.

    >>> keyed("synthetic-0a1b2c3d", {"ages.ibs": 0.07})
    {'synthetic-0a1b2c3d/ages.ibs': 0.07}
    """
    return {f"{key}/{name}": value for name, value in scores.items()}


def unkeyed(metrics: Mapping[str, float]) -> dict[str, float]:
    """A run's metrics by their names alone.

    >>> unkeyed({"synthetic-0a1b2c3d/ages.ibs": 0.07, "fit_s": 2.0})
    {'ages.ibs': 0.07, 'fit_s': 2.0}
    """
    return {name.rpartition("/")[2]: value for name, value in metrics.items()}


def other_than(tags: Mapping[str, str], before: Mapping[int, Mapping[str, str]], champion: int | None) -> str | None:
    """The version whose measures these are not comparable with, in words; None where they are, or there is none.

    tags: of what is to be registered. before: the tags of the versions so far; the champion among them is looked at,
    without one the newest.

    >>> other_than({"judged_on": "a-1"}, {3: {"judged_on": "a-2"}, 4: {"judged_on": "a-1"}}, 3)
    'version 3, then champion, which a-2 judged'
    >>> other_than({"judged_on": "a-1"}, {3: {"judged_on": "a-2"}, 4: {"judged_on": "a-1"}}, None)
    """
    looked_at = champion if champion in before else max(before, default=None)
    if looked_at is None:
        return None
    other = before[looked_at].get(JUDGED_TAG, "something unknown")
    if tags.get(JUDGED_TAG) == other:
        return None
    return f"version {looked_at}{', then champion,' if looked_at == champion else ','} which {other} judged"
