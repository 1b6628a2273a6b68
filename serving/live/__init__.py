"""What runs, by its id, and the snapshot by which it outlives a restart.

May import: `bundle` and what lies below it.
"""
