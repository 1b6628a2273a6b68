"""`gbdt-landmark`: LightGBM on log10 remaining seconds at fixed uptimes, among those still alive."""

from __future__ import annotations

from sojourn.features.augment import augment_landmarks
from sojourn.features.split import Examples
from sojourn.models.lifetime.boosting import DEFAULTS, Rows
from sojourn.models.lifetime.family import Family
from sojourn.models.lifetime.gbdt import UptimeModel, uptime_rows
from sojourn.models.lifetime.search_space import TREES, SearchSpace


class LandmarkModel(UptimeModel):
    """As `gbdt-uptime`, but its rows stand at the same uptimes for all, so that an uptime carries no label.

    Every example still alive at a landmark is asked there, as a scheduler would ask. Between two landmarks the
    answer is that of the nearer one, since the trees have seen no other uptimes.
    """

    name = "gbdt-landmark"

    def _rows(self, examples: Examples, seed: int) -> tuple[Rows, float]:
        n_rows = len(augment_landmarks(examples.lifetime_s, examples.entry_s)[0])
        return uptime_rows(examples, augment_landmarks, max(n_rows / max(len(examples), 1), 1e-9), seed)


LANDMARK = Family(LandmarkModel,
                  "LightGBM at fixed uptimes (0, 1 min, 10 min, 1 h, 6 h, 1 d, ...) among those still alive",
                  "through its residuals", complexity=5,
                  search=SearchSpace(TREES, {name: DEFAULTS[name] for name in TREES}, lambda _: LandmarkModel()))
