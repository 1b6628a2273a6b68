"""Several replays beside each other: policies and predictors, A/B in one pool, orders of migration; caveats of a gain.

May import: `measures` and what lies below it.
"""
