"""A comparison as one HTML page or as static figures. Runs no replay.

May import: `experiments` and what lies below it.
"""
