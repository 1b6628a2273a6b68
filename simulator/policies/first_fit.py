"""First fit: the lowest-numbered host on which the request fits."""

from __future__ import annotations

from sojourn.simulator.policies.policy import Policy

FIRST_FIT = Policy("first-fit", about="the lowest-numbered host on which the request fits")
