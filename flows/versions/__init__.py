"""Versions of a model: their bundles as bytes, promotion as a journal, and what opening a store repairs.

May import: `outside` and what lies below it.
"""
