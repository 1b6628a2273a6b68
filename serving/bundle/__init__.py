"""The bundle as files: its schema, its arrays, checked reading and publishing. Data only; loading runs no code.

May import: `curves` and what lies below it.
"""

from sojourn.serving.bundle.array_archive import read_arrays, write_arrays
from sojourn.serving.bundle.bundle import FILES, Bundle, check_files, load_bundle
from sojourn.serving.bundle.folder_files import FolderFiles
from sojourn.serving.bundle.refresh_model import REFRESH_ARRAY, RefreshModel
from sojourn.serving.bundle.schema import FORMAT_VERSION, LOOKUP_ARRAYS, Schema
from sojourn.serving.bundle.vouched_files import MANIFEST, VouchedFiles, manifest_of, version_of

__all__ = [
    "FILES", "FORMAT_VERSION", "LOOKUP_ARRAYS", "MANIFEST", "REFRESH_ARRAY", "Bundle", "FolderFiles", "RefreshModel",
    "Schema", "VouchedFiles", "check_files", "load_bundle", "manifest_of", "read_arrays", "version_of", "write_arrays",
]  # fmt: skip
