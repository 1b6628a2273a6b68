"""`gbsa`: gradient boosting of Cox's partial likelihood by small trees (scikit-survival)."""

from __future__ import annotations

from typing import Any

from sojourn.models.lifetime.contract import FitSettings
from sojourn.models.lifetime.family import Family
from sojourn.models.lifetime.survival import SurvivalModel


class BoostedCoxModel(SurvivalModel):
    """Ridgeway, Computing Science and Statistics 31 (1999), on at most 2,000 rows.

    Each round sees half of the rows and a third of the features. The time of a fit grows with the square of the
    rows. Delayed entry is not known to it: rows with an entry age above 0 are left out.
    """

    name = "gbsa"
    n_rows_max = 2_000

    def estimator(self, n_rows: int, settings: FitSettings) -> Any:
        from sksurv.ensemble import GradientBoostingSurvivalAnalysis

        return GradientBoostingSurvivalAnalysis(n_estimators=60, learning_rate=0.15, max_depth=4, subsample=0.5,
                                                max_features=0.33, min_samples_leaf=10, random_state=settings.seed)


GBSA = Family(BoostedCoxModel, "gradient boosting of Cox's likelihood, 60 trees; at most 2,000 rows",
              "whole distribution", complexity=5)
