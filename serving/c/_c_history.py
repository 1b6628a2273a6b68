"""The C of a bundle's encoder and owner history: `core/*.h` as they are, their tables, and the functions of an export.

`history_texts` gives the parts of header and source. From a request's texts and numbers to the
features that the forest reads, the C has the operations of `serving.inputs`, and its bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.resources import files
from string import Template

import numpy as np

from sojourn.serving.answers import clock_span
from sojourn.serving.bundle import Bundle
from sojourn.serving.checks import LATEST_S
from sojourn.serving.errors import BundleError
from sojourn.serving.inputs import LIMIT_MAX_S, LIMIT_MIN_S, SIZES, Encoder, key_code, unpacked_names

_FILES = ("keys.h", "owners.h", "history.h")
_FURTHEST_S = 2**40
"""Times beyond are refused in C: the sum of the arrivals of all running requests fits 64 bits."""

HEADER = Template("""
/* From a request to its features: the encoder, and the history of owners and categories as it was at the end of the
 * bundle's trace. The history is in memory that the caller gives, and goes on with the admissions and ends that the
 * caller reports; one thread at a time. Times are seconds on the clock of the bundle's trace$clock; a fraction of a
 * second is cut. Compiled with -DSJ_NO_HISTORY, the source has none of it.
 *
 *     void *memory = malloc(${name}_state_size(n_keys, n_open));
 *     ${name}_state *state = ${name}_state_begin(memory, n_keys, n_open);
 *     ${name}_parse(&parsed, &request);
 *     ${name}_encode(state, &parsed, now_s, features);           then ${name}_curve_fill(&curve, features)
 *     id = ${name}_admit(state, &parsed, now_s);                 if it is placed, or waits for its place
 *     ${name}_started(state, id, now_s);                         if it waited
 *     ${name}_ended(state, id, now_s);                           or ${name}_withdraw(state, id)
 *
 * The state holds no pointers: to keep it, write the memory to a file; to go on, read it and call state_resume. */
#define ${NAME}_N_NUMBERS $n_numbers /* the first features: positions ${NAME}_FEATURE_... */
#define ${NAME}_N_TEXTS $n_texts
#define ${NAME}_N_KEYS $n_keys
#define ${NAME}_NO_KEY UINT64_MAX /* a key that the request does not have, since one of its texts is not given */
$enums
typedef struct ${name}_state ${name}_state;

/* A request as the caller has it. numbers: NaN = not given. texts: UTF-8, NULL = not given; n_bytes: their lengths. */
typedef struct {
    double numbers[$number_room];
    const char *texts[$text_room];
    size_t n_bytes[$text_room];
} ${name}_request;

/* A request as the model reads it. keys: the codes of its history keys. */
typedef struct {
    double numbers[$parsed_room];
    uint64_t keys[$key_room];
} ${name}_parsed;

/* Bytes for a state; 0 if it would be too small for the bundle's history or too large. n_keys: owners or categories
 * that are kept of each key, at least $n_kept; beyond them the owner with the oldest last admission, or the category
 * with the oldest last end, makes room. From $n_keys_max on it is Python's. n_open: requests that are admitted at once,
 * up to 4194304. */
size_t ${name}_state_size(long n_keys, long n_open);

/* The bundle's history in memory of that size, aligned as malloc does; NULL if the size is 0. */
${name}_state *${name}_state_begin(void *memory, long n_keys, long n_open);

/* The state in memory that was copied from such memory, on a machine of the same kind; NULL if it is of another export,
 * or cut. Its content is not checked: read no file that others may write. */
${name}_state *${name}_state_resume(void *memory, size_t n_bytes);

/* Reads a request; 1, or 0 if a number is infinite or a size below 0: then nothing in `parsed` is known. */
int ${name}_parse(${name}_parsed *parsed, const ${name}_request *request);

/* The features of a request that arrives now; 1, or 0 if now_s is NaN or on another clock: then all are NaN. Records
 * nothing. */
int ${name}_encode(${name}_state *state, const ${name}_parsed *parsed, double now_s, double features[$n_features]);

/* Records an arrival; its id, or -1 if n_open are admitted, -2 if now_s is NaN or on another clock. A request that was
 * running before is encoded and admitted at its earlier arrival. */
int64_t ${name}_admit(${name}_state *state, const ${name}_parsed *parsed, double now_s);

/* An admitted request begins to run: its lifetime counts from then on. 1; 0 without an effect if it is not admitted,
 * began at another second, or if now_s is before its admission, NaN or on another clock. */
int ${name}_started(${name}_state *state, int64_t id, double now_s);

/* Records the end of an admitted request. 1; 0 without an effect if it is not admitted (it ended before), or if now_s
 * is before its start, NaN or on another clock. */
int ${name}_ended(${name}_state *state, int64_t id, double now_s);

/* Undoes an admission that was not placed: features are then as before it. 1, or 0 if it is not admitted. */
int ${name}_withdraw(${name}_state *state, int64_t id);
""")

CODE = Template("""
#ifndef SJ_NO_HISTORY
$core
$tables
static const sj_rules HISTORY_RULES = {
    ((uint64_t)SJ_LAYOUT << 48) | UINT64_C(0x$version), $counts, $limit_place, $has_row,
    $window, $n_keys_max, $batch_gap_s, INT64_C($phase_s), INT64_C($first_s), INT64_C($latest_s),
    $numbers,
    {$overall},
    HISTORY_IS_SIZE, HISTORY_IS_OWNER, HISTORY_STARTS, HISTORY_COLUMNS, HISTORY_N_KEPT, $n_groups, HISTORY_CODES,
    HISTORY_ENDED, HISTORY_LAST_S, HISTORY_N_GROUPS, HISTORY_N_RECENT, HISTORY_GROUPS, HISTORY_RECENT, HISTORY_MOMENTS};

size_t ${name}_state_size(long n_keys, long n_open)
{
    return sj_state_size(&HISTORY_RULES, n_keys, n_open);
}

${name}_state *${name}_state_begin(void *memory, long n_keys, long n_open)
{
    return (${name}_state *)sj_begin(&HISTORY_RULES, memory, n_keys, n_open);
}

${name}_state *${name}_state_resume(void *memory, size_t n_bytes)
{
    return (${name}_state *)sj_resume(&HISTORY_RULES, memory, n_bytes);
}

int ${name}_parse(${name}_parsed *parsed, const ${name}_request *request)
{
    const int is_read = sj_parse(&HISTORY_RULES, request->numbers, request->texts, request->n_bytes, parsed->numbers,
                                 parsed->keys);$row
    return is_read;
}

int ${name}_encode(${name}_state *state, const ${name}_parsed *parsed, double now_s, double features[$n_features])
{
    return sj_encode(&HISTORY_RULES, (sj_state *)state, parsed->numbers, parsed->keys, now_s, features, $n_features);
}

int64_t ${name}_admit(${name}_state *state, const ${name}_parsed *parsed, double now_s)
{
    return sj_admit(&HISTORY_RULES, (sj_state *)state, parsed->keys, now_s);
}

int ${name}_started(${name}_state *state, int64_t id, double now_s)
{
    return sj_started(&HISTORY_RULES, (sj_state *)state, id, now_s);
}

int ${name}_ended(${name}_state *state, int64_t id, double now_s)
{
    return sj_ended(&HISTORY_RULES, (sj_state *)state, id, now_s);
}

int ${name}_withdraw(${name}_state *state, int64_t id)
{
    return sj_withdraw(&HISTORY_RULES, (sj_state *)state, id);
}
#endif
""")

ROW = Template("""
    static const int8_t places[] = {$places};
    int idx;
    parsed->numbers[${NAME}_N_NUMBERS] = 0.0;
    for (idx = 0; idx < N_LOOKUP_KEYS && parsed->numbers[${NAME}_N_NUMBERS] == 0.0; idx++) {
        parsed->numbers[${NAME}_N_NUMBERS] = ${name}_lookup_row(idx, parsed->keys[places[idx]]);
    }""")

Table = Callable[[str, Iterable[float | str]], str]
"""A constant array in C: what is declared, and its values."""


def history_texts(bundle: Bundle, name: str, table: Table, number: Callable[[float], str],
                  enum: Callable[[str, Iterable[str]], str]) -> dict[str, str]:
    """The parts of header and source. enum: the positions of columns or keys, by what its names begin with."""
    encoder, (first_s, latest_s) = bundle.schema.encoder, clock_span(bundle.schema)
    history, lookup, n_features = encoder.history, encoder.lookup, len(encoder.feature_names())
    arrays, is_owner = bundle.history.to_arrays(), [key.kind == "owner" for key in history.keys]
    kept = [unpacked_names(f"{idx}", arrays, len(key.columns)) for idx, key in enumerate(history.keys)]
    rules = (history.category_memory, float(history.prior_strength), history.instant_log10, LIMIT_MIN_S, LIMIT_MAX_S)
    texts = {
        "name": name, "NAME": name.upper(), "version": bundle.version, "n_numbers": len(encoder.numbers),
        "n_texts": len(encoder.names), "n_keys": len(history.keys), "n_features": n_features,
        "number_room": max(len(encoder.numbers), 1), "text_room": max(len(encoder.names), 1),
        "parsed_room": max(encoder.n_numbers, 1), "key_room": max(len(history.keys), 1),
        "clock": ", Unix time" if bundle.schema.is_dated else "", "n_keys_max": history.n_keys_max,
        "n_kept": max(map(len, kept), default=1) or 1,
        "enums": enum("TEXT", encoder.names) + enum("KEY", (key.name for key in history.keys)),
        "counts": ", ".join(map(str, (len(encoder.numbers), len(encoder.names), len(is_owner), sum(is_owner)))),
        "limit_place": encoder.limit_place, "has_row": int(lookup is not None), "window": history.window,
        "batch_gap_s": f"INT64_C({history.batch_gap_s})", "phase_s": encoder.phase_s,
        "first_s": max(first_s, -_FURTHEST_S), "latest_s": min(latest_s, _FURTHEST_S),
        "numbers": ", ".join(number(float(value)) for value in rules),
        "overall": ", ".join(number(value) for value in arrays["overall"].tolist()),
        "n_groups": sum(len(arrays[f"{idx}:group"]) for idx, owned in enumerate(is_owner) if owned),
        "tables": "\n".join([*_rule_tables(encoder, table), *_kept_tables(kept, arrays, is_owner, table)]),
        "core": "".join(_core(file) for file in _FILES), "row": "",
    }  # fmt: skip
    if lookup is not None:
        finest_first = ", ".join(map(str, reversed(lookup.positions))) or "0"
        texts["row"] = ROW.substitute(texts, places=finest_first)
    return {"history_header": HEADER.substitute(texts), "history_code": CODE.substitute(texts)}


def _core(file: str) -> str:
    """A file of the core, without its own includes: the files before it stand above it."""
    lines = files("sojourn.serving.c").joinpath(f"core/{file}").read_text("ascii").splitlines()
    return "\n".join(line for line in lines if not line.startswith('#include "')) + "\n\n"


def _rule_tables(encoder: Encoder, table: Table) -> list[str]:
    """What the parser reads: sizes, and the columns of each key."""
    history, columns = encoder.history, encoder.columns()
    starts = np.cumsum([0, *(len(key.columns) for key in history.keys)]).tolist()
    return [table("uint8_t HISTORY_IS_SIZE", (str(int(column in SIZES)) for column in encoder.numbers)),
            table("uint8_t HISTORY_IS_OWNER", (str(int(key.kind == "owner")) for key in history.keys)),
            table("int16_t HISTORY_STARTS", map(str, starts)),
            table("int16_t HISTORY_COLUMNS", (str(columns.index(column)) for key in history.keys
                                              for column in key.columns))]


def _kept_tables(kept: list[list[tuple[str, ...]]], arrays: dict[str, np.ndarray], is_owner: list[bool],
                 table: Table) -> list[str]:
    """The history at the end of the trace: of each key its names as codes, in the order of eviction, then their state.

    An empty table gets the zeros of one row: compilers warn of reads beyond an array, even if no loop comes there.
    """
    def of(part: str, owners: bool) -> list[float]:
        parts = [arrays[f"{idx}:{part}"].ravel() for idx, owned in enumerate(is_owner) if owned == owners]
        return (np.concatenate(parts).tolist() if parts else []) or [0, 0, 0]

    times_s = [time_s for part in ("last", "group") for time_s in of(part, True)]
    if max(map(abs, times_s)) >= LATEST_S:
        raise BundleError(f"history.npz: times must be below 2**53 s in C, got {max(times_s, key=abs)}")
    tables = [table("int32_t HISTORY_N_KEPT", (str(len(names)) for names in kept)),
              table("uint64_t HISTORY_CODES", (f"UINT64_C({key_code(key)})" for names in kept for key in names))]
    for declared, part in (("int64_t HISTORY_ENDED", "ended_n"), ("int64_t HISTORY_LAST_S", "last"),
                           ("int32_t HISTORY_N_GROUPS", "group_n"), ("int32_t HISTORY_N_RECENT", "recent_n"),
                           ("int64_t HISTORY_GROUPS", "group")):
        tables.append(table(declared, map(str, of(part, True))))
    return [*tables, table("double HISTORY_RECENT", of("recent", True)),
            table("double HISTORY_MOMENTS", of("moments", False))]
