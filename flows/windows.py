"""The windows of a run: what families are fitted on, chosen on and judged on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.features.creation import FeatureRows
from sojourn.features.split import Split, split_by_time

if TYPE_CHECKING:
    from sojourn.flows.config import RetrainConfig


def windows(config: RetrainConfig, rows: FeatureRows) -> Split:
    """The configured windows; ValueError where one that families are fitted or chosen on has no observed end."""
    split = split_by_time(rows, config.test_share, config.valid_share)
    for name, seen, cut_s in (("train", split.train, split.valid_from_s), ("valid", split.valid, split.test_from_s)):
        if not seen.is_event.any():
            raise ValueError(f"the {name} window must hold at least one observed end, got {len(seen):,} requests that "
                             f"all still ran at its end, second {cut_s}")
    return split
