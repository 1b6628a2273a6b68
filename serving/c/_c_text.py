"""The C of an exported model that all kinds of score share. `c_source` replaces names after `$`."""

from __future__ import annotations

from string import Template

MARK = "/* Written by sojourn model export-c."
"""The start of every file that may be overwritten."""

HEADER = Template(MARK + """ Do not edit: change the model and export it again.
 *
 * Lifetime predictions of bundle $version, family $family, kind $kind.
 * $kind_meaning
 *
 *     ${name}_curve curve;
 *     ${name}_curve_fill(&curve, features);       once, when a request arrives
 *     ${name}_remaining(&curve, uptime_s);        ever after: a lookup
 *
 * Needs no initialisation and allocates nothing. The model is constant, so any number of threads may call at once;
 * a curve is the caller's own. Uptimes, horizons and answers are seconds, answers but survival whole ones.
 * A bad argument gives NaN (lifetime_class: 0): an uptime or horizon below 0, NaN or infinite, a q outside (0, 1).
 * Compile with the doubles of IEEE 754 as they are: no -ffast-math.
 */
#ifndef ${NAME}_H
#define ${NAME}_H

#include <stddef.h>
#include <stdint.h>

#define ${NAME}_VERSION "$version"
#define ${NAME}_FAMILY "$family"
#define ${NAME}_KIND "$kind"
#define ${NAME}_BUILD 0x$version /* of the header and of the source */

#define ${NAME}_N_FEATURES $n_features /* numbers that curve_fill reads, listed below */
#define ${NAME}_N_ROW $n_row /* numbers that score reads: the features$row_tail */
#define ${NAME}_N_STEPS $n_steps /* $steps_meaning */

/* Positions of the features. A value that is not known is NaN. Names as in the bundle's schema, other characters
 * than letters, digits and a few marks as `_`; history features as docs/serving/c.md of sojourn describes them. */
enum {
$features
};

/* One request's whole future. */
typedef struct {
$curve_fields
} ${name}_curve;

#ifdef __cplusplus
extern "C" {
#endif

/* The raw score of one full row: $score_meaning. Bit-equal to the ONNX model. */
double ${name}_score(const double row[${NAME}_N_ROW]);

/* Writes the curve of a request with these features. */
void ${name}_curve_fill(${name}_curve *curve, const double features[${NAME}_N_FEATURES]);
$lookup_header$history_header$habits_header
/* The mean time that is left of a request that has run for uptime_s. */
double ${name}_remaining(const ${name}_curve *curve, double uptime_s);

/* The remaining time that a share q of such requests does not exceed. */
double ${name}_quantile(const ${name}_curve *curve, double q, double uptime_s);

/* The probability, in [0, 1], of still running horizon_s after the uptime. */
double ${name}_survival(const ${name}_curve *curve, double horizon_s, double uptime_s);

/* The next uptime at which to ask again; infinity if never. */
double ${name}_next_change(const ${name}_curve *curve, double uptime_s);

/* LAVA's class of the mean remaining time: 1 below 1 h, 2 below 10 h, 3 below 100 h, else 4. */
int ${name}_lifetime_class(const ${name}_curve *curve, double uptime_s);

#ifdef __cplusplus
}
#endif

#endif
""")

SOURCE = Template(MARK + """ Do not edit: change the model and export it again.
 *
 * Bundle $version, family $family, kind $kind; $name.h says how to call it.
 * Operations and their order are those of sojourn's Python, so that answers agree.
 */
#include "$name.h"

#include <math.h>
#include <stdint.h>

#if ${NAME}_BUILD != 0x$version
#error "$name.h and $name.c must be of one export"
#endif
#ifdef __FAST_MATH__
#error "$name.c must be compiled without -ffast-math: NaN is a missing value, and sums have an order"
#endif

enum { N_TREES = $n_trees };
enum { LEAF = $leaf, NAN_IS_TRUE = $nan_is_true, IS_SET = $is_set, ZERO_IS_NAN = $zero_is_nan };

static const double LARGEST_ZERO = $largest_zero;

/* The true child of a node is the next one, its false child `skip` nodes on. */
typedef struct {
    double value; /* the threshold (at most it: true), or what a leaf adds */
    $skip_type skip;
    $place_type place; /* on what varies: how many steps go to the true child; with a set: its start in MEMBERS */
    int16_t feature;
    uint8_t flags;
} node;

$tables

static int goes_true(const node *at, double value)
{
    const double *member;
    if (isnan(value) || ((at->flags & ZERO_IS_NAN) && fabs(value) <= LARGEST_ZERO)) {
        return at->flags & NAN_IS_TRUE;
    }
    if (!(at->flags & IS_SET)) {
        return value <= at->value;
    }
    for (member = MEMBERS + at->place; !isnan(*member); member++) {
        if (*member == value) {
            return 1;
        }
    }
    return 0;
}

double ${name}_score(const double row[${NAME}_N_ROW])
{
    double total = 0.0;
    int tree;
    for (tree = 0; tree < N_TREES; tree++) {
        const node *at = NODES + ROOTS[tree];
        while (at->feature != LEAF) {
            at += goes_true(at, row[at->feature]) ? 1 : at->skip;
        }
        total += at->value;
    }
    return total;
}

/* Half to even; for numbers of seconds, which are far below 2^51. */
static double whole(double seconds)
{
    const double shift = 0x1.8p+52;
    return seconds + shift - shift;
}

static int is_seconds(double value)
{
    return value >= 0.0 && value < INFINITY;
}

$kind_code
int ${name}_lifetime_class(const ${name}_curve *curve, double uptime_s)
{
    const double remaining_s = ${name}_remaining(curve, uptime_s);
    if (isnan(remaining_s)) {
        return 0;
    }
    return $class_code;
}
""")


LOOKUP_ROW = Template("""
    const double asked = features[$place];
    const double *known = LOOKUP_HAZARDS + (asked >= 0.0 && asked < N_LOOKUP_ROWS ? (long)asked : 0L) * N_STEPS;""")

LOOKUP_HEADER = Template("""
/* The row of a history key's code in the lookup table, for the feature LOOKUP_ROW; 0 where it has none.
 * key: its number, finest first: $keys. A request's row is the first that is not 0.
 * code: 7 bytes of BLAKE2b (RFC 7693) over the key's texts in UTF-8, joined by 0x1f, as a big-endian number. */
double ${name}_lookup_row(int key, uint64_t code);
""")

LOOKUP_CODE = Template("""
double ${name}_lookup_row(int key, uint64_t code)
{
    int low, high;
    if (key < 0 || key >= N_LOOKUP_KEYS) {
        return 0.0;
    }
    low = LOOKUP_STARTS[key];
    high = LOOKUP_STARTS[key + 1];
    while (low < high) {
        const int middle = (low + high) / 2;
        if (LOOKUP_CODES[middle] < code) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < LOOKUP_STARTS[key + 1] && LOOKUP_CODES[low] == code ? (double)LOOKUP_ROWS[low] : 0.0;
}
""")

LOOKUP_MIXED = """
        hazard = LOOKUP_WEIGHTS[idx] * hazard + (1.0 - LOOKUP_WEIGHTS[idx]) * known[idx];"""

AGED = Template("""
/* A feature set against the age of a step; rises or falls from step to step. */
static double aged_value(const double features[], int idx, int step)
{
    const double value = features[AGED_SOURCES[idx]];
    return AGED_IS_LOG[idx] ? value - LOG_AGES[step] : value / AGES_S[step];
}

/* The first step after `low` at which the node parts otherwise than at `low`; `high` if none before it does. */
static int first_other(const node *at, const double features[], int idx, int low, int high, int is_true)
{
    if (goes_true(at, aged_value(features, idx, high - 1)) == is_true) {
        return high;
    }
    while (low < high) {
        const int middle = (low + high) / 2;
        if (goes_true(at, aged_value(features, idx, middle)) == is_true) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}
""")

AGED_WALK = Template("""if (at->feature < VARYING) {
                    const int idx = at->feature - ${NAME}_N_FEATURES;
                    is_true = goes_true(at, aged_value(features, idx, low));
                    cut = first_other(at, features, idx, low, high, is_true);
                } else """)
