"""Who does the work: local processes, Dask, Prefect, and the decorator of a flow.

Dask is imported in this room only.

May import: `versions` and what lies below.
"""
