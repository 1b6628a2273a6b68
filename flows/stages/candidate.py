"""The candidate's bundle: written once, into a folder of its run; from then on known by its hash."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sojourn import __version__
from sojourn.flows.stages.build_features import Features
from sojourn.flows.stages.ingest import Ingested
from sojourn.flows.stages.train import Training
from sojourn.flows.versions.bundle_bytes import CANDIDATES, BundleBytes
from sojourn.models.bundle_writer import given_shares, training_reference, write_bundle
from sojourn.models.importance import background_rows
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.bundle import Bundle, load_bundle


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is judged. bundle: as loaded from the folder; builder: of its curves; sha256: of its manifest."""

    folder: Path
    bundle: Bundle
    builder: CurveBuilder
    sha256: str


def candidate_folder(store: Path, name: str, run_id: str) -> Path:
    """Where a run's candidate lies."""
    return store / CANDIDATES / name / run_id


def write_candidate(folder: Path, ingested: Ingested, content_hash: str, features: Features,
                    training: Training) -> Candidate:
    """Write the candidate's bundle into a folder, its run's, and load it as a scheduler would.

    content_hash: of the trace, see `flows.stages.ingest.content_hash`.
    """
    candidate = training.of(training.candidate)
    exported = candidate.model.export()
    if exported is None:
        raise ValueError(f"the candidate must be servable, got {candidate.family}")
    split = training.split
    past = features.trace.requests.iloc[features.rows.idx_request[split.past.idx_row]]
    about = {
        "training": {
            "trace": ingested.name, "data_hash": ingested.data_hash, "content_hash": content_hash,
            "to_s": split.test_from_s, "n_requests": len(split.past), "history_to_s": features.trace.horizon_s,
            "threshold_s": training.threshold_s,
            "given_shares": given_shares(past, features.encoder.columns()),
            **({"start_unix_s": features.trace.begin_s} if features.trace.is_dated else {}),
        },
        "metrics": candidate.validation,
        "background": background_rows(candidate.model, split.past, exported.encoder(features.encoder)),
        "reference": training_reference(split.past, features.encoder.feature_names()),
        "code_version": __version__,
    }  # fmt: skip
    write_bundle(folder, candidate.family, exported, features.encoder, features.history, about,
                 training.refreshing.refresh.export())
    bundle, sha256 = load_bundle(folder), BundleBytes.read(folder).sha256
    if not sha256.startswith(bundle.version):
        raise ValueError(f"{folder} must stay as it was written, got another bundle there")
    return Candidate(folder, bundle, CurveBuilder(bundle.schema, bundle.model), sha256)
