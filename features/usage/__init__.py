"""Usage series: from the readers that have them to one grid, folded profiles and quantiles per request.

May import: `readers` and what lies below it, and `serving.usage`.
"""

from sojourn.features.usage.usage_grid import UsageGrid

__all__ = ["UsageGrid"]
