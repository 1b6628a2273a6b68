/* Raw scores of a forest by leaf masks: the forest of `sojourn.serving.forest.MaskTables`, in C99.
 *
 * For each bin of each feature and each tree there is a word, whose bit i is set if leaf i can still be reached. The AND
 * over the features of a row leaves one bit a tree. Sums run over the trees from first to last, so scores have the bits
 * of the ONNX model. Nothing is allocated and there is no state: any number of threads may call at once, each with its
 * own scratch.
 */
#ifndef SJ_FOREST_H
#define SJ_FOREST_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* The tables, in the order of the fields of `MaskTables`, where their shapes stand. */
#define SJ_FOREST_FIELDS(FIELD)                                                                                        \
    FIELD(int32_t, shape)                                                                                              \
    FIELD(uint64_t, masks)                                                                                             \
    FIELD(double, thresholds)                                                                                          \
    FIELD(double, leaves)                                                                                              \
    FIELD(double, turns)                                                                                               \
    FIELD(int32_t, starts)                                                                                             \
    FIELD(int32_t, leaf_starts)                                                                                        \
    FIELD(int32_t, turn_starts)                                                                                        \
    FIELD(int32_t, turn_rows)                                                                                          \
    FIELD(int32_t, sources)                                                                                            \
    FIELD(int32_t, step_rows)                                                                                          \
    FIELD(int32_t, leaf_lows)                                                                                          \
    FIELD(int32_t, leaf_highs)                                                                                         \
    FIELD(uint8_t, is_zero_missing)

/* Positions in `shape`. Features of a request, those set against the age, steps of what varies. */
enum { SJ_N_TREES, SJ_N_FEATURES, SJ_N_AGED, SJ_N_STEPS, SJ_N_ROWS, SJ_N_SHAPE };

typedef struct {
#define SJ_POINTER(type, name) const type *name;
    SJ_FOREST_FIELDS(SJ_POINTER)
#undef SJ_POINTER
} sj_forest;

/* LightGBM's kZeroThreshold as a double: smaller absolute values are zero. */
#define SJ_ZERO 0x1.a95a5cp-117

/* Bytes of scratch that a call needs, aligned as malloc aligns. */
static inline size_t sj_scratch_bytes(const sj_forest *forest)
{
    return sizeof(uint64_t) * (size_t)forest->shape[SJ_N_TREES];
}

static inline int sj_lowest_bit(uint64_t word)
{
#ifdef __GNUC__
    return __builtin_ctzll(word);
#else
    int place = 0;
    while (!(word & 1)) {
        word >>= 1;
        place++;
    }
    return place;
#endif
}

/* How many of n rising values are below a value. */
static inline int32_t sj_count_below(const double *values, int32_t n, double value)
{
    const double *base = values;
    if (n == 0) {
        return 0;
    }
    while (n > 1) {
        const int32_t half = n / 2;
        base += base[half - 1] < value ? half : 0;
        n -= half;
    }
    return (int32_t)(base - values) + (*base < value);
}

/* The row of masks of a feature's value; the last row of a feature is NaN's. */
static inline int32_t sj_mask_row(const sj_forest *forest, int32_t feature, double value)
{
    const int32_t start = forest->starts[feature], n = forest->starts[feature + 1] - start;
    const int is_nan = isnan(value) || (forest->is_zero_missing[feature] && fabs(value) <= SJ_ZERO);
    return start + 2 * feature + (is_nan ? n + 1 : sj_count_below(forest->thresholds + start, n, value));
}

/* ANDs a row of masks into the words of all trees. */
static inline void sj_and_row(const sj_forest *forest, int32_t row, uint64_t *words)
{
    const int32_t n_trees = forest->shape[SJ_N_TREES];
    const uint64_t *mask = forest->masks + (size_t)row * (size_t)n_trees;
    int32_t tree;
    for (tree = 0; tree < n_trees; tree++) {
        words[tree] &= mask[tree];
    }
}

/* The leaves that can be reached by a row's first n features. */
static inline void sj_narrow(const sj_forest *forest, const double *row, int32_t n, uint64_t *words)
{
    const int32_t n_trees = forest->shape[SJ_N_TREES];
    const uint64_t *all = forest->masks + (size_t)forest->shape[SJ_N_ROWS] * (size_t)n_trees;
    int32_t feature, tree;
    for (tree = 0; tree < n_trees; tree++) {
        words[tree] = all[tree];
    }
    for (feature = 0; feature < n; feature++) {
        if (forest->starts[feature] < forest->starts[feature + 1]) {
            sj_and_row(forest, sj_mask_row(forest, feature, row[feature]), words);
        }
    }
}

/* The raw score of a whole row: a request's features, those set against the age, and what varies. */
static inline double sj_row_score(const sj_forest *forest, const double *row, void *scratch)
{
    uint64_t *words = (uint64_t *)scratch;
    double total = 0.0;
    int32_t tree;
    sj_narrow(forest, row, forest->shape[SJ_N_FEATURES] + forest->shape[SJ_N_AGED] + 1, words);
    for (tree = 0; tree < forest->shape[SJ_N_TREES]; tree++) {
        total += forest->leaves[forest->leaf_starts[tree] + sj_lowest_bit(words[tree])];
    }
    return total;
}

/* Raw scores at every step of what varies, of a model without features set against the age. */
static inline void sj_step_scores(const sj_forest *forest, const double *row, double *scores, void *scratch)
{
    uint64_t *words = (uint64_t *)scratch;
    int32_t tree, step;
    sj_narrow(forest, row, forest->shape[SJ_N_FEATURES], words);
    for (step = 0; step < forest->shape[SJ_N_STEPS]; step++) {
        scores[step] = 0.0;
    }
    for (tree = 0; tree < forest->shape[SJ_N_TREES]; tree++) {
        uint64_t word;
        for (word = words[tree]; word != 0; word &= word - 1) {
            const int32_t leaf = forest->leaf_starts[tree] + sj_lowest_bit(word);
            for (step = forest->leaf_lows[leaf]; step < forest->leaf_highs[leaf]; step++) {
                scores[step] += forest->leaves[leaf];
            }
        }
    }
}

/* Raw scores at every step, with features set against the age. */
static inline void sj_interval_scores(const sj_forest *forest, const double *row, double *scores, void *scratch)
{
    const int32_t n_steps = forest->shape[SJ_N_STEPS], n_trees = forest->shape[SJ_N_TREES];
    uint64_t *words = (uint64_t *)scratch;
    int32_t step, idx, tree;
    sj_narrow(forest, row, forest->shape[SJ_N_FEATURES], words);
    for (step = 0; step < n_steps; step++) {
        const uint64_t *varying = forest->masks + (size_t)forest->step_rows[step] * (size_t)n_trees;
        double total = 0.0;
        for (tree = 0; tree < n_trees; tree++) {
            uint64_t word = words[tree] & varying[tree];
            for (idx = 0; idx < forest->shape[SJ_N_AGED]; idx++) {
                const double value = row[forest->sources[idx]];
                const int32_t start = forest->turn_starts[idx], n = forest->turn_starts[idx + 1] - start;
                const int32_t bin = isnan(value) ? n + 1 : sj_count_below(forest->turns + start, n, value);
                const int32_t at = forest->turn_rows[(start + 2 * idx + bin) * n_steps + step];
                word &= forest->masks[(size_t)at * (size_t)n_trees + (size_t)tree];
            }
            total += forest->leaves[forest->leaf_starts[tree] + sj_lowest_bit(word)];
        }
        scores[step] = total;
    }
}

#endif
