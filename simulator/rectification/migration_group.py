"""What a plan is made of: requests that leave a host together, and where each goes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MigrationGroup:
    """Requests that leave a host together: moving only some of them would be of little use.

    source: the host. requests: their positions in the view, in the order in which they go. targets: host of each.
    gain_s: host-seconds that all moves together are expected to free, less what they cost; NaN where the planner does
        not weigh them. Higher is better.
    """

    source: int
    requests: tuple[int, ...]
    targets: tuple[int, ...]
    gain_s: float

    def __len__(self) -> int:
        """Moves."""
        return len(self.requests)
