"""The C of an exported model's raw scores: by leaf masks (`core/forest.h`), or by a walk over nodes."""

from __future__ import annotations

from string import Template

MASKS = Template("""$core
$forest_tables
static const sj_forest FOREST = {$pointers};
enum { N_SCRATCH = $n_scratch }; /* words */

double ${name}_score(const double row[${NAME}_N_ROW])
{
    uint64_t scratch[N_SCRATCH];
    return sj_row_score(&FOREST, row, scratch);
}
""")

MASKED_STEPS = Template("""
static void step_scores(const double features[], double scores[])
{
    SJ_ALIGNED uint64_t scratch[N_SCRATCH];
    $scores_call(&FOREST, features, scores, scratch);
}
""")

NODES = Template("""enum { N_TREES = $n_trees };
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

$node_tables

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

""")

WALKED_STEPS = Template("""enum { VARYING = ${NAME}_N_ROW - 1 };
$aged_code
/* Scores of all steps at once: a walk takes a range of steps along, and where they part the later ones wait. */
static void step_scores(const double features[], double scores[])
{
    struct {
        const node *at;
        int low, high;
    } waiting[N_STEPS]; /* enough: they hold no step twice */
    int tree, step;
    for (step = 0; step < N_STEPS; step++) {
        scores[step] = 0.0;
    }
    for (tree = 0; tree < N_TREES; tree++) {
        int n_waiting = 1;
        waiting[0].at = NODES + ROOTS[tree];
        waiting[0].low = 0;
        waiting[0].high = N_STEPS;
        while (n_waiting > 0) {
            const node *at = waiting[--n_waiting].at;
            const int low = waiting[n_waiting].low;
            int high = waiting[n_waiting].high;
            while (at->feature != LEAF) {
                int is_true, cut = high; /* where `low` goes, and the first step that goes elsewhere */
                if (at->feature < ${NAME}_N_FEATURES) {
                    is_true = goes_true(at, features[at->feature]);
                } else $aged_walk{
                    is_true = low < at->place;
                    cut = is_true ? at->place : high;
                }
                if (cut < high) {
                    waiting[n_waiting].at = at + (is_true ? at->skip : 1);
                    waiting[n_waiting].low = cut;
                    waiting[n_waiting++].high = high;
                    high = cut;
                }
                at += is_true ? 1 : at->skip;
            }
            for (step = low; step < high; step++) {
                scores[step] += at->value;
            }
        }
    }
}
""")

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
