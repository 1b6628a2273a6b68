"""Figures, tables and pages of results. This room runs nothing.

May import: `stages` and what lies below it.
"""
