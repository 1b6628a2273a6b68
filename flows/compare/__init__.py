"""A comparison: its grid, its cells, what is kept of them, its presets.

May import: `reports` and what lies below it; nothing of `jobs`.
"""
