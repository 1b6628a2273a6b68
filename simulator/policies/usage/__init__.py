"""Policies that score a host by the use of its requests over the day, from given profiles.

May import: the policies around it.
"""

from sojourn.simulator.policies.usage.lifetime_period import WEIGHTS, lifetime_period
from sojourn.simulator.policies.usage.usage_scores import period_aware, squares, violation_fit
from sojourn.simulator.policies.usage.usage_state import UsageProfile

__all__ = ["WEIGHTS", "UsageProfile", "lifetime_period", "period_aware", "squares", "violation_fit"]
