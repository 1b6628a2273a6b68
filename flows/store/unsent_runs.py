"""Where a store keeps finished runs whose tracking store went away, until they are sent."""

from __future__ import annotations

from pathlib import Path

UNSENT = "unsent"
ORDER = "order.json"
"""In a kept run's folder: it comes last and says that the run is whole."""


def unsent_orders(store: Path) -> list[Path]:
    """The order of each kept run, oldest first; its folder is named by the run's id.

    >>> unsent_orders(Path("/no/such/store"))
    []
    """
    return sorted((store / UNSENT).glob(f"*/{ORDER}"), key=lambda path: path.stat().st_mtime)
