"""Best fit: the fullest host on which the request fits; the baseline of every comparison."""

from __future__ import annotations

from sojourn.simulator.policies.packing import PACKING
from sojourn.simulator.policies.policy import Policy

BEST_FIT = Policy("best-fit", PACKING, about="the fullest host on which the request fits; the baseline")
