"""Classes of services with the same shape of day, and what a class says of a newcomer.

May import: `serving.usage`, `features.usage`.
"""

__all__: list[str] = []
