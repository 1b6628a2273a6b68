"""The compiled loops of serving where numba is installed (`sojourn[fast]`), else nothing."""

from __future__ import annotations

from typing import Any

try:
    from sojourn.serving.curves import _kernels as _found
except ImportError:
    _found = None  # type: ignore[assignment]

KERNELS: Any = _found
"""The module of compiled loops; None without numba."""
IS_COMPILED = KERNELS is not None
"""True where numba is installed and the compiled walk is used instead of ONNX Runtime."""
