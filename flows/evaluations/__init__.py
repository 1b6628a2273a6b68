"""Evaluations that are no grid of cells, one runner each; presets name them.

May import: `compare` and what lies below it.
"""
