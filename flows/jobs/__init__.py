"""Prefect flows: retrain, the study of families, the search; and what is checked before they begin.

May import: `reports` and what lies below it; nothing of `compare`.
"""
