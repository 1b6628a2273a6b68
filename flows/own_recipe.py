"""The recipe that suits the traces of a reader, where no other is asked for."""

from __future__ import annotations

SYNTHETIC = "synthetic"


def own_recipe(reader: str) -> str:
    """The reader's own recipe; `synthetic` for the generator.

    >>> own_recipe("openb"), own_recipe("swf"), own_recipe("synthetic")
    ('openb', 'trace', 'synthetic')
    """
    from sojourn.features.readers import READERS

    return reader if reader == SYNTHETIC else READERS[reader].recipe
