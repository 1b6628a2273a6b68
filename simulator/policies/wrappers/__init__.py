"""Policies made from other policies: until a time, or during maintenance."""

from sojourn.simulator.policies.wrappers.switched import switched
from sojourn.simulator.policies.wrappers.updated_first import is_outdated, updated_first

__all__ = [
    "is_outdated", "switched", "updated_first",
]  # fmt: skip
