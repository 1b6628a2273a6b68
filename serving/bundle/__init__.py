"""The bundle as files: its schema, its arrays, checked reading and publishing. Loading runs no code.

May import: `curves` and what lies below it.
"""

from sojourn.serving.bundle.bundle import (
    FILES,
    HABITS,
    MANIFEST,
    REFRESH_ARRAY,
    Bundle,
    FolderFiles,
    HabitSection,
    RefreshModel,
    VouchedFiles,
    check_files,
    example_bundle,
    load_bundle,
    manifest_of,
    read_arrays,
    version_of,
    write_arrays,
)
from sojourn.serving.bundle.schema import FORMAT_VERSION, LOOKUP_ARRAYS, Schema

__all__ = [
    "FILES", "FORMAT_VERSION", "HABITS", "LOOKUP_ARRAYS", "MANIFEST", "REFRESH_ARRAY", "Bundle", "FolderFiles",
    "HabitSection", "RefreshModel", "Schema", "VouchedFiles", "check_files", "example_bundle", "load_bundle",
    "manifest_of", "read_arrays", "version_of", "write_arrays",
]  # fmt: skip
