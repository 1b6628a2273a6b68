"""What a monitor knows of logged decisions: how they ended, figures by week, and alarms of a drift.

May import: `outside`, `store`, `versions` and what lies below them.
"""
