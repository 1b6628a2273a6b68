"""A pool that grows and shrinks: machine types, autoscaler, eviction, consolidation,
co-location of services and batch jobs.

May import: `engine` and what lies below it.
"""

__all__: list[str] = []
