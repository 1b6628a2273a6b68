"""A bundle's model as one C header, for schedulers that are not Python.

Raw scores are bit-equal to the bundle's ONNX model; from scores to seconds the C has the operations
of `formulas.py`. Features are in the order of `schema.encoder.feature_names()`; `_c_history` has the
C that encodes a request. The forest is leaf masks (`mask_tables`, read by `core/forest.h`).
Forests that do not fit into masks are a `NodeTable`: one array of nodes, each tree in the order of a
walk that visits the true child first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from pathlib import Path

import numpy as np

from sojourn.publishing import whole_file
from sojourn.serving.bundle import Bundle, Schema
from sojourn.serving.c import _c_forest, _c_text
from sojourn.serving.c._c_habits import habit_texts
from sojourn.serving.c._c_history import history_texts
from sojourn.serving.curves import CLASS_BOUNDS_S, LONGEST_S, N_STEPS_MAX
from sojourn.serving.errors import BundleError
from sojourn.serving.forest import (
    MEMBER,
    ZERO,
    Forest,
    MaskTables,
    check_stepwise,
    mask_tables,
    n_scratch_words,
    read_forest,
)
from sojourn.serving.inputs import Encoder

_N_ROW_MAX = 32_767
_N_TEXT_MAX = 60
_N_CELLS_MAX = 4_096
_N_MASK_BYTES_MAX = 1 << 23
"""Larger masks are left out: a compiler takes long for them, and a walk over nodes is small."""
_LIMIT_UNIT = "log10 of the lifetime over the limit"
_CLOCK_UNITS = ("hour of the day, [0, 24)", "day of the week, Monday = 0")
_UNITS_BY_END = {"_cores": "cores", "_gib": "GiB", "_s": "seconds"}
_UNITS_BY_PART = {
    **dict.fromkeys(("arrived", "running", "batch", "ended"), "log1p of a count"),
    **dict.fromkeys(("oldest_age", "mean_age", "since_last", "mean", "last", "mean_2", "longest"), "log10 seconds"),
    "spread": "standard deviation of log10 seconds",
    **dict.fromkeys(("share_1h", "share_1d", "share_7d", "instant"), "share in [0, 1]"),
}


@dataclass(frozen=True, slots=True)
class CSource:
    """The ASCII text of `name`.h. The same bundle and name give the same text."""

    name: str
    header: str

    def write(self, folder: str | Path) -> Path:
        """Write the header into a folder, whole or not at all; returns its path.

        Replaces a file of an earlier export; ValueError if a file of that name is anything else.
        """
        root = Path(folder)
        root.mkdir(parents=True, exist_ok=True)
        path = root / f"{self.name}.h"
        if path.exists() and not path.read_bytes().startswith(_c_text.MARK.encode()):
            raise ValueError(f"{path} must be a file of an earlier export or not exist, got another file")
        with whole_file(path) as header:
            header.write_bytes(self.header.encode("ascii"))
        return path


def c_source(bundle: Bundle, name: str = "sojourn_lifetime") -> CSource:
    """The C of a bundle's model; `name` is that of the file and the prefix of all public identifiers.

    ValueError if `name` is not a C identifier; BundleError if the model does not fit the schema or
    is too large for a curve of fixed size.
    """
    checked_name(name)
    if not re.fullmatch("[0-9a-f]{12}", bundle.version):
        raise BundleError(f"version must be 12 hexadecimal digits, got {bundle.version!r}")
    schema = bundle.schema
    forest = read_forest(bundle.model, schema.n_features)
    kind = schema.curves
    if kind.is_varying:
        try:
            check_stepwise(forest, schema.numbers.age_features)
        except ValueError as error:
            raise BundleError(f"model.onnx: {error}") from error
    grid = kind.grid(schema.numbers, forest)
    for what, number, most in (("steps", len(grid), N_STEPS_MAX), ("features", schema.n_features, _N_ROW_MAX)):
        if number > most:
            raise BundleError(f"model.onnx: {what} must be at most {most} in C, got {number}")
    code = kind.c_code()
    texts = {
        "name": name, "NAME": name.upper(), "version": bundle.version, "family": plain_text(schema.family),
        "kind": schema.kind, "kind_meaning": code.meaning, "n_row": schema.n_features,
        "n_features": len(schema.encoder.feature_names()), "n_steps": len(grid),
        "row_tail": (", then those set against the age" if len(schema.numbers.age_features) else "") + code.row_tail,
        "score_meaning": code.score_meaning, "steps_meaning": code.steps_meaning,
        "features": _feature_enum(schema.encoder, name.upper()), "tables": "\n".join(_schema_tables(schema, grid)),
        "class_code": " + ".join(["1", *(f"(remaining_s >= {bound_s!r})" for bound_s in CLASS_BOUNDS_S)]),
    }  # fmt: skip
    texts["step_count"] = f"enum {{ N_STEPS = {len(grid)} }};\n" if kind.is_varying else ""
    texts["model_code"] = _forest_code(forest, grid, schema, texts)
    lookup = schema.numbers.lookup
    texts["lookup_row"] = "" if lookup is None else _c_text.LOOKUP_ROW.substitute(place=lookup.place)
    texts["lookup_mixed"] = "" if lookup is None else _c_text.LOOKUP_MIXED
    texts |= _lookup_texts(schema.encoder, name) | habit_texts(bundle, name, _table, _constant)
    texts |= history_texts(bundle, name, _table, c_number, lambda what, names: position_enum(f"{name}_{what}", names))
    texts["curve_fields"] = code.fields.substitute(texts)
    numbers = kind.c_numbers(schema.numbers, grid)
    searches = [_search_code(values, np.array(numbers[values], np.float64)) for values in code.searched]
    parts = "\n".join([*searches, *(part.substitute(texts) for part in code.parts)])
    texts["kind_code"] = f"{parts}{texts['lookup_code']}{texts['history_code']}{texts['habits_code']}"
    return CSource(name, _c_text.HEADER.substitute(texts))


def _search_code(name: str, rising: np.ndarray) -> str:
    """A C function that counts the values of a table, rising, that are at most a number; those below it for
    THRESHOLDS. It has a table of cells, numbers that begin with the same bits; or it tries values if cells would be
    too many."""
    is_below = name == "THRESHOLDS"
    function = f"{name.lower()}_{'below' if is_below else 'at_most'}"
    relation, relation_text = ("<", "below") if is_below else ("<=", "at most")
    above = rising[rising > 0.0]
    choices = product((1, 2, 4), range(52, 40, -1)) if len(rising) and rising[0] >= 0.0 and len(above) else ()
    for n_most, shift in choices:
        keys = (above.view(np.uint64) >> np.uint64(shift)).astype(np.int64)
        first = int(keys[0]) - 1
        n_cells = int(keys[-1]) - first + 1
        if n_cells <= _N_CELLS_MAX and np.bincount(keys - first).max() <= n_most <= len(rising) <= len(above) + 1:
            lows = (first + np.arange(n_cells)).astype(np.uint64) << np.uint64(shift)
            starts = np.minimum(np.searchsorted(rising, lows.view(np.float64)), len(rising) - n_most)
            starts[0] = 0
            found = " + ".join(f"({name}[idx + {more}] {relation} value)" for more in range(n_most))
            own = _c_text.SEARCH.substitute(values=name, function=function, found=found, n_most=n_most, shift=shift,
                                            relation_text=relation_text, first=first, n_cells=n_cells)
            return f"{_table(f'uint16_t STARTS_OF_{name}', starts.tolist())}\n{own}"
    return _c_text.TRIED.substitute(values=name, function=function, relation=relation, n=len(rising),
                                      relation_text=relation_text)


def _forest_code(forest: Forest, grid: np.ndarray, schema: Schema, texts: dict[str, object]) -> str:
    """The tables and functions of raw scores: `NAME_score`, and `step_scores` if the kind's scores vary."""
    is_varying, age_features = schema.curves.is_varying, schema.numbers.age_features
    tables = mask_tables(forest, grid if is_varying else np.zeros(0), age_features)
    if tables is not None and tables.masks.nbytes <= _N_MASK_BYTES_MAX:
        core = files("sojourn.serving.c").joinpath("core/forest.h").read_text("ascii")
        declared = {"float64": "double"}
        types = [declared.get(array.dtype.name, f"{array.dtype.name}_t") for array in tables]
        arrays = [_table(f"SJ_ALIGNED {kind} {name.upper()}_OF_FOREST",
                         map(hex, array.ravel().tolist()) if array.dtype == np.uint64 else array.ravel().tolist())
                  for kind, name, array in zip(types, MaskTables._fields, tables, strict=True)]
        own = {**texts, "core": core, "forest_tables": "\n".join(arrays), "n_scratch": n_scratch_words(tables),
               "pointers": ", ".join(f"{name.upper()}_OF_FOREST" for name in MaskTables._fields),
               "scores_call": "sj_interval_scores" if len(age_features) else "sj_step_scores"}
        parts = (_c_forest.MASKS, _c_forest.MASKED_STEPS) if is_varying else (_c_forest.MASKS,)
    else:
        nodes = node_table(forest, grid)
        own = {**texts, "n_trees": len(nodes.roots), "leaf": LEAF, "nan_is_true": NAN_IS_TRUE, "is_set": IS_SET,
               "zero_is_nan": ZERO_IS_NAN, "largest_zero": c_number(ZERO), "skip_type": _integer_type(nodes.skip),
               "place_type": _integer_type(nodes.place),
               "node_tables": "\n".join([*_node_tables(nodes), *_aged_tables(schema)])}
        is_aged = len(age_features) > 0
        own["aged_code"] = _c_forest.AGED.substitute() if is_aged else ""
        own["aged_walk"] = _c_forest.AGED_WALK.substitute(texts) if is_aged else ""
        parts = (_c_forest.NODES, _c_forest.WALKED_STEPS) if is_varying else (_c_forest.NODES,)
    return "".join(part.substitute(own) for part in parts)


def checked_name(name: str) -> str:
    """The name; ValueError unless it can be the prefix of a C identifier and a file name.

    >>> checked_name("sojourn_lifetime")
    'sojourn_lifetime'
    >>> checked_name("../lifetime")
    Traceback (most recent call last):
    ValueError: name must be letters, digits and single `_` between them, from a letter, at most 60, got '../lifetime'
    """
    if len(name) > _N_TEXT_MAX or not re.fullmatch("[A-Za-z](_?[A-Za-z0-9])*", name):
        raise ValueError(f"name must be letters, digits and single `_` between them, from a letter, "
                         f"at most {_N_TEXT_MAX}, got {name!r}")
    return name


def plain_text(text: str) -> str:
    """Text that cannot start or end a C comment or string: other characters become `_`, long text is cut.

    >>> plain_text('user:mean */ "??/')
    'user:mean __ ____'
    """
    return re.sub("[^A-Za-z0-9 _.,:;+()=<>-]", "_", text[:_N_TEXT_MAX])


def c_number(value: float) -> str:
    """A double as a C99 literal with the same bits.

    >>> [c_number(value) for value in (0.1, -3.0, -0.0, math.inf, math.nan)]
    ['0x1.999999999999ap-4', '-0x1.8p+1', '-0x0p+0', 'INFINITY', 'NAN']
    """
    if not math.isfinite(value):
        return "NAN" if math.isnan(value) else "INFINITY" if value > 0.0 else "-INFINITY"
    digits, exponent = value.hex().split("p")
    return f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits}p{exponent}"


def feature_symbols(names: Iterable[str]) -> list[str]:
    """Unique names of the features in C identifiers.

    >>> feature_symbols(["cpu_cores", "user:mean", "user mean", "?"])
    ['CPU_CORES', 'USER_MEAN', 'USER_MEAN_2', 'X']
    """
    symbols: dict[str, None] = {}
    for idx, name in enumerate(names):
        symbol = re.sub("[^A-Za-z0-9]+", "_", name[:_N_TEXT_MAX]).strip("_").upper() or "X"
        while symbol in symbols:
            symbol += f"_{idx}"
        symbols[symbol] = None
    return list(symbols)


def position_enum(prefix: str, names: Iterable[str]) -> str:
    """An enum with the position of each name; empty without names.

    >>> print(position_enum("m_text", ["user", "a/b"]))
    enum {
        M_TEXT_USER = 0, /* user */
        M_TEXT_A_B = 1 /* a_b */
    };
    """
    given = list(names)
    lines = [f"    {prefix.upper()}_{symbol} = {idx}{',' if idx < len(given) - 1 else ''} /* {plain_text(name)} */"
             for idx, (symbol, name) in enumerate(zip(feature_symbols(given), given, strict=True))]
    return "\n".join(["enum {", *lines, "};", ""]) if lines else ""


def _lookup_texts(encoder: Encoder, name: str) -> dict[str, str]:
    """The parts of header and source that find a row of the lookup table; empty without one."""
    lookup = encoder.lookup
    if lookup is None:
        return dict.fromkeys(("lookup_header", "lookup_code"), "")
    finest_first = [encoder.history.keys[position].name for position in reversed(lookup.positions)]
    keys = ", ".join(f"{idx} {plain_text(key)}" for idx, key in enumerate(finest_first))
    ordered = [sorted(rows.items()) for rows in reversed(lookup.rows)]
    pairs = [pair for rows in ordered for pair in rows]
    starts = np.cumsum([0, *map(len, ordered)]).tolist()
    tables = [f"enum {{ N_LOOKUP_KEYS = {len(ordered)} }};", _table("int32_t LOOKUP_STARTS", starts),
              _table("uint64_t LOOKUP_CODES", (f"UINT64_C({code})" for code, _ in pairs)),
              _table("int32_t LOOKUP_ROWS", (row for _, row in pairs))]
    return {"lookup_header": _c_text.LOOKUP_HEADER.substitute(name=name, keys=keys or "none"),
            "lookup_code": "\n" + "\n".join(tables) + _c_text.LOOKUP_CODE.substitute(name=name)}


def _feature_enum(encoder: Encoder, prefix: str) -> str:
    names = encoder.feature_names()
    symbols = [f"{prefix}_FEATURE_{symbol}" for symbol in feature_symbols(names)]
    lines = [f"    {symbol} = {idx}{',' if idx < len(names) - 1 else ''} /* {plain_text(name)}: {unit} */"
             for idx, (symbol, name, unit) in enumerate(zip(symbols, names, _units(encoder), strict=True))]
    return "\n".join(lines)


def _units(encoder: Encoder) -> list[str]:
    numbers = [next((unit for end, unit in _UNITS_BY_END.items() if name.endswith(end)), "as the request gives it")
               for name in encoder.numbers]
    row = [] if encoder.lookup is None else ["number of a row; see below"]
    return [*numbers, *row, *_CLOCK_UNITS,
            *(_UNITS_BY_PART[name.rpartition(":")[2]] for name in encoder.history.feature_names()),
            *(_LIMIT_UNIT for _ in encoder.limit_names())]


def _node_tables(nodes: NodeTable) -> Iterator[str]:
    columns = [[c_number(value) for value in nodes.value.tolist()],
               *([str(value) for value in column.tolist()] for column in
                 (nodes.skip, nodes.place, nodes.feature, nodes.flags))]  # fmt: skip
    rows = ",\n".join(f"    {{{', '.join(row)}}}" for row in zip(*columns, strict=True))
    yield f"static const node NODES[] = {{\n{rows}\n}};"
    yield _table(f"{_integer_type(nodes.roots)} ROOTS", nodes.roots.tolist())
    yield _table("double MEMBERS", nodes.members.tolist())


def _schema_tables(schema: Schema, grid: np.ndarray) -> Iterator[str]:
    """The numbers that the code of the schema's kind reads, and no others, since compilers warn of unused ones."""
    yield _constant("LONGEST_S", LONGEST_S)
    for name, number in schema.curves.c_numbers(schema.numbers, grid).items():
        if isinstance(number, float):
            yield _constant(name, number)
        elif isinstance(number, int):
            yield f"enum {{ {name} = {number} }};"
        else:
            yield _table(f"double {name}", number)


def _aged_tables(schema: Schema) -> Iterator[str]:
    if len(schema.numbers.age_features):
        yield _table("int16_t AGED_SOURCES", schema.numbers.age_features.sources)
        yield _table("uint8_t AGED_IS_LOG", map(int, schema.numbers.age_features.is_log))
        yield _table("double AGES_S", schema.numbers.age_features.ages_s)
        yield _table("double LOG_AGES", schema.numbers.age_features.log_ages)


def _constant(name: str, value: float) -> str:
    return f"static const double {name} = {c_number(value)};"


def _table(declared: str, values: Iterable[float | str]) -> str:
    """A constant array; C has no empty arrays, so an empty one gets a zero."""
    texts = [c_number(value) if isinstance(value, float) else str(value) for value in values] or ["0"]
    lines = [", ".join(texts[start:start + 5]) for start in range(0, len(texts), 5)]
    return f"static const {declared}[] = {{\n    " + ",\n    ".join(lines) + "\n};"


def _integer_type(values: np.ndarray) -> str:
    return "uint16_t" if values.max() < 1 << 16 else "int32_t"


LEAF = -1
"""The value of `feature` for a leaf."""
NAN_IS_TRUE, IS_SET, ZERO_IS_NAN = 1, 2, 4
"""Flags of a node: NaN goes to the true child, a set instead of a threshold, zeros count as NaN."""


@dataclass(frozen=True, slots=True)
class NodeTable:
    """Nodes and leaves, N in all. The true child of node i is i + 1, the false child i + skip[i].

    value: float64 (N,), the threshold, or a leaf's score. skip: int64 (N,), 0 for leaves. place:
    int64 (N,), for a node on the last feature the number of grid values that go to the true child;
    for a node with a set its start in `members`. feature: int64 (N,), LEAF for leaves. flags: int64
    (N,).
    roots: int64 (T,). members: float64, each set ends with NaN; a single NaN if there are no sets.
    """

    value: np.ndarray
    skip: np.ndarray
    place: np.ndarray
    feature: np.ndarray
    flags: np.ndarray
    roots: np.ndarray
    members: np.ndarray


def node_table(forest: Forest, grid: np.ndarray) -> NodeTable:
    """The nodes of a forest; grid: float64 (K,), rising values of its last feature.

    >>> stump = Forest(1, np.array([0]), np.array([0]), np.array([2.5]), np.array([0], np.uint8), np.array([~1]),
    ...                np.array([~0]), np.array([True]), np.array([10.0, 20.0]), np.array([0, 0]), np.array([]),
    ...                np.array([False]))
    >>> table = node_table(stump, np.arange(4.0))
    >>> table.value.tolist(), table.skip.tolist(), table.place.tolist(), table.feature.tolist(), table.flags.tolist()
    ([2.5, 20.0, 10.0], [2, 0, 0], [3, 0, 0], [0, -1, -1], [1, 0, 0])
    """
    order, skip, roots = _walk_order(forest)
    is_leaf = order < 0
    node = np.where(is_leaf, 0, order)
    is_set = forest.mode == MEMBER
    flags = (NAN_IS_TRUE * forest.is_nan_true + IS_SET * is_set + ZERO_IS_NAN * forest.is_zero_missing[forest.feature])
    place = np.where(forest.feature == forest.n_features - 1, np.searchsorted(grid, forest.split, side="right"), 0)
    n_before = np.cumsum(is_set) - is_set  # number of sets before this one, each with a NaN at its end
    place = np.where(is_set, forest.member_start[:-1] + n_before, place)
    ends = forest.member_start[1:][is_set]
    return NodeTable(
        np.where(is_leaf, forest.leaves[np.where(is_leaf, ~order, 0)], forest.split[node]), skip,
        np.where(is_leaf, 0, place[node]), np.where(is_leaf, LEAF, forest.feature[node]),
        np.where(is_leaf, 0, flags[node]), roots,
        np.insert(forest.members, ends, np.nan) if is_set.any() else np.array([np.nan]),
    )  # fmt: skip


def _walk_order(forest: Forest) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes (leaves as ~leaf) in the new order, skips to the false children, and the start of each tree."""
    on_true, on_false = forest.on_true.tolist(), forest.on_false.tolist()
    order: list[int] = []
    skip: list[int] = []
    roots = []
    for root in forest.roots.tolist():
        roots.append(len(order))
        waiting = [(root, -1)]  # a node, and the position of the parent if it is the false child
        while waiting:
            child, parent = waiting.pop()
            if parent >= 0:
                skip[parent] = len(order) - parent
            if child >= 0:
                waiting += [(on_false[child], len(order)), (on_true[child], -1)]
            order.append(child)
            skip.append(0)
    return np.array(order), np.array(skip), np.array(roots)
