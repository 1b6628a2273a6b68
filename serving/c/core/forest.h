/* Raw scores of a forest by leaf masks, in C99: its tables are `sojourn.serving.forest.MaskTables`.
 *
 * For each bin of each creation feature and each tree there is a word, whose bit i is set if leaf i can still be
 * reached. The AND over a request's features leaves the leaves that what varies with the age decides between. Which
 * of them is reached is found for all steps at once: a step is a bit of a word. A leaf is reached at a step if the
 * request goes left at each node that has the leaf on its left, and no leaf further left is reached.
 *
 * Each step's sum runs over the trees from first to last, so scores have the bits of the ONNX model. Nothing is
 * allocated and there is no state: any number of threads may call at once, each with its own scratch.
 */
#ifndef SJ_FOREST_H
#define SJ_FOREST_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The tables, in the order of the fields of `MaskTables`, which describes them. */
#define SJ_FOREST_FIELDS(FIELD) \
    FIELD(int32_t, shape) \
    FIELD(uint64_t, masks) \
    FIELD(double, thresholds) \
    FIELD(double, leaves) \
    FIELD(double, slot_splits) \
    FIELD(uint64_t, static_slots) \
    FIELD(uint64_t, slot_flips) \
    FIELD(double, turns) \
    FIELD(double, tops) \
    FIELD(int32_t, features) \
    FIELD(int32_t, starts) \
    FIELD(int32_t, first_rows) \
    FIELD(int32_t, nan_rows) \
    FIELD(int32_t, leaf_starts) \
    FIELD(int32_t, sources) \
    FIELD(int32_t, slot_starts) \
    FIELD(int32_t, block_starts) \
    FIELD(int32_t, level_starts) \
    FIELD(uint16_t, leaf_slots) \
    FIELD(uint16_t, pairs) \
    FIELD(uint16_t, leaf_lows) \
    FIELD(uint16_t, leaf_highs) \
    FIELD(int16_t, moves) \
    FIELD(uint8_t, levels) \
    FIELD(uint8_t, slot_is_false) \
    FIELD(uint8_t, is_zero_missing)

/* Positions in `shape`: trees, words of a row of masks, creation features with splits and all of them, age features,
 * all that varies, steps, slots that are the same for all requests, slots, pairs of slots, the row of all leaves. */
enum {
    SJ_N_TREES, SJ_N_WORDS, SJ_N_USED, SJ_N_FEATURES, SJ_N_AGED, SJ_N_VARYING, SJ_N_STEPS, SJ_N_STATIC, SJ_N_SLOTS,
    SJ_N_PAIRS, SJ_LAST_ROW
};
enum { SJ_BLOCK = 32 }; /* turns of a block */

typedef struct {
#define SJ_POINTER(type, name) const type *name;
    SJ_FOREST_FIELDS(SJ_POINTER)
#undef SJ_POINTER
} sj_forest;

/* LightGBM's kZeroThreshold as a double: smaller absolute values are zero. */
#define SJ_ZERO 0x1.a95a5cp-117
#define SJ_ALL UINT64_MAX

/* Bytes of scratch that a call needs, aligned as malloc aligns. */
static inline size_t sj_scratch_bytes(const sj_forest *forest)
{
    const int32_t *shape = forest->shape;
    const size_t n_rows = (size_t)(shape[SJ_N_USED] + shape[SJ_N_VARYING] + 1);
    return sizeof(uint64_t) * (size_t)(shape[SJ_N_WORDS] + shape[SJ_N_SLOTS] + shape[SJ_N_PAIRS] + 1) +
           sizeof(int32_t) * n_rows + (size_t)shape[SJ_N_SLOTS];
}

/* The parts of the scratch. */
typedef struct {
    uint64_t *words, *slots; /* the leaves of each tree that are left; the steps at which a slot's nodes go left */
    int32_t *rows;           /* the rows of masks of a request */
    uint8_t *levels;         /* the steps at which slots turn */
    int32_t n_rows;
} sj_work;

static inline sj_work sj_work_in(const sj_forest *forest, void *scratch)
{
    const int32_t *shape = forest->shape;
    sj_work work;
    work.words = (uint64_t *)scratch;
    work.slots = work.words + shape[SJ_N_WORDS];
    work.rows = (int32_t *)(void *)(work.slots + shape[SJ_N_SLOTS] + shape[SJ_N_PAIRS] + 1);
    work.levels = (uint8_t *)(void *)(work.rows + shape[SJ_N_USED] + shape[SJ_N_VARYING] + 1);
    work.n_rows = 0;
    return work;
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

/* How many of n rising values, at least one, are below a value; n may count infinite ones at the end. */
static inline int32_t sj_count_below(const double *values, int32_t n, double value)
{
    const double *base = values;
    while (n > 1) {
        const int32_t half = n / 2;
        base += base[half - 1] < value ? half : 0;
        n -= half;
    }
    return (int32_t)(base - values) + (*base < value);
}

/* Writes the rows of masks of a request's creation features. */
static inline void sj_find_rows(const sj_forest *forest, const double *row, sj_work *work)
{
    int32_t idx;
    for (idx = 0; idx < forest->shape[SJ_N_USED]; idx++) {
        const double value = row[forest->features[idx]];
        const int32_t start = forest->starts[idx], n = forest->starts[idx + 1] - start;
        if (isnan(value) || (forest->is_zero_missing[idx] && fabs(value) <= SJ_ZERO)) {
            work->rows[idx] = forest->nan_rows[idx];
        } else {
            work->rows[idx] = forest->first_rows[idx] + sj_count_below(forest->thresholds + start, n, value);
        }
    }
    work->n_rows = forest->shape[SJ_N_USED];
}

/* Adds NaN's row of the varying feature of a number, whose slots then say nothing. */
static inline void sj_add_nan_row(const sj_forest *forest, int32_t number, sj_work *work)
{
    work->rows[work->n_rows++] = forest->shape[SJ_LAST_ROW] - forest->shape[SJ_N_VARYING] + number;
}

/* The leaves that the rows leave over. */
static inline void sj_narrow(const sj_forest *forest, sj_work *work)
{
    const int32_t n_words = forest->shape[SJ_N_WORDS];
    int32_t idx, tree;
    memcpy(work->words, forest->masks + (size_t)forest->shape[SJ_LAST_ROW] * (size_t)n_words,
           sizeof(uint64_t) * (size_t)n_words);
    for (idx = 0; idx < work->n_rows; idx++) {
        const uint64_t *mask = forest->masks + (size_t)work->rows[idx] * (size_t)n_words;
        for (tree = 0; tree < n_words; tree++) {
            work->words[tree] &= mask[tree];
        }
    }
}

static inline void sj_join_pairs(const sj_forest *forest, uint64_t *slots)
{
    const int32_t n = forest->shape[SJ_N_SLOTS];
    int32_t idx;
    for (idx = 0; idx < forest->shape[SJ_N_PAIRS]; idx++) {
        slots[n + idx] = slots[forest->pairs[2 * idx]] & slots[forest->pairs[2 * idx + 1]];
    }
}

/* The steps at which nodes on what varies go left, for each slot. */
static inline void sj_fill_slots(const sj_forest *forest, const double *row, sj_work *work)
{
    int32_t idx, slot;
    memcpy(work->slots, forest->static_slots, sizeof(uint64_t) * (size_t)forest->shape[SJ_N_STATIC]);
    for (idx = 0; idx < forest->shape[SJ_N_AGED]; idx++) {
        const double value = row[forest->sources[idx]];
        const int32_t first = forest->slot_starts[idx], n = forest->slot_starts[idx + 1] - first;
        const int32_t start = forest->block_starts[idx], n_blocks = forest->block_starts[idx + 1] - start;
        uint64_t *slots = work->slots + first;
        int32_t block, turn;
        if (isnan(value)) {
            for (slot = 0; slot < n; slot++) {
                slots[slot] = SJ_ALL;
            }
            sj_add_nan_row(forest, idx, work);
            continue;
        }
        block = sj_count_below(forest->tops + start, n_blocks, value);
        memcpy(work->levels, forest->levels + forest->level_starts[idx] + (size_t)block * (size_t)n, (size_t)n);
        for (turn = (start + block) * SJ_BLOCK; forest->turns[turn] < value; turn++) {
            const int move = forest->moves[turn];
            if (move > 0) {
                work->levels[move - 1]++;
            } else {
                work->levels[-move - 1]--;
            }
        }
        for (slot = 0; slot < n; slot++) {
            slots[slot] = (SJ_ALL << work->levels[slot]) ^ forest->slot_flips[first + slot];
        }
    }
    sj_join_pairs(forest, work->slots);
}

/* The raw score of a whole row: a request's features, those set against the age, and what varies. */
static inline double sj_row_score(const sj_forest *forest, const double *row, void *scratch)
{
    sj_work work = sj_work_in(forest, scratch);
    double total = 0.0;
    int32_t idx, slot = 1, tree;
    sj_find_rows(forest, row, &work);
    work.slots[0] = SJ_ALL;
    for (idx = -1; idx < forest->shape[SJ_N_AGED] && forest->shape[SJ_N_VARYING] > 0; idx++) { /* -1: the last one */
        const int32_t number = idx < 0 ? forest->shape[SJ_N_AGED] : idx;
        const int32_t stop = idx < 0 ? forest->shape[SJ_N_STATIC] : forest->slot_starts[idx + 1];
        const double value = row[forest->shape[SJ_N_FEATURES] + number];
        if (isnan(value)) {
            sj_add_nan_row(forest, number, &work);
        }
        for (; slot < stop; slot++) {
            const int is_left = (value <= forest->slot_splits[slot]) != forest->slot_is_false[slot];
            work.slots[slot] = is_left || isnan(value) ? SJ_ALL : 0;
        }
    }
    sj_join_pairs(forest, work.slots);
    sj_narrow(forest, &work);
    for (tree = 0; tree < forest->shape[SJ_N_TREES]; tree++) {
        uint64_t word = work.words[tree];
        int32_t leaf;
        do {
            leaf = forest->leaf_starts[tree] + sj_lowest_bit(word);
            word &= word - 1;
        } while (!(work.slots[forest->leaf_slots[2 * leaf]] & work.slots[forest->leaf_slots[2 * leaf + 1]]));
        total += forest->leaves[leaf];
    }
    return total;
}

/* Raw scores at every step of what varies, of a model without features set against the age. */
static inline void sj_step_scores(const sj_forest *forest, const double *row, double *scores, void *scratch)
{
    sj_work work = sj_work_in(forest, scratch);
    int32_t tree, step;
    sj_find_rows(forest, row, &work);
    sj_narrow(forest, &work);
    for (step = 0; step < forest->shape[SJ_N_STEPS]; step++) {
        scores[step] = 0.0;
    }
    for (tree = 0; tree < forest->shape[SJ_N_TREES]; tree++) {
        uint64_t word;
        for (word = work.words[tree]; word != 0; word &= word - 1) {
            const int32_t leaf = forest->leaf_starts[tree] + sj_lowest_bit(word), high = forest->leaf_highs[leaf];
            const double value = forest->leaves[leaf];
            for (step = forest->leaf_lows[leaf]; step < high; step++) {
                scores[step] += value;
            }
        }
    }
}

/* Adds each tree's leaves to the steps at which they are reached. */
static inline void sj_add_leaves(const sj_forest *forest, const sj_work *work, double *scores)
{
    const uint64_t *slots = work->slots;
    const uint64_t steps = ((uint64_t)1 << forest->shape[SJ_N_STEPS]) - 1;
    int32_t tree, step;
    for (step = 0; step < forest->shape[SJ_N_STEPS]; step++) {
        scores[step] = 0.0;
    }
    for (tree = 0; tree < forest->shape[SJ_N_TREES]; tree++) {
        uint64_t word, left = steps; /* the steps without a leaf so far */
        for (word = work->words[tree]; word != 0; word &= word - 1) {
            const int32_t leaf = forest->leaf_starts[tree] + sj_lowest_bit(word);
            const uint16_t *pair = forest->leaf_slots + 2 * leaf;
            const double value = forest->leaves[leaf];
            uint64_t reached = left & slots[pair[0]] & slots[pair[1]];
            left &= ~reached;
            if (reached != 0) { /* a run of steps, since nodes turn once */
                for (step = sj_lowest_bit(reached); reached >> step & 1; step++) {
                    scores[step] += value;
                }
            }
        }
    }
}

/* Raw scores at every step, at most 63, with features set against the age. */
static inline void sj_interval_scores(const sj_forest *forest, const double *row, double *scores, void *scratch)
{
    sj_work work = sj_work_in(forest, scratch);
    sj_find_rows(forest, row, &work);
    sj_fill_slots(forest, row, &work);
    sj_narrow(forest, &work);
    sj_add_leaves(forest, &work, scores);
}

#endif
