"""Sojourn: how long each VM, pod or job will stay, and what a scheduler gains from knowing it."""

__version__ = "0.1.0"

__all__ = ["__version__"]
