"""From one request to its curve by a bundle's model, in one compiled call if that is possible, and why.

`Served` is all that belongs to one version of the model, `Lifetime` what a scheduler holds of a request.

May import: `bundle` and what lies below it.
"""

from sojourn.serving.answers.attribution import ARRIVAL, Attribution, attribute, background_of
from sojourn.serving.answers.curve_builder import CurveBuilder, FirstAnswer, Refresher
from sojourn.serving.answers.served import REACH_S, Current, Lifetime, RefreshedLifetime, Served

__all__ = [
    "ARRIVAL", "REACH_S", "Attribution", "Current", "CurveBuilder", "FirstAnswer", "Lifetime", "RefreshedLifetime",
    "Refresher", "Served", "attribute", "background_of",
]  # fmt: skip
