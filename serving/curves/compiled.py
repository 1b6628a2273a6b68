"""The compiled loops of serving if numba is installed (`sojourn[fast]`), else None."""

from __future__ import annotations

from typing import Any

try:
    from sojourn.serving.curves import _kernels as _found
except ImportError:
    _found = None  # type: ignore[assignment]

KERNELS: Any = _found

IS_COMPILED = KERNELS is not None
"""True if numba is installed; the compiled walk then replaces ONNX Runtime."""
