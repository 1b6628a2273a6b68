"""What a scheduler imports: bundles, predictor, lifetime curves one by one and in a pool, exits of hosts.

>>> from sojourn.serving import BundleError, Predictor
>>> try:
...     Predictor.load("no/such/bundle")
... except BundleError as error:
...     print(error)
no/such/bundle/MANIFEST.json must be a readable file of the bundle, got No such file or directory
"""

from sojourn.serving.answers import Lifetime
from sojourn.serving.bundle import Bundle, example_bundle, load_bundle
from sojourn.serving.curves import remaining_at
from sojourn.serving.errors import BundleError, SnapshotError
from sojourn.serving.live import CurvePool, HostExits, remaining_of, warm
from sojourn.serving.predictor import Predictor
from sojourn.serving.prometheus import prometheus_text
from sojourn.serving.usage import UsageAnswer, UsagePredictor
from sojourn.serving.watch import Watch, WatchEvent

__all__ = ["Bundle", "BundleError", "CurvePool", "HostExits", "Lifetime", "Predictor", "SnapshotError",
           "UsageAnswer", "UsagePredictor", "Watch", "WatchEvent", "example_bundle", "load_bundle",
           "prometheus_text", "remaining_at", "remaining_of", "warm"]
