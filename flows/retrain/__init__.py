"""A retrain, a stage a file: ingest, features, train, judge, gates, promote; and what it reports.

May import: `reports` and what lies below.
"""
