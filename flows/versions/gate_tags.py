"""The gates of a version in its tags: `gate.NAME`, whether it passed, and what was found."""

from __future__ import annotations

from collections.abc import Mapping

GATE = "gate."
"""Before the gate's name, in the tag's."""
PASSED, FAILED = "passed", "FAILED"
"""How the tag's text begins."""


def failures(tags: Mapping[str, str]) -> dict[str, str]:
    """What was found of each gate that a version failed, by the gate's name.

    >>> failures({"gate.size": "passed: 1 MB", "gate.accuracy": "FAILED: worse", "trace": "a"})
    {'accuracy': 'worse'}
    """
    return {tag.removeprefix(GATE): text.removeprefix(FAILED).removeprefix(": ") for tag, text in tags.items()
            if tag.startswith(GATE) and text.startswith(FAILED)}


def failed_gates(tags: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the gates that a version failed."""
    return tuple(failures(tags))
