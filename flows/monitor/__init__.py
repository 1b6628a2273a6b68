"""A monitor of logged decisions: their outcomes, figures by week, and alarms of a drift.

May import: `outside`, `store`, `versions` and what lies below them.
"""
