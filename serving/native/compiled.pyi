"""What Python calls of the extension; see its C."""

from collections.abc import Callable, Sequence
from typing import Any

INTERFACE: int
TABLES: str

def use(checked_seconds: Callable[[Any, str], float], checked_share: Callable[[Any], float], /) -> None: ...

class Axis:
    first: tuple[float, ...]
    second: tuple[float, ...]
    smearing: float
    def __new__(cls, first: tuple[float, ...], second: tuple[float, ...], smearing: float = 1.0, /) -> Axis: ...

class Numbers:
    def __new__(cls, axis: Axis, numbers: Any, has_own_edges: bool = False, /) -> Numbers: ...

class Hazard(Numbers):
    axis: Axis
    edges: Sequence[float]

class Steps(Numbers):
    axis: Axis
