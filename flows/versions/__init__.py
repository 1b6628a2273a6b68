"""Versions of a model: bundles as bytes, promotion as a journal, rollback, cleaning, store repair.

May import: `tracking` and what lies below.
"""
