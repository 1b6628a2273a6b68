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
    FIELD(uint32_t, leaf_slots) \
    FIELD(uint16_t, leaf_steps) \
    FIELD(uint16_t, pairs) \
    FIELD(uint16_t, moves) \
    FIELD(uint8_t, levels) \
    FIELD(uint8_t, slot_is_false) \
    FIELD(uint8_t, is_zero_missing)

/* Positions in `shape`: trees, words of a row of masks, creation features with splits and all of them, age features,
 * all that varies, steps, slots that are the same for all requests, slots, pairs of slots, the row of all leaves. */
enum {
    SJ_N_TREES, SJ_N_WORDS, SJ_N_USED, SJ_N_FEATURES, SJ_N_AGED, SJ_N_VARYING, SJ_N_STEPS, SJ_N_STATIC, SJ_N_SLOTS,
    SJ_N_PAIRS, SJ_LAST_ROW
};
enum { SJ_BLOCK = 32, SJ_LANES = 8, SJ_N_BUFFERED = 64 }; /* turns; words of a vector; parts of trees */

typedef struct {
#define SJ_POINTER(type, name) const type *name;
    SJ_FOREST_FIELDS(SJ_POINTER)
#undef SJ_POINTER
} sj_forest;

/* LightGBM's kZeroThreshold as a double: smaller absolute values are zero. */
#define SJ_ZERO 0x1.a95a5cp-117
#define SJ_ALL UINT64_MAX

/* The code is compiled for several kinds of vector instructions, and each call takes those that the processor has.
 * SJ_PLAIN leaves all of them out, SJ_NO_AVX512 the widest. */
#if defined(__GNUC__) && defined(__x86_64__) && !defined(SJ_PLAIN)
#define SJ_X86 1
#include <immintrin.h>
#define SJ_AVX2 __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define SJ_AVX512 __attribute__((target("avx512f,avx512dq,avx512bw,bmi,bmi2,popcnt")))
#else
#define SJ_X86 0
#endif
#ifdef __GNUC__
#define SJ_INLINE static inline __attribute__((always_inline)) /* so that callers' instructions are used */
#define SJ_UNROLL_8 _Pragma("GCC unroll 8")
#else
#define SJ_INLINE static inline
#define SJ_UNROLL_8
#endif

/* The leaves of a tree between which what varies decides, up to 8 of them. Bit i of words 0 to 2 is the number of the
 * leaf of step i. If there are more leaves, the last of 8 is none and adds 0, and the tree's next part follows. */
typedef struct {
    double values[8];
    uint64_t bits[3];
} sj_part;

/* The scratch of a call. */
typedef struct {
    uint64_t *words, *slots; /* the leaves of each tree that are left; the steps at which a slot's nodes go left */
    double *values;          /* of the creation features with splits */
    int32_t *rows;           /* the rows of masks of a request */
    sj_part *parts;
    int32_t n_rows;
} sj_work;

/* Bytes of scratch that a call needs, aligned as malloc aligns. */
static inline size_t sj_scratch_bytes(const sj_forest *forest)
{
    const int32_t *shape = forest->shape;
    const size_t n_words = (size_t)(shape[SJ_N_WORDS] + shape[SJ_N_SLOTS] + shape[SJ_N_PAIRS] + SJ_LANES);
    const size_t n_rows = (size_t)(shape[SJ_N_USED] + shape[SJ_N_VARYING] + 1);
    return sizeof(sj_part) * SJ_N_BUFFERED + sizeof(uint64_t) * (n_words + 2 * n_rows);
}

SJ_INLINE sj_work sj_work_in(const sj_forest *forest, void *scratch)
{
    const int32_t *shape = forest->shape;
    sj_work work;
    work.parts = (sj_part *)scratch;
    work.words = (uint64_t *)(void *)(work.parts + SJ_N_BUFFERED);
    work.slots = work.words + shape[SJ_N_WORDS];
    work.values = (double *)(void *)(work.slots + shape[SJ_N_SLOTS] + shape[SJ_N_PAIRS] + SJ_LANES);
    work.rows = (int32_t *)(void *)(work.values + shape[SJ_N_USED] + shape[SJ_N_VARYING] + 1);
    work.n_rows = 0;
    return work;
}

SJ_INLINE size_t sj_lowest_bit(uint64_t word)
{
#ifdef __GNUC__
    return (size_t)__builtin_ctzll(word);
#else
    size_t place = 0;
    while (!(word & 1)) {
        word >>= 1;
        place++;
    }
    return place;
#endif
}

/* How many of n rising values are below a value; n is a multiple of 8, above 0. */
SJ_INLINE int32_t sj_count_below(const double *values, int32_t n, double value)
{
    int32_t idx, n_blocks = 0, n_below = 0;
    for (idx = SJ_LANES - 1; idx < n - 1; idx += SJ_LANES) { /* without branches that depend on the value */
        n_blocks += values[idx] < value;
    }
    for (idx = 0; idx < SJ_LANES; idx++) {
        n_below += values[n_blocks * SJ_LANES + idx] < value;
    }
    return n_blocks * SJ_LANES + n_below;
}

/* Turns the numbers of thresholds below the values into rows of masks. */
SJ_INLINE void sj_finish_rows(const sj_forest *forest, sj_work *work)
{
    const int32_t n = forest->shape[SJ_N_USED];
    int32_t idx;
    for (idx = 0; idx < n; idx++) {
        const double value = work->values[idx];
        const int is_nan = (value != value) | ((fabs(value) <= SJ_ZERO) & forest->is_zero_missing[idx]);
        work->rows[idx] = is_nan ? forest->nan_rows[idx] : forest->first_rows[idx] + work->rows[idx];
    }
    work->n_rows = n;
}

/* Writes the rows of masks of a request's creation features. */
SJ_INLINE void sj_find_rows(const sj_forest *forest, const double *row, sj_work *work)
{
    int32_t idx;
    for (idx = 0; idx < forest->shape[SJ_N_USED]; idx++) {
        const int32_t start = forest->starts[idx], n = forest->starts[idx + 1] - start;
        work->values[idx] = row[forest->features[idx]];
        work->rows[idx] = sj_count_below(forest->thresholds + start, n, work->values[idx]);
    }
    sj_finish_rows(forest, work);
}

/* Adds NaN's row of the varying feature of a number, whose slots then say nothing. */
SJ_INLINE void sj_add_nan_row(const sj_forest *forest, int32_t number, sj_work *work)
{
    work->rows[work->n_rows++] = forest->shape[SJ_LAST_ROW] - forest->shape[SJ_N_VARYING] + number;
}

/* The leaves that the rows leave over. */
SJ_INLINE void sj_narrow(const sj_forest *forest, sj_work *work)
{
    const int32_t n_words = forest->shape[SJ_N_WORDS];
    int32_t idx, first, lane;
    for (first = 0; first < n_words; first += SJ_LANES) {
        uint64_t left[SJ_LANES];
        memcpy(left, forest->masks + (size_t)forest->shape[SJ_LAST_ROW] * (size_t)n_words + first, sizeof left);
        for (idx = 0; idx < work->n_rows; idx++) {
            const uint64_t *mask = forest->masks + (size_t)work->rows[idx] * (size_t)n_words + first;
            for (lane = 0; lane < SJ_LANES; lane++) {
                left[lane] &= mask[lane];
            }
        }
        memcpy(work->words + first, left, sizeof left);
    }
}

SJ_INLINE void sj_join_pairs(const sj_forest *forest, uint64_t *slots)
{
    const int32_t n = forest->shape[SJ_N_SLOTS];
    int32_t idx;
    for (idx = 0; idx < forest->shape[SJ_N_PAIRS]; idx++) {
        slots[n + idx] = slots[forest->pairs[2 * idx]] & slots[forest->pairs[2 * idx + 1]];
    }
}

/* How many of n rising values, at least one, are below a value; by search. */
SJ_INLINE int32_t sj_search_below(const double *values, int32_t n, double value)
{
    const double *base = values;
    while (n > 1) {
        const int32_t half = n / 2;
        base += base[half - 1] < value ? half : 0;
        n -= half;
    }
    return (int32_t)(base - values) + (*base < value);
}

/* The steps at which nodes on what varies go left, for each slot. */
SJ_INLINE void sj_fill_slots(const sj_forest *forest, const double *row, sj_work *work)
{
    int32_t idx, slot, turn;
    memcpy(work->slots, forest->static_slots, sizeof(uint64_t) * (size_t)forest->shape[SJ_N_STATIC]);
    for (idx = 0; idx < forest->shape[SJ_N_AGED]; idx++) {
        const double value = row[forest->sources[idx]];
        const int32_t first = forest->slot_starts[idx], n = forest->slot_starts[idx + 1] - first;
        const int32_t start = forest->block_starts[idx], n_blocks = forest->block_starts[idx + 1] - start;
        uint64_t *slots = work->slots + first;
        if (value != value) {
            for (slot = 0; slot < n; slot++) {
                slots[slot] = SJ_ALL;
            }
            sj_add_nan_row(forest, idx, work);
        } else {
            const int32_t block = sj_search_below(forest->tops + start, n_blocks, value);
            const uint8_t *levels = forest->levels + forest->level_starts[idx] + (size_t)block * (size_t)n;
            const uint64_t *flips = forest->slot_flips + first;
            const double *turns = forest->turns + (size_t)(start + block) * SJ_BLOCK;
            const uint16_t *moves = forest->moves + (size_t)(start + block) * SJ_BLOCK;
            for (slot = 0; slot < n; slot++) {
                slots[slot] = (SJ_ALL << levels[slot]) ^ flips[slot];
            }
            for (turn = 0; turns[turn] < value; turn++) { /* the last turn of a block is not below */
                slots[moves[turn] >> 6] ^= (uint64_t)1 << (moves[turn] & 63);
            }
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
        if (value != value) {
            sj_add_nan_row(forest, number, &work);
        }
        for (; slot < stop; slot++) {
            const int is_left = (value <= forest->slot_splits[slot]) != forest->slot_is_false[slot];
            work.slots[slot] = is_left || value != value ? SJ_ALL : 0;
        }
    }
    sj_join_pairs(forest, work.slots);
    sj_narrow(forest, &work);
    for (tree = 0; tree < forest->shape[SJ_N_TREES]; tree++) {
        uint64_t word = work.words[tree];
        size_t leaf;
        do {
            leaf = (size_t)forest->leaf_starts[tree] + sj_lowest_bit(word);
            word &= word - 1;
        } while (!(work.slots[forest->leaf_slots[leaf] & 0xffff] & work.slots[forest->leaf_slots[leaf] >> 16]));
        total += forest->leaves[leaf];
    }
    return total;
}

/* Raw scores at every step of what varies, of a model without features set against the age. */
SJ_INLINE void sj_step_scores_of(const sj_forest *forest, const sj_work *work, double *scores)
{
    int32_t tree, step;
    for (step = 0; step < forest->shape[SJ_N_STEPS]; step++) {
        scores[step] = 0.0;
    }
    for (tree = 0; tree < forest->shape[SJ_N_TREES]; tree++) {
        uint64_t word;
        for (word = work->words[tree]; word != 0; word &= word - 1) {
            const size_t leaf = (size_t)forest->leaf_starts[tree] + sj_lowest_bit(word);
            const int32_t high = forest->leaf_steps[2 * leaf + 1];
            const double value = forest->leaves[leaf];
            for (step = forest->leaf_steps[2 * leaf]; step < high; step++) {
                scores[step] += value;
            }
        }
    }
}

/* Writes the parts of trees from `*tree` on, as many as the buffer takes; returns their number. No branch depends on
 * the request but for trees with more than 8 leaves left. If a tree has fewer, what is read beyond them is not reached,
 * since all steps have a leaf by then. */
SJ_INLINE int32_t sj_next_parts(const sj_forest *forest, const sj_work *work, int32_t *tree)
{
    const uint64_t *slots = work->slots;
    const uint64_t last = (uint64_t)1 << 63, steps = ((uint64_t)1 << forest->shape[SJ_N_STEPS]) - 1;
    sj_part *part = work->parts;
    for (; *tree < forest->shape[SJ_N_TREES] && part < work->parts + SJ_N_BUFFERED - 10; (*tree)++) {
        const double *leaves = forest->leaves + forest->leaf_starts[*tree];
        const uint32_t *leaf_slots = forest->leaf_slots + forest->leaf_starts[*tree];
        uint64_t word = work->words[*tree], left = steps; /* the steps without a leaf so far */
        do {
            uint64_t at[8], in_1, in_2, in_3, in_4, in_5, in_6; /* in: steps of this part's leaves up to a number */
            int number;
            SJ_UNROLL_8 for (number = 0; number < 8; number++)
            {
                const size_t leaf = sj_lowest_bit(word | last);
                const uint32_t pair = leaf_slots[leaf];
                part->values[number] = leaves[leaf];
                at[number] = slots[pair & 0xffff] & slots[pair >> 16];
                word &= number < 7 ? word - 1 : word;
            }
            in_1 = at[0] | at[1];
            in_2 = in_1 | at[2];
            in_3 = in_2 | at[3];
            in_4 = in_3 | at[4];
            in_5 = in_4 | at[5];
            in_6 = in_5 | at[6];
            part->bits[0] = (in_1 & ~at[0]) | (in_3 & ~in_2) | (in_5 & ~in_4) | ~(in_6 & left);
            part->bits[1] = (in_3 & ~in_1) | ~(in_5 & left);
            part->bits[2] = ~(in_3 & left);
            if (left == steps && ((in_6 | at[7]) & steps) == steps) {
                left = 0;
            } else {
                part->values[7] = 0.0;
                left &= ~in_6;
            }
            part++;
        } while (left != 0);
    }
    return (int32_t)(part - work->parts);
}

/* Adds parts to the scores of all steps. Adding 0 changes nothing: no sum is -0, since it begins with 0. */
SJ_INLINE void sj_add_parts(const sj_part *parts, int32_t n, int32_t n_steps, double *scores)
{
    int32_t idx, step;
    for (idx = 0; idx < n; idx++) {
        const sj_part *part = parts + idx;
        for (step = 0; step < n_steps; step++) {
            const uint64_t bit_0 = part->bits[0] >> step & 1, bit_1 = part->bits[1] >> step & 1;
            scores[step] += part->values[bit_0 | bit_1 << 1 | (part->bits[2] >> step & 1) << 2];
        }
    }
}

#if SJ_X86
/* The same with vectors of 4, chosen by blends; a gather takes longer. */
SJ_AVX2 static inline void sj_add_parts_256(const sj_part *parts, int32_t n, int32_t n_steps, double *scores)
{
    int32_t first, idx, at;
    for (first = 0; first < n_steps; first += 8) {
        const int32_t n_now = n_steps - first < 8 ? n_steps - first : 8;
        double sums[8];
        __m256d sum[2];
        __m256i shift[2]; /* what brings a step's bit to the top, where blends read it */
        memset(sums, 0, sizeof sums);
        memcpy(sums, scores + first, sizeof(double) * (size_t)n_now);
        SJ_UNROLL_8 for (at = 0; at < 2; at++)
        {
            const long long top = 63 - first - 4 * at;
            sum[at] = _mm256_loadu_pd(sums + 4 * at);
            shift[at] = _mm256_setr_epi64x(top, top - 1, top - 2, top - 3);
        }
        for (idx = 0; idx < n; idx++) {
            const sj_part *part = parts + idx;
            const __m256i word_0 = _mm256_set1_epi64x((long long)part->bits[0]);
            const __m256i word_1 = _mm256_set1_epi64x((long long)part->bits[1]);
            const __m256i word_2 = _mm256_set1_epi64x((long long)part->bits[2]);
            SJ_UNROLL_8 for (at = 0; at < 2; at++)
            {
                const __m256d bit_0 = _mm256_castsi256_pd(_mm256_sllv_epi64(word_0, shift[at]));
                const __m256d bit_1 = _mm256_castsi256_pd(_mm256_sllv_epi64(word_1, shift[at]));
                const __m256d bit_2 = _mm256_castsi256_pd(_mm256_sllv_epi64(word_2, shift[at]));
#define SJ_PAIR(one) \
    _mm256_blendv_pd(_mm256_broadcast_sd(part->values + (one)), _mm256_broadcast_sd(part->values + (one) + 1), bit_0)
                const __m256d low = _mm256_blendv_pd(SJ_PAIR(0), SJ_PAIR(2), bit_1);
                const __m256d high = _mm256_blendv_pd(SJ_PAIR(4), SJ_PAIR(6), bit_1);
#undef SJ_PAIR
                sum[at] = _mm256_add_pd(sum[at], _mm256_blendv_pd(low, high, bit_2));
            }
        }
        _mm256_storeu_pd(sums, sum[0]);
        _mm256_storeu_pd(sums + 4, sum[1]);
        memcpy(scores + first, sums, sizeof(double) * (size_t)n_now);
    }
}

SJ_AVX2 static inline void sj_find_rows_256(const sj_forest *forest, const double *row, sj_work *work)
{
    int32_t idx, at;
    for (idx = 0; idx < forest->shape[SJ_N_USED]; idx++) {
        const double value = row[forest->features[idx]];
        const __m256d values = _mm256_set1_pd(value);
        int32_t n_below = 0;
        for (at = forest->starts[idx]; at < forest->starts[idx + 1]; at += SJ_LANES) {
            const __m256d low = _mm256_cmp_pd(_mm256_loadu_pd(forest->thresholds + at), values, _CMP_LT_OQ);
            const __m256d high = _mm256_cmp_pd(_mm256_loadu_pd(forest->thresholds + at + 4), values, _CMP_LT_OQ);
            n_below += __builtin_popcount((unsigned)(_mm256_movemask_pd(low) | _mm256_movemask_pd(high) << 4));
        }
        work->values[idx] = value;
        work->rows[idx] = n_below;
    }
    sj_finish_rows(forest, work);
}

SJ_AVX2 static inline void sj_narrow_256(const sj_forest *forest, const sj_work *work)
{
    const int32_t n_words = forest->shape[SJ_N_WORDS];
    const uint64_t *all = forest->masks + (size_t)forest->shape[SJ_LAST_ROW] * (size_t)n_words;
    int32_t first = 0, idx, at;
#define SJ_AT(from) (const __m256i *)(const void *)(from + first + 4 * at)
#define SJ_PASS(n) \
    { \
        __m256i left[n]; \
        _Pragma("GCC unroll 12") for (at = 0; at < n; at++) \
        { \
            left[at] = _mm256_loadu_si256(SJ_AT(all)); \
        } \
        for (idx = 0; idx < work->n_rows; idx++) { \
            const uint64_t *mask = forest->masks + (size_t)work->rows[idx] * (size_t)n_words; \
            _Pragma("GCC unroll 12") for (at = 0; at < n; at++) \
            { \
                left[at] = _mm256_and_si256(left[at], _mm256_loadu_si256(SJ_AT(mask))); \
            } \
        } \
        _Pragma("GCC unroll 12") for (at = 0; at < n; at++) \
        { \
            _mm256_storeu_si256((__m256i *)(void *)(work->words + first + 4 * at), left[at]); \
        } \
        first += 4 * n; \
    }
    while (n_words - first >= 48) SJ_PASS(12)
    while (n_words - first >= 16) SJ_PASS(4)
    while (n_words - first >= 8) SJ_PASS(2)
#undef SJ_PASS
#undef SJ_AT
}

/* The same with vectors of 8: 40 steps at once. */
SJ_AVX512 static inline void sj_add_parts_512(const sj_part *parts, int32_t n, int32_t n_steps, double *scores)
{
    const __m512i one = _mm512_set1_epi8(1), two = _mm512_set1_epi8(2), four = _mm512_set1_epi8(4);
    int32_t first, idx;
    for (first = 0; first < n_steps; first += 40) {
        const int32_t n_now = n_steps - first < 40 ? n_steps - first : 40;
        double sums[40];
        uint8_t numbers[64];
        __m512d sum_0, sum_1, sum_2, sum_3, sum_4;
        memcpy(sums, scores + first, sizeof(double) * (size_t)n_now);
        sum_0 = _mm512_loadu_pd(sums);
        sum_1 = _mm512_loadu_pd(sums + 8);
        sum_2 = _mm512_loadu_pd(sums + 16);
        sum_3 = _mm512_loadu_pd(sums + 24);
        sum_4 = _mm512_loadu_pd(sums + 32);
        for (idx = 0; idx < n; idx++) {
            const __m512d values = _mm512_loadu_pd(parts[idx].values);
            __m512i at = _mm512_maskz_mov_epi8(parts[idx].bits[0] >> first, one);
            at = _mm512_mask_add_epi8(at, parts[idx].bits[1] >> first, at, two);
            at = _mm512_mask_add_epi8(at, parts[idx].bits[2] >> first, at, four);
            _mm512_storeu_si512(numbers, at);
#define SJ_ADD(sum, from) \
    sum = _mm512_add_pd(sum, _mm512_maskz_permutexvar_pd( \
        0xff, _mm512_maskz_cvtepu8_epi64(0xff, _mm_loadl_epi64((const __m128i *)(const void *)(numbers + from))), \
        values));
            SJ_ADD(sum_0, 0) SJ_ADD(sum_1, 8) SJ_ADD(sum_2, 16) SJ_ADD(sum_3, 24) SJ_ADD(sum_4, 32)
#undef SJ_ADD
        }
        _mm512_storeu_pd(sums, sum_0);
        _mm512_storeu_pd(sums + 8, sum_1);
        _mm512_storeu_pd(sums + 16, sum_2);
        _mm512_storeu_pd(sums + 24, sum_3);
        _mm512_storeu_pd(sums + 32, sum_4);
        memcpy(scores + first, sums, sizeof(double) * (size_t)n_now);
    }
}

SJ_AVX512 static inline int32_t sj_count_below_512(const double *values, int32_t n, double value)
{
    int32_t idx, n_below = 0;
    for (idx = 0; idx < n; idx += SJ_LANES) {
        n_below += __builtin_popcount(_mm512_cmp_pd_mask(_mm512_loadu_pd(values + idx), _mm512_set1_pd(value), _CMP_LT_OQ));
    }
    return n_below;
}

SJ_AVX512 static inline void sj_find_rows_512(const sj_forest *forest, const double *row, sj_work *work)
{
    int32_t idx;
    for (idx = 0; idx < forest->shape[SJ_N_USED]; idx++) {
        const int32_t start = forest->starts[idx];
        work->values[idx] = row[forest->features[idx]];
        work->rows[idx] = sj_count_below_512(forest->thresholds + start, forest->starts[idx + 1] - start,
                                             work->values[idx]);
    }
    sj_finish_rows(forest, work);
}

SJ_AVX512 static inline void sj_narrow_512(const sj_forest *forest, const sj_work *work)
{
    const int32_t n_words = forest->shape[SJ_N_WORDS];
    const uint64_t *all = forest->masks + (size_t)forest->shape[SJ_LAST_ROW] * (size_t)n_words;
    int32_t first = 0, idx, at;
#define SJ_PASS(n) \
    { \
        __m512i left[n]; \
        _Pragma("GCC unroll 13") for (at = 0; at < n; at++) \
        { \
            left[at] = _mm512_loadu_si512(all + first + SJ_LANES * at); \
        } \
        for (idx = 0; idx < work->n_rows; idx++) { \
            const uint64_t *mask = forest->masks + (size_t)work->rows[idx] * (size_t)n_words + first; \
            _Pragma("GCC unroll 13") for (at = 0; at < n; at++) \
            { \
                left[at] = _mm512_and_si512(left[at], _mm512_loadu_si512(mask + SJ_LANES * at)); \
            } \
        } \
        _Pragma("GCC unroll 13") for (at = 0; at < n; at++) \
        { \
            _mm512_storeu_si512(work->words + first + SJ_LANES * at, left[at]); \
        } \
        first += SJ_LANES * n; \
    }
    while (n_words - first >= 13 * SJ_LANES) SJ_PASS(13)
    while (n_words - first >= 4 * SJ_LANES) SJ_PASS(4)
    while (n_words - first >= SJ_LANES) SJ_PASS(1)
#undef SJ_PASS
}

/* All of it for one kind of instructions. */
#define SJ_SCORES(width) \
    int32_t tree = 0; \
    sj_find_rows_##width(forest, row, work); \
    sj_fill_slots(forest, row, work); \
    sj_narrow_##width(forest, work); \
    while (tree < forest->shape[SJ_N_TREES]) { \
        const int32_t n = sj_next_parts(forest, work, &tree); \
        sj_add_parts_##width(work->parts, n, forest->shape[SJ_N_STEPS], scores); \
    }

SJ_AVX2 static inline void sj_interval_scores_256(const sj_forest *forest, const double *row, double *scores,
                                                  sj_work *work)
{
    SJ_SCORES(256)
}

SJ_AVX512 static inline void sj_interval_scores_512(const sj_forest *forest, const double *row, double *scores,
                                                    sj_work *work)
{
    SJ_SCORES(512)
}
#undef SJ_SCORES
#endif

/* Raw scores at every step, at most 63, with features set against the age. */
static inline void sj_interval_scores(const sj_forest *forest, const double *row, double *scores, void *scratch)
{
    sj_work work = sj_work_in(forest, scratch);
    int32_t tree = 0;
    memset(scores, 0, sizeof(double) * (size_t)forest->shape[SJ_N_STEPS]);
#if SJ_X86
#ifndef SJ_NO_AVX512
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")) {
        sj_interval_scores_512(forest, row, scores, &work);
        return;
    }
#endif
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) {
        sj_interval_scores_256(forest, row, scores, &work);
        return;
    }
#endif
    sj_find_rows(forest, row, &work);
    sj_fill_slots(forest, row, &work);
    sj_narrow(forest, &work);
    while (tree < forest->shape[SJ_N_TREES]) {
        const int32_t n = sj_next_parts(forest, &work, &tree);
        sj_add_parts(work.parts, n, forest->shape[SJ_N_STEPS], scores);
    }
}

static inline void sj_step_scores(const sj_forest *forest, const double *row, double *scores, void *scratch)
{
    sj_work work = sj_work_in(forest, scratch);
    sj_find_rows(forest, row, &work);
    sj_narrow(forest, &work);
    sj_step_scores_of(forest, &work, scores);
}

#endif
