"""Figures, tables, model cards and pages. They run nothing.

May import: `stages` and what lies below it.
"""
