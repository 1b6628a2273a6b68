"""Versions of a model: their bundles as bytes, promotion as a journal, rollback, cleaning, and what opening a store
repairs.

May import: `tracking` and what lies below.
"""
