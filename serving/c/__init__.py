"""A bundle's model as C source. May import: `answers` and what lies below it."""

from sojourn.serving.c.c_source import c_source

__all__ = [
    "c_source",
]  # fmt: skip
