"""Requests that are placed once and then use what their series say: orders, bounds and the optimum.

May import: `engine` and what lies below it.
"""

__all__: list[str] = []
