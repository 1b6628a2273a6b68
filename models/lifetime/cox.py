"""`cox`: Cox's proportional hazards (scikit-survival), one baseline hazard scaled by the features."""

from __future__ import annotations

from typing import Any

from sojourn.models.lifetime.contract import FitSettings
from sojourn.models.lifetime.family import Family
from sojourn.models.lifetime.survival import SurvivalModel

RIDGE = 1e-3
"""Ridge penalty per fitted row: keeps the owner's history features, which are nearly collinear, apart."""


class CoxModel(SurvivalModel):
    """Cox, J. R. Stat. Soc. B 34 (1972), with Breslow's baseline.

    Features are standardised, skewed ones after log(1 + x), missing values are training medians. At most 20,000
    rows. scikit-survival's estimator does not know delayed entry: rows with an entry age above 0 are left out.
    """

    name = "cox"
    n_rows_max = 20_000

    def estimator(self, n_rows: int, settings: FitSettings) -> Any:
        from sksurv.linear_model import CoxPHSurvivalAnalysis

        ridge: Any = RIDGE * n_rows  # its default, an int, is read as its type
        return CoxPHSurvivalAnalysis(alpha=ridge)


COX = Family(CoxModel, "Cox's proportional hazards, small ridge; at most 20,000 rows",
             "whole distribution", complexity=4, is_baseline=True)
