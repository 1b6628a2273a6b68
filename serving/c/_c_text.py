"""The header of an exported model, as far as all kinds of score share it. `c_source` replaces names after `$`."""

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
 * This file is all: include it where it is called, and in one source file, of C99 or C++17, with its code:
 *
 *     #define ${NAME}_IMPLEMENTATION
 *     #include "$name.h"
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

#if defined(${NAME}_IMPLEMENTATION) && !defined(${NAME}_IMPLEMENTED)
#define ${NAME}_IMPLEMENTED
/* The code. Operations and their order are those of sojourn's Python, so that answers agree. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __FAST_MATH__
#error "$name.h must be compiled without -ffast-math: NaN is a missing value, and sums have an order"
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")
#endif

$step_count$tables

$model_code
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

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
#endif
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

SEARCH = Template("""/* How many of $values are $relation_text `value`, which is not below 0. A number's first
 * bits lead to a cell, in which at most $n_most of the values lie. */
static int $function(double value)
{
    const double number = value + 0.0; /* no -0 */
    uint64_t bits;
    int64_t cell;
    int idx;
    memcpy(&bits, &number, sizeof bits);
    cell = (int64_t)(bits >> $shift) - $first;
    cell = cell < 0 ? 0 : cell < $n_cells ? cell : $n_cells - 1;
    idx = STARTS_OF_$values[cell];
    return idx + $found;
}
""")

TRIED = Template("""/* How many of $values are $relation_text `value`. */
static int $function(double value)
{
    int low = 0, high = $n;
    while (low < high) {
        const int middle = (low + high) / 2;
        if ($values[middle] $relation value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}
""")
