"""Cells of text as quantities: numbers, durations, sizes of memory, CPU cores; masks for other cells."""
# pyarrow.compute makes its functions when it is imported
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

NO_VALUE = frozenset({"", "-", "--", "---", "none", "null", "(null)", "nil", "nan", "nat", "n/a", "#n/a", "na", "<na>",
                      "\\n", "unknown", "undefined", "<none>", "<unknown>", "<unset>"})
"""Cells for a missing value, in lower case."""
NO_LIMIT = NO_VALUE | {"unlimited", "infinite", "infinity", "partition_limit", "not_set"}
"""Cells for a missing limit."""
MAX_NUMBER = 1e15
"""Above this, float64 cannot distinguish all integers, with a margin."""

GIB = 1 << 30
SIZE_UNITS = MappingProxyType({
    "B": 1 / GIB, "KiB": 1 / (1 << 20), "MiB": 1 / (1 << 10), "GiB": 1.0, "TiB": 1024.0,
    "kB": 1e3 / GIB, "MB": 1e6 / GIB, "GB": 1e9 / GIB, "TB": 1e12 / GIB,
})  # fmt: skip
"""Unit of plain numbers -> GiB."""
CPU_UNITS = MappingProxyType({"cores": 1.0, "millicores": 1e3, "percent": 1e2})
"""Unit of plain numbers -> number of units of one core."""
TIME_UNITS = MappingProxyType({"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0})
"""Unit of plain numbers -> seconds."""

_NULL = pa.scalar(None, pa.string())
_NUMBER = r"[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?|\.[0-9]+(?:e[+-]?[0-9]+)?"
_SIGNED = rf"^[+-]?(?:{_NUMBER})$"
_PART = r"[0-9]+(?:\.[0-9]+)?"
_SPACES = "[\u00a0\u202f ]"
_GROUPS = r"^([+-]?[0-9]{1,3})((?:[,'_][0-9]{3})+)(\.[0-9]+)?$"
_CLOCK = (r"^(?:(?P<d>[0-9]{1,6})(?:-| days?,? ))?(?P<h>[0-9]{1,6}):(?P<m>[0-9]{2})"
          r"(?::(?P<s>[0-9]{2}(?:\.[0-9]+)?))?$")
_MINUTES = r"^(?P<m>[0-9]{1,7}):(?P<s>[0-9]{2}(?:\.[0-9]+)?)$"
_DAYS_HOURS = r"^(?P<d>[0-9]{1,6})-(?P<h>[0-9]{1,2})$"
_WORDS = ("^" + "".join(rf"(?:(?P<{unit}>{_PART}) ?(?:{words}),? ?)?" for unit, words in (
    ("w", "w|weeks?"), ("d", "d|days?"), ("h", "h|hrs?|hours?"), ("m", "m|mins?|minutes?"), ("s", "s|secs?|seconds?"),
    ("ms", "ms|milliseconds?"), ("us", "us|\u00b5s|\u03bcs|microseconds?"), ("ns", "ns|nanoseconds?"))) + "$")
_ISO = (rf"^p(?:(?P<w>{_PART})w)?(?:(?P<d>{_PART})d)?(?:t(?:(?P<h>{_PART})h)?(?:(?P<m>{_PART})m)?"
        rf"(?:(?P<s>{_PART})s)?)?$")
_SECONDS = MappingProxyType({"w": 604_800.0, "d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6,
                             "ns": 1e-9})
_SIZE = rf"^(?P<n>{_NUMBER}) ?(?P<p>[kmgtpe]?)(?P<i>i?)(?:b|bytes?)?$"
_QUANTITY = rf"^(?P<n>{_NUMBER}) ?(?P<p>[numkKMGTPE]?)(?P<i>i?)$"
_BINARY = MappingProxyType({"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5, "e": 6})
_DECIMAL = MappingProxyType({"n": -3, "u": -2, "m": -1, "": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6})
_DOTTED = r"^[+-]?[1-9][0-9]{0,2}(?:\.[0-9]{3})+(?: ?[a-z]+)?$"
_CPU = rf"^(?P<n>{_NUMBER}) ?(?P<p>[num]?) ?(?:cores?|v?cpus?)?$"


@dataclass(frozen=True, slots=True)
class Cells:
    """One column of a block. values: float64, shape (n,), NaN where there is none. is_missing:
    bool, shape (n,), the cell means "no value". is_bad: the cell is something else.
    """

    values: np.ndarray
    is_missing: np.ndarray
    is_bad: np.ndarray


def is_missing(text: Sequence[str] | np.ndarray, words: frozenset[str] = NO_VALUE) -> np.ndarray:
    """True where a cell means "no value", bool, shape (n,); ignores case and surrounding spaces.

    >>> is_missing(["NULL", " ", "Unknown", "0", "a"]).tolist()
    [True, True, True, False, False]
    """
    return _is_in(_lower(texts(text)), words)


def is_comma_decimal(text: Sequence[str] | np.ndarray) -> bool:
    """Whether the numbers of a column have a decimal comma: some comma cannot separate thousands,
    and no number has a decimal point.

    >>> is_comma_decimal(["1,5", "2"]), is_comma_decimal(["1,500", "2.5"]), is_comma_decimal(["1,500"])
    (True, False, False)
    """
    cells = _lower(texts(text))
    commas = _mask(cells, r"^[+-]?(?:[0-9]+,(?:[0-9]{1,2}|[0-9]{4,})|0,[0-9]+|[0-9.]+\.[0-9]{3},[0-9]+)(?: ?[a-z]+)?$")
    return bool(commas.any()) and not has_decimal_points(text)


def has_decimal_points(text: Sequence[str] | np.ndarray) -> bool:
    """Whether a column has a number whose point cannot separate thousands.

    >>> has_decimal_points(["1.5"]), has_decimal_points(["0.125"]), has_decimal_points(["1.500", "2"])
    (True, True, False)
    """
    cells = _lower(texts(text))
    return bool((_mask(cells, r"^[+-]?[0-9]*\.[0-9]+(?: ?[a-z]+)?$") & ~_mask(cells, _DOTTED)).any())


def may_be_dotted(text: Sequence[str] | np.ndarray) -> bool:
    """Whether all points of a column may separate thousands: three digits follow each, and no
    number without a point has four.

    >>> may_be_dotted(["512", "1.024"]), may_be_dotted(["1.024", "2.5"]), may_be_dotted(["1.024", "2048"])
    (True, False, False)
    """
    cells = _lower(texts(text))
    contradictions = _mask(cells, r"\.") & ~_mask(cells, _DOTTED) | _mask(cells, r"^[+-]?[0-9]{4,}(?: ?[a-z]+)?$")
    return bool(_mask(cells, _DOTTED).any()) and not bool(contradictions.any())


def has_two_points(text: Sequence[str] | np.ndarray) -> bool:
    """Whether a column has a number such as 1.234.567, whose points must separate thousands.

    >>> has_two_points(["1.234.567"]), has_two_points(["1.234"])
    (True, False)
    """
    return bool(_mask(_lower(texts(text)), r"^[+-]?[1-9][0-9]{0,2}(?:\.[0-9]{3}){2,}(?: ?[a-z]+)?$").any())


def numbers(text: Sequence[str] | np.ndarray, *, is_comma: bool = False, largest: float = MAX_NUMBER) -> Cells:
    """Plain numbers of at most `largest` in size; a comma, an apostrophe or a space may separate
    thousands. is_comma: the decimal sign is a comma, and a point separates thousands.

    >>> cells = numbers(["2", "1,234.5", "1 000", "", "two", "inf"])
    >>> cells.values.tolist()
    [2.0, 1234.5, 1000.0, nan, nan, nan]
    >>> cells.is_missing.tolist(), cells.is_bad.tolist()
    ([False, False, False, True, False, False], [False, False, False, False, True, True])
    """
    cells = _lower(texts(text))
    return _done(_numbers(cells, is_comma, largest), _is_in(cells, NO_VALUE))


A_DURATION = "a time span of 0 or more, as 90 or 1-02:03:04"
"""The rule for cells of durations, in messages."""


def durations_s(text: Sequence[str] | np.ndarray, *, unit_s: float = 1.0, pair: str = "", is_comma: bool = False,
                words: frozenset[str] = NO_LIMIT) -> Cells:
    """Durations, seconds: `2-03:04:05`, `2 days 03:04:05`, `03:04:05`, `1h30m`, `90 min`, `PT1H`, or plain numbers.

    unit_s: of plain numbers. pair: the meaning of `03:04`, `hh:mm` or `mm:ss`; "" = bad, since it
    is ambiguous. With `mm:ss`, as in Slurm, `2-03` is two days and three hours. words: cells for a
    missing value. Bad: below 0, minutes or seconds above 59 after a larger part, months and years.

    >>> durations_s(["2-03:04:05", "03:04:05", "90", "1h30m", "PT1H", "1 day", "2 days, 1:00:00"]).values.tolist()
    [183845.0, 11045.0, 90.0, 5400.0, 3600.0, 86400.0, 176400.0]
    >>> durations_s(["03:04", "-5", "1:99:00", "P1M", "UNLIMITED"]).is_bad.tolist()
    [True, True, True, True, False]
    >>> durations_s(["03:04", "2-03", "90"], unit_s=60, pair="mm:ss").values.tolist()
    [184.0, 183600.0, 5400.0]
    """
    cells = _lower(texts(text))
    values = _numbers(cells, is_comma) * unit_s
    values[values < 0] = np.nan
    missing = _is_in(cells, words)
    patterns = (_CLOCK, _WORDS, _ISO) if pair != "mm:ss" else (_MINUTES, _DAYS_HOURS, _CLOCK, _WORDS, _ISO)
    for pattern in patterns:
        rest = np.flatnonzero(np.isnan(values) & ~missing)
        if not len(rest):
            break
        parts = _parts(cells.take(pa.array(rest)), pattern)
        total = sum(_SECONDS[unit] * np.nan_to_num(part) for unit, part in parts.items())
        is_found = ~np.logical_and.reduce([np.isnan(part) for part in parts.values()])
        if pattern == _CLOCK:
            is_found &= (parts["m"] < 60) & ~(parts["s"] >= 60) & ~(parts["h"] >= np.where(np.isnan(parts["d"]),
                                                                                            np.inf, 24))
            if pair != "hh:mm":
                is_found &= ~(np.isnan(parts["d"]) & np.isnan(parts["s"]))
        elif pattern in (_MINUTES, _DAYS_HOURS):
            is_found &= (parts["s"] < 60) if "s" in parts else (parts["h"] < 24)
        values[rest] = np.where(is_found, total, np.nan)
    return _done(values, missing)


def sizes_gib(text: Sequence[str] | np.ndarray, *, unit: str = "GiB", is_quantity: bool = False,
              is_comma: bool = False) -> Cells:
    """Sizes of memory, GiB: `4Gi`, `512Mi`, `4G`, `2048 MB`, or plain numbers of `unit`, a key of SIZE_UNITS.

    G and GB are GiB, as in schedulers and clouds. is_quantity: they are powers of ten, as in
    Kubernetes; there, m is a thousandth of a byte. Bad: below 0.

    >>> sizes_gib(["4Gi", "512Mi", "4G", "2048 MB", "3"]).values.tolist()
    [4.0, 0.5, 4.0, 2.0, 3.0]
    >>> sizes_gib(["4G", "1024Mi"], is_quantity=True).values.round(3).tolist()
    [3.725, 1.0]
    >>> sizes_gib(["2048", "-1", "big"], unit="MiB").is_bad.tolist()
    [False, True, True]
    """
    plain = texts(text)
    cells = _lower(plain)
    values = _numbers(cells, is_comma) * SIZE_UNITS[unit]
    missing = _is_in(cells, NO_VALUE)
    rest = np.flatnonzero(np.isnan(values) & ~missing)
    if len(rest):
        of = _pointed(pc.utf8_trim_whitespace(plain) if is_quantity else cells, is_comma)
        fields = pc.extract_regex(of.take(pa.array(rest)), _QUANTITY if is_quantity else _SIZE)
        prefixes, is_binary = _field(fields, "p"), _field(fields, "i") == "i"
        powers = _DECIMAL if is_quantity else _BINARY
        power = np.array([powers.get(prefix, 0) for prefix in prefixes], float)
        binary = np.array([_BINARY.get(prefix.lower(), 0) for prefix in prefixes], float)
        factor = np.where(is_binary | (not is_quantity), 1024.0 ** binary, 1000.0 ** power)
        is_odd = is_binary & (binary == 0)
        values[rest] = np.where(is_odd, np.nan, _group(fields, "n") * factor / GIB)
    values[values < 0] = np.nan
    return _done(values, missing)


def cpu_cores(text: Sequence[str] | np.ndarray, *, unit: str = "cores", is_comma: bool = False) -> Cells:
    """CPU cores: `500m`, `2`, `2 vCPU`; plain numbers of `unit`, a key of CPU_UNITS. Bad: below 0.

    >>> cpu_cores(["500m", "2", "2 vCPU", "-1"]).values.tolist()
    [0.5, 2.0, 2.0, nan]
    >>> cpu_cores(["1500"], unit="millicores").values.tolist()
    [1.5]
    """
    cells = _lower(texts(text))
    values = _numbers(cells, is_comma) / CPU_UNITS[unit]
    missing = _is_in(cells, NO_VALUE)
    rest = np.flatnonzero(np.isnan(values) & ~missing)
    if len(rest):
        fields = pc.extract_regex(_pointed(cells, is_comma).take(pa.array(rest)), _CPU)
        per_core = np.array([{"m": 1e3, "u": 1e6, "n": 1e9}.get(prefix, 1.0) for prefix in _field(fields, "p")])
        values[rest] = _group(fields, "n") / per_core
    values[values < 0] = np.nan
    return _done(values, missing)


def texts(values: Sequence[str] | np.ndarray | pa.Array) -> pa.Array:
    """Cells as an Arrow array of strings; invalid Unicode becomes a question mark."""
    if isinstance(values, pa.Array):
        return values
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        return pa.array([value.encode("utf-8", "replace").decode() for value in values], pa.string())


def _lower(cells: pa.Array) -> pa.Array:
    return pc.utf8_lower(pc.utf8_trim_whitespace(cells))


def _is_in(cells: pa.Array, words: frozenset[str]) -> np.ndarray:
    return np.asarray(pc.fill_null(pc.is_in(cells, value_set=pa.array(sorted(words), pa.string())), True), bool)


def _mask(cells: pa.Array, pattern: str) -> np.ndarray:
    return np.asarray(pc.fill_null(pc.match_substring_regex(cells, pattern), False), bool)


def _numbers(cells: pa.Array, is_comma: bool, largest: float = MAX_NUMBER) -> np.ndarray:
    values = np.full(len(cells), np.nan) if is_comma else _plain(cells, largest)
    rest = np.flatnonzero(np.isnan(values))
    if len(rest):
        spaced = pc.replace_substring_regex(cells.take(pa.array(rest)), rf"([0-9]){_SPACES}([0-9])", r"\1_\2")
        spaced = pc.replace_substring_regex(spaced, rf"([0-9]){_SPACES}([0-9])", r"\1_\2")  # matches do not overlap
        if is_comma:
            spaced = pc.replace_substring_regex(spaced, r"\.([0-9]{3})", r"_\1")
            spaced = pc.replace_substring(spaced, ",", ".")
        is_grouped = _mask(spaced, _GROUPS)
        plain = pc.if_else(pa.array(is_grouped), pc.replace_substring_regex(spaced, "[,'_]", ""), spaced)
        values[rest] = _plain(plain, largest)
    return values


def _pointed(cells: pa.Array, is_comma: bool) -> pa.Array:
    """Cells with decimal commas as cells with decimal points, without points between thousands."""
    if not is_comma:
        return cells
    for _ in range(2):  # matches do not overlap
        cells = pc.replace_substring_regex(cells, r"\.([0-9]{3})([^0-9]|$)", r"\1\2")
    return pc.replace_substring(cells, ",", ".")


def _plain(cells: pa.Array, largest: float) -> np.ndarray:
    """Numbers without separators as float64; NaN where a cell is none, or larger."""
    values = _floats(pc.if_else(pc.match_substring_regex(cells, _SIGNED), cells, _NULL))
    return np.where(np.abs(values) <= largest, values, np.nan)


def _floats(cells: pa.Array) -> np.ndarray:
    return np.asarray(pc.cast(cells, pa.float64()).to_numpy(zero_copy_only=False), np.float64)


def _parts(cells: pa.Array, pattern: str) -> dict[str, np.ndarray]:
    fields = pc.extract_regex(pc.replace_substring_regex(cells, ",([0-9])", r".\1"), pattern)
    return {field.name: _group(fields, field.name) for field in fields.type}


def _group(fields: pa.Array, name: str) -> np.ndarray:
    """A group of a pattern's matches as float64; NaN where it is empty or the pattern does not match."""
    cells = pc.struct_field(fields, name)
    return _floats(pc.if_else(pc.equal(cells, ""), _NULL, cells))


def _field(fields: pa.Array, name: str) -> np.ndarray:
    """A group of a pattern's matches as an object array of str, "" where it does not match."""
    return np.asarray(pc.fill_null(pc.struct_field(fields, name), "").to_numpy(zero_copy_only=False), object)


def _done(values: np.ndarray, missing: np.ndarray) -> Cells:
    values = np.where(missing, np.nan, values)
    return Cells(values, missing, np.isnan(values) & ~missing)
