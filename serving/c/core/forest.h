/* Raw scores of a forest by leaf masks, in C99: its tables are `sojourn.serving.forest.MaskTables`.
 *
 * For each bin of each creation feature and each tree there is a word, whose bit i is set if leaf i can still be
 * reached. The AND over a request's features leaves the leaves that what varies with the age decides between. Which
 * of them is reached is found for all steps at once: a step is a bit of a word. A leaf is reached at a step unless the
 * request goes right at a node that has the leaf on its left, or a leaf further left is reached.
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
    FIELD(double, zeros) \
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
    FIELD(uint16_t, leaf_steps) \
    FIELD(uint16_t, pairs) \
    FIELD(uint16_t, moves) \
    FIELD(uint8_t, levels) \
    FIELD(uint8_t, slot_is_false)

/* Positions in `shape`: trees, words of a row of masks, creation features with splits and all of them, age features,
 * all that varies, steps, slots that are the same for all requests, slots, pairs of slots, the row of all leaves. */
enum {
    SJ_N_TREES, SJ_N_WORDS, SJ_N_USED, SJ_N_FEATURES, SJ_N_AGED, SJ_N_VARYING, SJ_N_STEPS, SJ_N_STATIC, SJ_N_SLOTS,
    SJ_N_PAIRS, SJ_LAST_ROW
};
enum { SJ_BLOCK = 32, SJ_LANES = 8, SJ_N_BUFFERED = 64, SJ_N_AT_ONCE = 8 }; /* turns; words of a vector; parts */

typedef struct {
#define SJ_POINTER(type, name) const type *name;
    SJ_FOREST_FIELDS(SJ_POINTER)
#undef SJ_POINTER
} sj_forest;

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
#define SJ_FETCH(address) __builtin_prefetch(address);
#define SJ_ALIGNED __attribute__((aligned(64))) /* to cache lines: else each vector lies in two */
#define SJ_PRAGMA(text) _Pragma(#text)
#define SJ_UNROLL(n) SJ_PRAGMA(GCC unroll n)
#else
#define SJ_INLINE static inline
#define SJ_FETCH(address)
#define SJ_ALIGNED
#define SJ_UNROLL(n)
#endif

/* The leaves of a tree between which what varies decides, up to 8 of them. Bit i of words 0 to 2 is the number of the
 * leaf of step i. If there are more leaves, the last of 8 is none and adds 0, and the tree's next part follows. */
typedef struct {
    double values[8];
    uint64_t bits[3];
} sj_part;

/* The scratch of a call. */
typedef struct {
    uint64_t *words, *slots; /* the leaves of each tree that are left; the steps at which a slot's nodes go right */
    int32_t *rows;           /* the rows of masks of a request */
    sj_part *parts;
    int32_t n_rows;
} sj_work;

/* Bytes of scratch that a call needs, aligned as malloc aligns. */
static inline size_t sj_scratch_bytes(const sj_forest *forest)
{
    const int32_t *shape = forest->shape;
    const int32_t n_words = shape[SJ_N_WORDS] + shape[SJ_N_SLOTS] + shape[SJ_N_PAIRS] + SJ_LANES;
    return sizeof(sj_part) * SJ_N_BUFFERED + 8 * (size_t)n_words + 4 * (size_t)(shape[SJ_N_USED] + shape[SJ_N_VARYING]);
}

SJ_INLINE sj_work sj_work_in(const sj_forest *forest, void *scratch)
{
    const int32_t *shape = forest->shape;
    sj_work work;
    work.parts = (sj_part *)scratch;
    work.words = (uint64_t *)(void *)(work.parts + SJ_N_BUFFERED);
    work.slots = work.words + shape[SJ_N_WORDS];
    work.rows = (int32_t *)(void *)(work.slots + shape[SJ_N_SLOTS] + shape[SJ_N_PAIRS] + SJ_LANES);
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

/* How many of 8 rising values are below a value. */
SJ_INLINE int32_t sj_below(const double *values, double value)
{
    return (values[0] < value) + (values[1] < value) + (values[2] < value) + (values[3] < value) + (values[4] < value)
        + (values[5] < value) + (values[6] < value) + (values[7] < value);
}

/* Writes the rows of masks of a request's creation features; `below` is sj_below. Of a feature's blocks of 8 thresholds
 * the largest of each but the last stand first, in blocks, too. No branch depends on a value. */
SJ_INLINE void sj_find_rows(const sj_forest *forest, const double *row, sj_work *work,
                            int32_t (*below)(const double *, double))
{
    const int32_t n = forest->shape[SJ_N_USED];
    int32_t idx, at;
    for (idx = 0; idx < n; idx++) {
        const double value = row[forest->features[idx]];
        const int is_nan = !(fabs(value) > forest->zeros[idx]);
        int32_t n_below = 0, found;
        for (at = forest->starts[2 * idx]; at < forest->starts[2 * idx + 1]; at += SJ_LANES) {
            n_below += SJ_LANES * below(forest->thresholds + at, value);
        }
        found = forest->first_rows[idx] + n_below + below(forest->thresholds + at + n_below, value);
        work->rows[idx] = found + ((forest->nan_rows[idx] - found) & -is_nan);
    }
    work->n_rows = n;
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
        slots[n + idx] = slots[forest->pairs[2 * idx]] | slots[forest->pairs[2 * idx + 1]];
    }
}

/* How many of n rising values, at least one, are below a value; by search. */
SJ_INLINE int32_t sj_search_below(const double *values, int32_t n, double value)
{
    const double *base = values;
    while (n > 1) {
        const int32_t half = n / 2;
        base += half & -(int32_t)(base[half - 1] < value); /* not a branch */
        n -= half;
    }
    return (int32_t)(base - values) + (*base < value);
}

/* Writes the words of n slots by the steps from which on they are set, or not set if flipped. */
static inline void sj_set_slots(const uint8_t *levels, const uint64_t *flips, int32_t n, uint64_t *slots)
{
    int32_t slot;
    for (slot = 0; slot < n; slot++) {
        slots[slot] = (SJ_ALL << levels[slot]) ^ flips[slot];
    }
}

/* The steps at which nodes on what varies go right, for each slot; `set` is sj_set_slots. */
SJ_INLINE void sj_fill_slots(const sj_forest *forest, const double *row, sj_work *work,
                             void (*set)(const uint8_t *, const uint64_t *, int32_t, uint64_t *))
{
    const int32_t n_aged = forest->shape[SJ_N_AGED];
    const uint8_t *levels[SJ_N_AT_ONCE];
    size_t blocks[SJ_N_AT_ONCE];
    int32_t idx, turn, from = 0, to;
    memcpy(work->slots, forest->static_slots, sizeof(uint64_t) * (size_t)forest->shape[SJ_N_STATIC]);
    for (; from < n_aged; from = to) {
        to = n_aged - from < SJ_N_AT_ONCE ? n_aged : from + SJ_N_AT_ONCE;
        for (idx = from; idx < to; idx++) { /* all searches at once, and what they lead to is fetched */
            const int32_t start = forest->block_starts[idx], n_blocks = forest->block_starts[idx + 1] - start;
            const size_t n = (size_t)(forest->slot_starts[idx + 1] - forest->slot_starts[idx]);
            const size_t block = (size_t)sj_search_below(forest->tops + start, n_blocks, row[forest->sources[idx]]);
            levels[idx - from] = forest->levels + forest->level_starts[idx] + block * n;
            blocks[idx - from] = ((size_t)start + block) * SJ_BLOCK;
            SJ_FETCH(levels[idx - from])
            SJ_FETCH(forest->turns + blocks[idx - from])
            SJ_FETCH(forest->turns + blocks[idx - from] + SJ_BLOCK / 2)
            SJ_FETCH(forest->moves + blocks[idx - from])
        }
        for (idx = from; idx < to; idx++) {
            const int32_t first = forest->slot_starts[idx], n = forest->slot_starts[idx + 1] - first;
            const double value = row[forest->sources[idx]], *turns = forest->turns + blocks[idx - from];
            const uint16_t *moves = forest->moves + blocks[idx - from];
            uint64_t *slots = work->slots + first;
            if (value != value) {
                memset(slots, 0, sizeof(uint64_t) * (size_t)n);
                sj_add_nan_row(forest, idx, work);
                continue;
            }
            set(levels[idx - from], forest->slot_flips + first, n, slots);
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
    sj_find_rows(forest, row, &work, sj_below);
    work.slots[0] = 0;
    for (idx = -1; idx < forest->shape[SJ_N_AGED] && forest->shape[SJ_N_VARYING] > 0; idx++) { /* -1: the last one */
        const int32_t number = idx < 0 ? forest->shape[SJ_N_AGED] : idx;
        const int32_t stop = idx < 0 ? forest->shape[SJ_N_STATIC] : forest->slot_starts[idx + 1];
        const double value = row[forest->shape[SJ_N_FEATURES] + number];
        if (value != value) {
            sj_add_nan_row(forest, number, &work);
        }
        for (; slot < stop; slot++) {
            const int is_left = (value <= forest->slot_splits[slot]) != forest->slot_is_false[slot];
            work.slots[slot] = is_left || value != value ? 0 : SJ_ALL;
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
        } while (work.slots[forest->leaf_slots[2 * leaf]] | work.slots[forest->leaf_slots[2 * leaf + 1]]);
        total += forest->leaves[leaf];
    }
    return total;
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
        const uint16_t *leaf_slots = forest->leaf_slots + 2 * (size_t)forest->leaf_starts[*tree];
        uint64_t word = work->words[*tree], left = steps; /* the steps without a leaf so far */
        do {
            uint64_t none[8]; /* the steps at which none of this part's leaves up to a number is reached */
            int number;
            SJ_UNROLL(8) for (number = 0; number < 8; number++)
            {
                const size_t leaf = sj_lowest_bit(word | last);
                part->values[number] = leaves[leaf];
                none[number] = slots[leaf_slots[2 * leaf]] | slots[leaf_slots[2 * leaf + 1]];
                none[number] &= number > 0 ? none[number - 1] : SJ_ALL;
                word &= number < 7 ? word - 1 : word;
            }
            part->bits[0] = (none[0] & ~none[1]) | (none[2] & ~none[3]) | (none[4] & ~none[5]) | none[6] | ~left;
            part->bits[1] = (none[1] & ~none[3]) | none[5] | ~left;
            part->bits[2] = none[3] | ~left;
            if (left == steps && (none[7] & steps) == 0) {
                left = 0;
            } else {
                part->values[7] = 0.0;
                left &= none[6];
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
        SJ_UNROLL(8) for (at = 0; at < 2; at++)
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
            SJ_UNROLL(8) for (at = 0; at < 2; at++)
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

SJ_AVX2 static inline int32_t sj_below_256(const double *values, double value)
{
    const __m256d low = _mm256_cmp_pd(_mm256_loadu_pd(values), _mm256_set1_pd(value), _CMP_LT_OQ);
    const __m256d high = _mm256_cmp_pd(_mm256_loadu_pd(values + 4), _mm256_set1_pd(value), _CMP_LT_OQ);
    return __builtin_popcount((unsigned)(_mm256_movemask_pd(low) | _mm256_movemask_pd(high) << 4));
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
        SJ_UNROLL(12) for (at = 0; at < n; at++) \
        { \
            left[at] = _mm256_loadu_si256(SJ_AT(all)); \
        } \
        for (idx = 0; idx < work->n_rows; idx++) { \
            const uint64_t *mask = forest->masks + (size_t)work->rows[idx] * (size_t)n_words; \
            SJ_UNROLL(12) for (at = 0; at < n; at++) \
            { \
                left[at] = _mm256_and_si256(left[at], _mm256_loadu_si256(SJ_AT(mask))); \
            } \
        } \
        SJ_UNROLL(12) for (at = 0; at < n; at++) \
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

/* Adds the trees to the scores of all steps, 40 at once. A byte of `numbers` says how many of a tree's leaves that are
 * left come before the step's own; a tree seldom has more than 16 left. */
SJ_AVX512 static inline void sj_add_trees_512(const sj_forest *forest, const sj_work *work, double *scores)
{
    const int32_t n_steps = forest->shape[SJ_N_STEPS];
    const uint64_t *slots = work->slots, last = (uint64_t)1 << 63, steps = ((uint64_t)1 << n_steps) - 1;
    const __m512i one = _mm512_set1_epi8(1);
    int32_t first, tree, at;
    for (first = 0; first < n_steps; first += 40) {
        const __m512d none = _mm512_setzero_pd();
        __m512d sum[5] = {none, none, none, none, none};
        for (tree = 0; tree < forest->shape[SJ_N_TREES]; tree++) {
            const double *leaves = forest->leaves + forest->leaf_starts[tree];
            const uint16_t *leaf_slots = forest->leaf_slots + 2 * (size_t)forest->leaf_starts[tree];
            uint64_t word = work->words[tree], others[16]; /* others: steps that do not reach a leaf */
            const int n_left = __builtin_popcountll(word);
            __m512i numbers = _mm512_setzero_si512();
            double values[16];
            size_t leaf;
#define SJ_OTHERS ((slots[leaf_slots[2 * leaf]] | slots[leaf_slots[2 * leaf + 1]]) >> first)
#define SJ_READ(from, to) \
    SJ_UNROLL(8) for (at = from; at < to; at++) \
    { \
        leaf = sj_lowest_bit(word | last); \
        word &= word - 1; \
        others[at] = SJ_OTHERS; \
        values[at] = leaves[leaf]; \
    } \
    values[to] = leaves[sj_lowest_bit(word | last)];
#define SJ_COUNT(n) \
    SJ_UNROLL(15) for (at = n - 1; at >= 0; at--) \
    { \
        numbers = _mm512_maskz_add_epi8(others[at], numbers, one); \
    }
#define SJ_ADD(place, chosen) \
    { \
        const __m128i pair = _mm512_maskz_extracti32x4_epi32(0xff, numbers, place / 2); \
        const __m512i number = _mm512_maskz_cvtepu8_epi64(0xff, place % 2 ? _mm_unpackhi_epi64(pair, pair) : pair); \
        sum[place] = _mm512_add_pd(sum[place], chosen); \
    }
#define SJ_ADD_ALL(chosen) SJ_ADD(0, chosen) SJ_ADD(1, chosen) SJ_ADD(2, chosen) SJ_ADD(3, chosen) SJ_ADD(4, chosen)
            SJ_READ(0, 7)
            if (n_left <= 8) {
                const __m512d low = _mm512_loadu_pd(values);
                SJ_COUNT(7)
                SJ_ADD_ALL(_mm512_maskz_permutexvar_pd(0xff, number, low))
            } else if (n_left <= 16) {
                SJ_READ(7, 15)
                SJ_COUNT(15)
                SJ_ADD_ALL(_mm512_permutex2var_pd(_mm512_loadu_pd(values), number, _mm512_loadu_pd(values + 8)))
            } else {
                uint64_t left = SJ_ALL; /* the steps without a leaf so far */
                for (word = work->words[tree]; word != 0; word &= word - 1) {
                    leaf = sj_lowest_bit(word);
                    numbers = _mm512_mask_mov_epi8(numbers, left & ~SJ_OTHERS, _mm512_set1_epi8((char)leaf));
                    left &= SJ_OTHERS;
                }
                SJ_ADD_ALL(_mm512_i64gather_pd(number, leaves, 8))
            }
#undef SJ_OTHERS
#undef SJ_READ
#undef SJ_COUNT
#undef SJ_ADD
#undef SJ_ADD_ALL
        }
        SJ_UNROLL(5) for (at = 0; at < 5; at++)
        {
            _mm512_mask_storeu_pd(scores + first + 8 * at, (__mmask8)(steps >> first >> 8 * at), sum[at]);
        }
    }
}

/* The same; up to 7 slots more are written. */
SJ_AVX512 static inline void sj_set_slots_512(const uint8_t *levels, const uint64_t *flips, int32_t n, uint64_t *slots)
{
    int32_t slot;
    for (slot = 0; slot < n; slot += SJ_LANES) {
        const __m512i level = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)(const void *)(levels + slot)));
        const __m512i word = _mm512_sllv_epi64(_mm512_set1_epi64(-1), level);
        _mm512_storeu_si512(slots + slot, _mm512_xor_si512(word, _mm512_loadu_si512(flips + slot)));
    }
}

SJ_AVX512 static inline int32_t sj_below_512(const double *values, double value)
{
    return __builtin_popcount(_mm512_cmp_pd_mask(_mm512_loadu_pd(values), _mm512_set1_pd(value), _CMP_LT_OQ));
}

SJ_AVX512 static inline void sj_narrow_512(const sj_forest *forest, const sj_work *work)
{
    const int32_t n_words = forest->shape[SJ_N_WORDS];
    const uint64_t *all = forest->masks + (size_t)forest->shape[SJ_LAST_ROW] * (size_t)n_words;
    int32_t first = 0, idx, at;
#define SJ_PASS(n) \
    { \
        __m512i left[n]; \
        SJ_UNROLL(13) for (at = 0; at < n; at++) \
        { \
            left[at] = _mm512_loadu_si512(all + first + SJ_LANES * at); \
        } \
        for (idx = 0; idx < work->n_rows; idx++) { \
            const uint64_t *mask = forest->masks + (size_t)work->rows[idx] * (size_t)n_words + first; \
            SJ_UNROLL(13) for (at = 0; at < n; at++) \
            { \
                left[at] = _mm512_and_si512(left[at], _mm512_loadu_si512(mask + SJ_LANES * at)); \
            } \
        } \
        SJ_UNROLL(13) for (at = 0; at < n; at++) \
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

SJ_AVX2 static inline void sj_interval_scores_256(const sj_forest *forest, const double *row, double *scores,
                                                  sj_work *work)
{
    int32_t tree = 0;
    sj_find_rows(forest, row, work, sj_below_256);
    sj_fill_slots(forest, row, work, sj_set_slots);
    sj_narrow_256(forest, work);
    while (tree < forest->shape[SJ_N_TREES]) {
        const int32_t n = sj_next_parts(forest, work, &tree);
        sj_add_parts_256(work->parts, n, forest->shape[SJ_N_STEPS], scores);
    }
}

SJ_AVX512 static inline void sj_interval_scores_512(const sj_forest *forest, const double *row, double *scores,
                                                    sj_work *work)
{
    sj_find_rows(forest, row, work, sj_below_512);
    sj_fill_slots(forest, row, work, sj_set_slots_512);
    sj_narrow_512(forest, work);
    sj_add_trees_512(forest, work, scores);
}
#define SJ_NARROW(forest, work) __builtin_cpu_supports("avx2") ? sj_narrow_256(forest, work) : sj_narrow(forest, work)
#else
#define SJ_NARROW(forest, work) sj_narrow(forest, work)
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
    sj_find_rows(forest, row, &work, sj_below);
    sj_fill_slots(forest, row, &work, sj_set_slots);
    sj_narrow(forest, &work);
    while (tree < forest->shape[SJ_N_TREES]) {
        const int32_t n = sj_next_parts(forest, &work, &tree);
        sj_add_parts(work.parts, n, forest->shape[SJ_N_STEPS], scores);
    }
}

/* Raw scores at every step of what varies, of a model without features set against the age. */
static inline void sj_step_scores(const sj_forest *forest, const double *row, double *scores, void *scratch)
{
    sj_work work = sj_work_in(forest, scratch);
    int32_t tree, step;
    sj_find_rows(forest, row, &work, sj_below);
    SJ_NARROW(forest, &work);
    memset(scores, 0, sizeof(double) * (size_t)forest->shape[SJ_N_STEPS]);
    for (tree = 0; tree < forest->shape[SJ_N_TREES]; tree++) {
        uint64_t word;
        for (word = work.words[tree]; word != 0; word &= word - 1) {
            const size_t leaf = (size_t)forest->leaf_starts[tree] + sj_lowest_bit(word);
            const int32_t high = forest->leaf_steps[2 * leaf + 1];
            const double value = forest->leaves[leaf];
            for (step = forest->leaf_steps[2 * leaf]; step < high; step++) {
                scores[step] += value;
            }
        }
    }
}

#endif
