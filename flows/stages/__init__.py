"""The five stages of a run: ingest, build features, train, judge, promote; each with settings of its own.

May import: `gates` and what lies below it.
"""
