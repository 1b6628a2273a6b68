"""What a gate of promotion is, and why one did not hold."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Why a gate did not hold, as far as it decides what to do next (`flows.gates.next_steps`)."""

    FEW_ENDS = "few ends"
    LEVEL = "level"
    NOT_SIMULATED = "not simulated"
    NO_EFFECT = "no effect"
    PLACEMENT_NOT_SHOWN = "placement not shown"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Gate:
    """One condition of promotion, whether it held, and what was found. reason: why not, where it did not hold."""

    name: str
    is_passed: bool
    found: str
    reason: Reason = Reason.OTHER
