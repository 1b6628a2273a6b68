"""The windows of a run: what families are fitted on, chosen on and judged on."""

from __future__ import annotations

from sojourn.features.creation import FeatureRows
from sojourn.features.split import Split, split_by_time


def windows(rows: FeatureRows, test_share: float, valid_share: float, from_s: int = 0,
            test_from_s: int | None = None) -> Split:
    """The windows of these shares of the requests; ValueError where one that families are fitted or chosen on has no
    observed end. from_s, test_from_s: where the training and the test window begin, see `split_by_time`."""
    split = split_by_time(rows, test_share, valid_share, from_s=from_s, test_from_s=test_from_s)
    for name, seen, cut_s in (("train", split.train, split.valid_from_s), ("valid", split.valid, split.test_from_s)):
        if not seen.is_event.any():
            raise ValueError(f"the {name} window must hold at least one observed end, got {len(seen):,} requests that "
                             f"all still ran at its end, second {cut_s}")
    return split
