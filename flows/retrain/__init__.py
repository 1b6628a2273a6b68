"""A retrain, one file per stage: ingest, features, train, judge, gates, promote; and its reports.

May import: `reports` and what lies below.
"""
