"""The gates of a version in its tags: `gate.NAME`, whether it passed, and what was found."""

from __future__ import annotations

from collections.abc import Mapping

GATE = "gate."
"""Before the gate's name, in the tag's."""
PASSED, FAILED = "passed", "FAILED"
"""How the tag's text begins."""


def failed_gates(tags: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the gates that a version failed.

    >>> failed_gates({"gate.size": "passed: 1 MB", "gate.accuracy": "FAILED: worse", "trace": "a"})
    ('accuracy',)
    """
    return tuple(tag.removeprefix(GATE) for tag, text in tags.items()
                 if tag.startswith(GATE) and text.startswith(FAILED))
