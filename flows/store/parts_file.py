"""Where a store keeps what was read of a source that grows: a file a source, which says what the source once held."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path

from sojourn.flows.settings.trace import TraceSource

PARTS = "parts"
"""The folder in a store."""
_FORM = re.compile(r".+-[0-9a-f]{12}\.parquet")
_DAY_S = 86_400.0


def parts_file(store: Path, source: TraceSource) -> Path | None:
    """The file of a source in a store; None where it has none, as the synthetic trace."""
    if source.file is None:
        return None
    key = hashlib.sha256(json.dumps([str(source.file.absolute()), source.reader]).encode()).hexdigest()
    return store / PARTS / f"{source.name}-{key[:12]}.parquet"


def note_read(file: Path | None) -> None:
    """The source of this file was read now, also where nothing was new and the file stays as it is."""
    if file is not None and file.is_file():
        os.utime(file)


def unread_files(store: Path, days: float) -> Sequence[Path]:
    """Files of sources that were not read within so many days; nothing that Sojourn did not make."""
    since_s = time.time() - days * _DAY_S
    return [path for path in sorted((store / PARTS).glob("[!.]*")) if _FORM.fullmatch(path.name)
            and not path.is_symlink() and path.is_file() and path.stat().st_mtime <= since_s]
