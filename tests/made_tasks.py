"""Tasks that another process can import, which a test module's own it cannot."""

from __future__ import annotations

import os


def die_of_two(number: int) -> int:
    """The number; 2 takes the whole process with it."""
    if number == 2:
        os._exit(3)
    return number
