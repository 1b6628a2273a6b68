"""Learning: lifetime families, measures, ONNX export, bundle writing."""

from sojourn.models.bundle_writer import write_bundle
from sojourn.models.lifetime import LIFETIME_MODELS, FitSettings, LifetimeModel
from sojourn.models.measures import score_model
from sojourn.models.onnx_export import to_onnx

__all__ = ["LIFETIME_MODELS", "FitSettings", "LifetimeModel", "score_model", "to_onnx", "write_bundle"]
