"""The curves of everything that runs, packed into arrays: answers for many requests in one call, and exits of hosts.

May import: `lifetime`, `curves` and what lies below them.
"""

from sojourn.serving.pool.curve_pool import CurvePool, remaining_of
from sojourn.serving.pool.host_exits import HostExits

__all__ = [
    "CurvePool", "HostExits", "remaining_of",
]  # fmt: skip
