"""What a gate of promotion is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gate:
    """One condition of promotion, whether it held, and what was found."""

    name: str
    is_passed: bool
    found: str
