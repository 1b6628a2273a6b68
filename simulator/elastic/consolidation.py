"""When hosts of an elastic pool are emptied and turned off: settings, with the figures of today's autoscalers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from sojourn.simulator.whole_numbers import is_whole

Mode = Literal["none", "empty", "timer", "regret"]
Moving = Literal["live", "restart"]


@dataclass(frozen=True, slots=True)
class Consolidation:
    """Which hosts of an elastic pool are turned off, and how requests leave them.

    mode: `none` keeps every host that was opened; `empty` releases hosts that hold nothing; `timer` also empties a host
        that has been below `utilisation_max` for `after_s`, if all its requests fit on other hosts in use; `regret`
        does so only if it is predicted to pay as well.
    after_s: how long a host must have been below `utilisation_max` before it is looked at (600 s: the cluster
        autoscaler's scale-down-unneeded-time; Karpenter's consolidateAfter).
    utilisation_max: the largest share of any resource in use below which a host is looked at (0.5: the cluster
        autoscaler's scale-down-utilization-threshold); above 1 = any host.
    is_reset_by_events: whether each arrival or departure on a host starts `after_s` again, as Karpenter does; else it
        runs on as long as the host stays below `utilisation_max`.
    recheck_s: after how long a host that was kept is looked at again.
    moving: `live` migrates a request, which holds room on both hosts for `move_s` (1,200 s: LAVA, section 4.4);
        `restart` ends it and starts it over on the other host at once, so that what it has run for is lost.
    move_cost_s: seconds of a host that one move counts for in `regret`, besides what it costs in time and lost work.
    room_weight: how much of the room that a request which starts over takes on its target, until it leaves, counts as
        a cost in `regret`, 0..1: 0 where nobody else would have used that room, 1 where a host had to be opened for
        who would. Not read for live moves: how soon the room is needed limits what they save.
    trust: what share of the predicted saving counts in `regret`, 0..1; for live moves also of the predicted extension
        of other hosts. The latest of several uncertain exits is predicted too late.

    >>> Consolidation("timer", after_s=-1)
    Traceback (most recent call last):
    ValueError: after_s must be a whole number, 0 or more, got -1
    """

    mode: Mode = "timer"
    after_s: int = 600
    utilisation_max: float = 0.5
    is_reset_by_events: bool = False
    recheck_s: int = 60
    moving: Moving = "live"
    move_s: int = 1_200
    move_cost_s: int = 0
    room_weight: float = 1.0
    trust: float = 1.0

    def __post_init__(self) -> None:
        for name, value, known in (("mode", self.mode, get_args(Mode)), ("moving", self.moving, get_args(Moving))):
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
        for name, seconds, least in (("after_s", self.after_s, 0), ("recheck_s", self.recheck_s, 1),
                                     ("move_s", self.move_s, 1), ("move_cost_s", self.move_cost_s, 0)):
            if not is_whole(seconds, least):
                raise ValueError(f"{name} must be a whole number, {least} or more, got {seconds!r}")
        for name, share in (("room_weight", self.room_weight), ("trust", self.trust)):
            if not 0.0 <= share <= 1.0:
                raise ValueError(f"{name} must be in 0..1, got {share!r}")
        if not 0.0 < self.utilisation_max < float("inf"):
            raise ValueError(f"utilisation_max must be finite and above 0, got {self.utilisation_max!r}")
