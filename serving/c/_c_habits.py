"""The C of habits: the tables of `serving.live.LiveHabits` in memory that the caller gives.

`habit_texts` gives the parts of header and source of a bundle with habits, after those of its curve.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from string import Template

import numpy as np

from sojourn.serving.bundle import Bundle
from sojourn.serving.c._c_habit_loops import AXIS, LIMIT_AXIS, LOOPS
from sojourn.serving.curves.habit_kernels import HAZARD_TOP
from sojourn.serving.inputs import LIMIT_MAX_S, LIMIT_MIN_S
from sojourn.serving.live import LiveHabits

_ZEROS = 0x8000
"""Mark of a run of zeros among half-precision counts: the low bits are its length. Counts have no sign."""

HEADER = Template("""
/* Owners' habits: the model's curves are mixed with what requests did of late. The caller gives the memory and tells
 * of each admission and each end; one thread at a time. Times are seconds on the clock of the bundle's trace.
 *
 *     void *memory = malloc(${name}_habits_size(n_nodes, n_open));
 *     ${name}_habits *habits = ${name}_habits_begin(memory, n_nodes, n_open);   with the bundle's counts
 *     ${name}_curve_fill(&curve, features);
 *     ${name}_habits_codes(keys, limit_s, codes);
 *     ${name}_habits_curve(habits, &curve, &given, codes, limit_s, now_s);      the answer: the curve is mixed
 *     place = ${name}_habits_admit(habits, &given, start_s, now_s);             if the request is admitted
 *     ${name}_habits_ended(habits, place, end_s, began_s);                      when it ends
 *
 * n_nodes: keys that are kept of each level, at least $n_kept; the one with the oldest admission makes room. With
 * $n_python, that of Python, answers have its bits; in any case what is kept is bounded by the memory. */
#define ${NAME}_N_HABIT_KEYS $n_keys /* of a request: $keys */
#define ${NAME}_N_LEVELS $n_levels

typedef struct ${name}_habits ${name}_habits;

/* What the habits gave a request at its curve; `admit` needs it. */
typedef struct {
    float known[${NAME}_N_STEPS];
    float model[${NAME}_N_STEPS];
    int64_t codes[$room];
    double limit_s;
} ${name}_given;

/* Bytes for so many keys of each level and requests that run at once; 0 if they are too few or too many. */
size_t ${name}_habits_size(long n_nodes, long n_open);

/* The habits of the bundle in memory of that size, aligned as malloc does; NULL if the size is 0. */
${name}_habits *${name}_habits_begin(void *memory, long n_nodes, long n_open);

/* The codes of a request's keys together. keys: each the first 7 bytes of BLAKE2b (RFC 7693, 7 bytes long) over the
 * key's texts in UTF-8, joined by 0x1f, as a big-endian number. limit_s: NaN = none. */
void ${name}_habits_codes(const uint64_t keys[$key_room], double limit_s, int64_t codes[$room]);

/* Mixes the curve that curve_fill wrote with the habits of now; limit_s: the feature that is the limit, NaN = none. */
void ${name}_habits_curve(${name}_habits *habits, ${name}_curve *curve, ${name}_given *given,
                          const int64_t codes[$room], double limit_s, double now_s);

/* Follows an admitted request; its place, or -1 if n_open run. start_s: when it began or begins, now_s: now. */
long ${name}_habits_admit(${name}_habits *habits, const ${name}_given *given, double start_s, double now_s);

/* Counts the end of the request at a place; 1, or 0 if none runs there. began_s: when it began to run. */
int ${name}_habits_ended(${name}_habits *habits, long place, double end_s, double began_s);

/* Follows a request no longer, without an end; 1, or 0 if none runs there. */
int ${name}_habits_forget(${name}_habits *habits, long place);
""")

STATE = Template("""
enum { N_HABIT_KEYS = $n_keys, N_LEVELS = $n_levels, LEVEL_ROOM = $room, N_KEPT = $n_kept, N_BUCKETS = $n_buckets };
enum { IS_BLENDED = $is_blended, OWNER_LEVEL = $owner_level, HAS_LIMIT_LEVEL = $has_limit_level, UNTIMED = -1 };
$tables

struct ${name}_habits {
    double *counts, *sums, *start_s, *limit_s, *due_s;
    int64_t *born, *code, *open_serial, *due_serial;
    int64_t serial;
    float *model, *known;
    int32_t *later, *earlier, *chain, *heads, *interval, *nodes, *due_place, *freed;
    int32_t first[LEVEL_ROOM], last[LEVEL_ROOM], n_of[LEVEL_ROOM];
    int32_t n_nodes, n_open, n_used, n_places, n_freed, n_due, n_heads;
    int waits;
};

static int is_limit(double limit_s)
{
    return limit_s >= LIMIT_LOW_S && limit_s <= LIMIT_HIGH_S;
}

static uint64_t joined_code(uint64_t first, uint64_t second)
{
    const uint64_t mix = UINT64_C(0x9E3779B97F4A7C15);
    uint64_t one = (first * mix) ^ ((first >> 29) + second * UINT64_C(0xBF58476D1CE4E5B9));
    one = (one ^ (one >> 32)) * mix;
    return (one ^ (one >> 31)) & (UINT64_MAX >> 1);
}

void ${name}_habits_codes(const uint64_t keys[$key_room], double limit_s, int64_t codes[$room])
{
    uint64_t code = 0;
    int is_known = 1, level = 0, idx;
    const int n_plain = N_HABIT_KEYS > 1 ? N_HABIT_KEYS - 1 : N_HABIT_KEYS;
    for (idx = 0; idx < n_plain; idx++) {
        is_known = is_known && keys[idx] != ${NAME}_NO_KEY;
        code = keys[idx] != ${NAME}_NO_KEY ? joined_code(code, keys[idx]) : 0;
        codes[level++] = is_known ? (int64_t)code : -1;
    }
    if (HAS_LIMIT_LEVEL) {
        codes[level++] = is_known ? (int64_t)joined_code(code, is_limit(limit_s) ? (uint64_t)limit_s : 0) : -1;
    }
    if (N_HABIT_KEYS > 1) {
        const uint64_t shape = keys[n_plain];
        codes[level] = is_known && shape != ${NAME}_NO_KEY ? (int64_t)joined_code(code, shape) : -1;
    }
}

/* Half precision to double. */
static double half(uint16_t bits)
{
    const int exponent = bits >> 10, digits = bits & 1023;
    return exponent == 0 ? ldexp(digits, -24) : ldexp(1024 + digits, exponent - 25);
}

/* Where each array begins, in bytes; the sum is the size. memory: NULL = only count. */
static size_t laid_out(${name}_habits *habits, char *memory, long n_nodes, long n_open)
{
    const size_t n_all = 1 + (size_t)n_nodes * N_LEVELS, open = (size_t)n_open;
    size_t at = (sizeof(${name}_habits) + 15) / 16 * 16;
#define ROOM(field, type, n) \\
    do { \\
        if (memory != NULL) { \\
            habits->field = (type *)(void *)(memory + at); \\
        } \\
        at += ((n) * sizeof(type) + 15) / 16 * 16; \\
    } while (0)
    ROOM(counts, double, n_all * N_STEPS * 4);
    ROOM(sums, double, n_all * N_BUCKETS * 2);
    ROOM(start_s, double, open);
    ROOM(limit_s, double, open);
    ROOM(due_s, double, 2 * open);
    ROOM(born, int64_t, n_all);
    ROOM(code, int64_t, n_all);
    ROOM(open_serial, int64_t, open);
    ROOM(due_serial, int64_t, 2 * open);
    ROOM(model, float, open * N_STEPS);
    ROOM(known, float, open * N_STEPS);
    ROOM(later, int32_t, n_all);
    ROOM(earlier, int32_t, n_all);
    ROOM(chain, int32_t, n_all);
    ROOM(heads, int32_t, n_all);
    ROOM(interval, int32_t, open);
    ROOM(nodes, int32_t, open * LEVEL_ROOM);
    ROOM(due_place, int32_t, 2 * open);
    ROOM(freed, int32_t, open);
#undef ROOM
    return at;
}

size_t ${name}_habits_size(long n_nodes, long n_open)
{
    if (n_nodes < N_KEPT || n_open < 1 || n_nodes > 10000000 || n_open > 100000000) {
        return 0;
    }
    return laid_out(NULL, NULL, n_nodes, n_open);
}

static int32_t head_of(const ${name}_habits *habits, int level, int64_t code)
{
    return (int32_t)(joined_code((uint64_t)code, (uint64_t)level) % (uint64_t)habits->n_heads);
}

/* The node of a code, or -1. */
static int32_t found(const ${name}_habits *habits, int level, int64_t code)
{
    int32_t node = code < 0 ? -1 : habits->heads[head_of(habits, level, code)];
    while (node >= 0 && (habits->code[node] != code || (node - 1) / habits->n_nodes != level)) {
        node = habits->chain[node];
    }
    return node;
}

static void link_last(${name}_habits *habits, int level, int32_t node)
{
    habits->earlier[node] = habits->last[level];
    habits->later[node] = -1;
    if (habits->last[level] >= 0) {
        habits->later[habits->last[level]] = node;
    } else {
        habits->first[level] = node;
    }
    habits->last[level] = node;
}

static void unlink_node(${name}_habits *habits, int level, int32_t node)
{
    const int32_t before = habits->earlier[node], after = habits->later[node];
    if (before >= 0) {
        habits->later[before] = after;
    } else {
        habits->first[level] = after;
    }
    if (after >= 0) {
        habits->earlier[after] = before;
    } else {
        habits->last[level] = before;
    }
}

static void empty_node(${name}_habits *habits, int32_t node)
{
    int idx;
    for (idx = 0; idx < N_STEPS * 4; idx++) {
        habits->counts[(size_t)node * N_STEPS * 4 + (size_t)idx] = 0.0;
    }
    for (idx = 0; idx < N_BUCKETS * 2; idx++) {
        habits->sums[(size_t)node * N_BUCKETS * 2 + (size_t)idx] = 0.0;
    }
}

/* The node of a key of an admitted request; a new one begins without counts. */
static int32_t node_of(${name}_habits *habits, int level, int64_t code)
{
    int32_t node = found(habits, level, code), *link;
    if (code < 0) {
        return -1;
    }
    if (node >= 0) {
        unlink_node(habits, level, node);
        link_last(habits, level, node);
        return node;
    }
    if (habits->n_of[level] < habits->n_nodes) {
        node = 1 + level * habits->n_nodes + habits->n_of[level]++;
    } else {
        node = habits->first[level];
        unlink_node(habits, level, node);
        link = &habits->heads[head_of(habits, level, habits->code[node])];
        while (*link != node) {
            link = &habits->chain[*link];
        }
        *link = habits->chain[node];
    }
    empty_node(habits, node);
    habits->born[node] = habits->serial;
    habits->code[node] = code;
    link = &habits->heads[head_of(habits, level, code)];
    habits->chain[node] = *link;
    *link = node;
    link_last(habits, level, node);
    return node;
}

${name}_habits *${name}_habits_begin(void *memory, long n_nodes, long n_open)
{
    ${name}_habits *habits = (${name}_habits *)memory;
    size_t at = 0;
    int idx, row, n = 0, left = 0;
    if (memory == NULL || ${name}_habits_size(n_nodes, n_open) == 0) {
        return NULL;
    }
    (void)laid_out(habits, (char *)memory, n_nodes, n_open);
    habits->n_nodes = (int32_t)n_nodes;
    habits->n_open = (int32_t)n_open;
    habits->n_places = habits->n_freed = habits->n_due = 0;
    habits->n_heads = 1 + (int32_t)n_nodes * N_LEVELS;
    habits->serial = -1; /* what the bundle holds counts from the start */
    habits->waits = 0;
    for (idx = 0; idx < habits->n_heads; idx++) {
        habits->heads[idx] = -1;
    }
    for (idx = 0; idx < LEVEL_ROOM; idx++) {
        habits->first[idx] = habits->last[idx] = -1;
        habits->n_of[idx] = 0;
    }
    for (row = 0; row < N_KEPT_NODES; row++) {
        const int32_t node = row == 0 ? 0 : node_of(habits, HABIT_LEVELS[row], HABIT_CODES[row]);
        double *counts = habits->counts + (size_t)node * N_STEPS * 4;
        for (idx = 0; idx < N_STEPS * 4; idx++) {
            if (left == 0 && HABIT_COUNTS[at] & $zeros) {
                left = HABIT_COUNTS[at++] & ~$zeros;
            }
            counts[idx] = left > 0 ? 0.0 : half(HABIT_COUNTS[at++]);
            left -= left > 0;
        }
        for (idx = 0; idx < N_BUCKETS * 2; idx++, n++) {
            habits->sums[(size_t)node * N_BUCKETS * 2 + (size_t)idx] = IS_BLENDED ? HABIT_SUMS[n] : 0.0;
        }
    }
    habits->born[0] = -1;
    habits->serial = 0;
    return habits;
}
""")

_NO_TEXTS = {"habits_header": "", "habits_code": ""}
Table = Callable[[str, Iterable[float | str]], str]
"""A constant array in C: what is declared, and its values."""


def habit_texts(bundle: Bundle, name: str, table: Table, constant: Callable[[str, float], str]) -> dict[str, str]:
    """The parts of header and source; empty for a bundle without habits."""
    if bundle.habits is None:
        return _NO_TEXTS
    live, numbers = LiveHabits(bundle.schema, bundle.habits, will_answer=False), bundle.schema.numbers
    has_axis, nodes = len(numbers.shares) > 0, live.nodes()
    counts, sums = live.counted()
    n_levels, n_kept = len(nodes), max(map(len, nodes), default=0)
    rows = sorted((node, level, code) for level, codes in enumerate(nodes) for code, node in codes.items())
    rules, losses = live.habits.rules.tolist(), live.blend.rules.tolist()
    constants = dict(zip(("ALL_MEMORY", "MEMORY", "FAST_MEMORY", "PRIOR", "FAST_PRIOR", "ALL_LOSSES", "LOSSES",
                          "LOSS_ALL_PRIOR", "LOSS_PRIOR", "HAZARD_TOP", "LIMIT_LOW_S", "LIMIT_HIGH_S"),
                         (*rules, *losses, HAZARD_TOP, LIMIT_MIN_S, LIMIT_MAX_S), strict=True))
    tables = [
        f"enum {{ N_AGE_STEPS = {len(numbers.edges) - 1}, N_KEPT_NODES = {len(counts)} }};",
        *(constant(key, value) for key, value in constants.items()),
        table("double HABIT_BASE", live.habits.base.tolist()), table("uint8_t BUCKETS", live.blend.buckets.tolist()),
        table("int HABIT_LEVELS", [0, *(level for _, level, _ in rows)]),
        table("int64_t HABIT_CODES", ["0", *(f"INT64_C({code})" for _, _, code in rows)]),
        table("uint16_t HABIT_COUNTS", (str(value) for value in packed_counts(counts))),
        table("double HABIT_SUMS", sums.ravel().tolist() if live.is_blended else [0.0]),
    ]  # fmt: skip
    keys = [bundle.schema.encoder.history.keys[idx].name for idx in live.owners]
    texts = {
        "name": name, "NAME": name.upper(), "n_keys": len(keys), "n_levels": n_levels, "room": max(n_levels, 1),
        "key_room": max(len(keys), 1), "n_kept": n_kept, "n_python": 20_000, "n_buckets": sums.shape[1],
        "is_blended": int(live.is_blended), "owner_level": int(live.blend.places[0]),
        "has_limit_level": int(live.has_limit_level), "tables": "\n".join(tables), "zeros": f"0x{_ZEROS:x}",
        "keys": ", ".join(keys) or "none", "edges": "curve->edges" if has_axis else "EDGES",
        "given_limit": "limit_s" if has_axis else "NAN; /* no limit axis */\n    (void)limit_s",
    }  # fmt: skip
    parts = (STATE.substitute(texts), LIMIT_AXIS if has_axis else AXIS, LOOPS.substitute(texts))
    return {"habits_header": HEADER.substitute(texts), "habits_code": "".join(parts)}


def packed_counts(counts: np.ndarray) -> list[int]:
    """Counts as bits of half precision, with runs of zeros as one number each.

    >>> packed_counts(np.array([0.0, 0.0, 0.0, 1.0, 0.5]))
    [32771, 15360, 14336]
    """
    bits = counts.ravel().astype(np.float16).view(np.uint16)
    found: list[int] = []
    n_zeros = 0
    for value in [*bits.tolist(), -1]:
        if value == 0 and n_zeros < _ZEROS - 1:
            n_zeros += 1
            continue
        if n_zeros:
            found.append(_ZEROS | n_zeros)
        n_zeros = int(value == 0)
        if value > 0:
            found.append(value)
    return found
