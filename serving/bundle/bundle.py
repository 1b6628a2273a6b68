"""The bundle: a folder of data that crosses from training to serving, each file with its hash.

`model.onnx` the forest; `schema.json` what its inputs and scores mean; `history.npz` the owner history at the
end of the trace, test window included, the lookup table of a model that has one, and the model that predicts running
requests anew where there is one (plain arrays, never pickle);
`MANIFEST.json` the sha256 of each.
Loading runs no code.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sojourn.serving.bundle.array_archive import read_arrays
from sojourn.serving.bundle.refresh_model import RefreshModel
from sojourn.serving.bundle.schema import FORMAT_VERSION, Schema
from sojourn.serving.bundle.vouched_files import MANIFEST, VouchedFiles, version_of
from sojourn.serving.checks import folder_path
from sojourn.serving.errors import BundleError
from sojourn.serving.inputs import HistoryState

N_BYTES_MAX = {"model.onnx": 1 << 27, "schema.json": 1 << 23, "history.npz": 1 << 29}
"""The files beside the manifest, and the largest that each may be."""
FILES = tuple(N_BYTES_MAX)
_FILES = VouchedFiles("bundle", FORMAT_VERSION, N_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class Bundle:
    """A verified bundle in memory. version: the first 12 hex digits of the manifest's sha256.

    refresh: what predicts running requests anew; None where nothing is gained by it.
    """

    schema: Schema
    model: bytes
    history: HistoryState
    version: str
    refresh: RefreshModel | None = None


def load_bundle(folder: str | Path) -> Bundle:
    """Read and verify a bundle folder; one that is replaced meanwhile is read as it was before or is after.

    Raises BundleError naming the file and the reason: missing, wrong hash, wrong version, truncated, malformed.
    """
    contents = _FILES.read(folder_path(folder, "folder"))
    document = _FILES.document(contents["schema.json"], "schema.json")
    try:
        arrays = read_arrays(contents["history.npz"])
    except ValueError as error:
        raise BundleError(f"history.npz must hold the schema's history, got ValueError: {error}") from error
    schema = Schema.from_document(document, arrays)
    try:
        history = HistoryState.from_arrays(schema.encoder.history, arrays)
    except Exception as error:  # whatever arrays that do not fit make numpy raise
        raise BundleError(f"history.npz must hold the schema's history, got {type(error).__name__}: {error}") from error
    return Bundle(schema, contents["model.onnx"], history, version_of(contents[MANIFEST]),
                  RefreshModel.from_document(document, arrays))


def check_files(folder: str | Path) -> str:
    """The version of a bundle's folder whose files are those that its manifest vouches for; BundleError if not."""
    return _FILES.version(Path(folder))
