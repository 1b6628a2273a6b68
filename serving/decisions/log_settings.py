"""How a decision log is kept: how often it is written, how large its files are, and for how long they stay."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sojourn.serving.errors import shown

_DAY_S = 86_400
KEY_BYTES_MIN, KEY_BYTES_MAX = 16, 64


@dataclass(frozen=True, slots=True)
class LogSettings:
    """owner_key: 16 to 64 bytes, kept by the user and never written: owners are then logged by a keyed hash (BLAKE2b).

    flush_s: seconds between two writes; a killed process loses what came after the last one. file_mib, file_s: a file
    that has grown or lasted so long is closed and another begun. keep_mib, keep_s: the oldest files of the folder go
    once all of them together are larger, or once they were last written so long ago.

    >>> LogSettings(flush_s=0.0)
    Traceback (most recent call last):
    ValueError: flush_s must be finite and above 0, got 0.0
    """

    owner_key: bytes | None = None
    flush_s: float = 1.0
    file_mib: float = 64.0
    file_s: float = _DAY_S
    keep_mib: float = 16_384.0
    keep_s: float = 400.0 * _DAY_S

    def __post_init__(self) -> None:
        key = self.owner_key
        if key is not None and not (isinstance(key, bytes) and KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX):
            got = f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__  # never the key itself
            raise ValueError(f"owner_key must be {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes, got {got}")
        for name in ("flush_s", "file_mib", "file_s", "keep_mib", "keep_s"):
            value = getattr(self, name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not 0.0 < value < math.inf:
                raise ValueError(f"{name} must be finite and above 0, got {shown(value)}")
        if self.file_mib > self.keep_mib:
            raise ValueError(f"file_mib must be at most keep_mib {self.keep_mib!r}, got {self.file_mib!r}")
