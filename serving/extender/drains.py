"""Nodes that are to be drained by a deadline, as their annotation says."""

from __future__ import annotations

from typing import Any

from sojourn.serving.pods import listed_items, mapping, node_name, shown_field, unix_s

DEFAULT_ANNOTATION = "sojourn/drain-by"
N_DRAINS_MAX = 100_000
"""How many nodes may have a deadline."""


class Drains:
    """Deadlines, unix seconds, by node name: read from node objects, whose `annotation` holds an RFC 3339 time.

    >>> drains = Drains("sojourn/drain-by")
    >>> drains.told({"metadata": {"name": "n1", "annotations": {"sojourn/drain-by": "1970-01-01T01:00:00Z"}}})
    {'nodes': 1, 'draining': 1}
    >>> drains.deadline_s("n1"), drains.deadline_s("n2")
    (3600, None)
    """

    def __init__(self, annotation: str) -> None:
        self._annotation = annotation
        self._deadlines: dict[str, int] = {}
        self.n_unreadable = 0

    def told(self, document: Any) -> dict[str, int]:
        """Take in a Node, or a list of all nodes, which forgets the others; ValueError (nothing taken in) if wrong."""
        listed = listed_items(document)
        nodes = [document] if listed is None else listed
        found = {node_name(node): self._read(node) for node in nodes}
        others = self._deadlines if listed is None else {}
        kept = {name: time_s for name, time_s in others.items() if name not in found}
        deadlines = kept | {name: time_s for name, time_s in found.items() if time_s is not None}
        if len(deadlines) > N_DRAINS_MAX:
            raise ValueError(f"nodes with a deadline must be at most {N_DRAINS_MAX}, got {len(deadlines)}")
        self._deadlines = deadlines
        return {"nodes": len(found), "draining": sum(time_s is not None for time_s in found.values())}

    def deadline_s(self, name: str) -> int | None:
        """The deadline that was reported for a node, unix seconds."""
        return self._deadlines.get(name)

    def deadline_of(self, node: Any) -> int | None:
        """The deadline in a node object; one that cannot be read is counted and passes as none."""
        try:
            return self._read(node)
        except ValueError:
            self.n_unreadable += 1
            return None

    def _read(self, node: Any) -> int | None:
        time = mapping(node, "metadata", "annotations").get(self._annotation)
        if time is None:
            return None
        try:
            return unix_s(time)
        except ValueError as error:
            name = shown_field(node_name(node))
            raise ValueError(f"annotation {self._annotation} of node {name}: {error}") from error
