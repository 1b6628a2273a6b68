/* The code of a history key: 7 bytes of BLAKE2b (RFC 7693) over its texts, joined by 0x1f. A number's text is that of
 * Python's repr: the shortest that reads back as the same double. C99 and C++; no globals, no allocation. */
#ifndef SJ_KEYS_H
#define SJ_KEYS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { SJ_BLAKE2B_ROOM = 128, SJ_CODE_BYTES = 7, SJ_NUMBER_ROOM = 32, SJ_N_LIMBS = 40, SJ_N_DIGITS = 17 };

/* A digest that is being computed. */
typedef struct {
    uint64_t hash[8];
    uint64_t n_hashed;
    size_t n_block;
    unsigned char block[SJ_BLAKE2B_ROOM];
} sj_blake2b;

static const uint64_t SJ_BLAKE2B_START[8] = {
    UINT64_C(0x6a09e667f3bcc908), UINT64_C(0xbb67ae8584caa73b), UINT64_C(0x3c6ef372fe94f82b),
    UINT64_C(0xa54ff53a5f1d36f1), UINT64_C(0x510e527fade682d1), UINT64_C(0x9b05688c2b3e6c1f),
    UINT64_C(0x1f83d9abfb41bd6b), UINT64_C(0x5be0cd19137e2179)};

static const uint8_t SJ_BLAKE2B_ORDER[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

static uint64_t sj_turned(uint64_t word, int n_bits)
{
    return (word >> n_bits) | (word << (64 - n_bits));
}

static void sj_mix(uint64_t v[16], int a, int b, int c, int d, uint64_t x, uint64_t y)
{
    v[a] += v[b] + x;
    v[d] = sj_turned(v[d] ^ v[a], 32);
    v[c] += v[d];
    v[b] = sj_turned(v[b] ^ v[c], 24);
    v[a] += v[b] + y;
    v[d] = sj_turned(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = sj_turned(v[b] ^ v[c], 63);
}

static void sj_blake2b_block(sj_blake2b *digest, int is_last)
{
    uint64_t v[16], m[16];
    int idx, round;
    for (idx = 0; idx < 8; idx++) {
        v[idx] = digest->hash[idx];
        v[idx + 8] = SJ_BLAKE2B_START[idx];
    }
    v[12] ^= digest->n_hashed;
    v[14] = is_last ? ~v[14] : v[14];
    for (idx = 0; idx < 16; idx++) {
        const unsigned char *b = digest->block + 8 * idx;
        m[idx] = (uint64_t)b[0] | (uint64_t)b[1] << 8 | (uint64_t)b[2] << 16 | (uint64_t)b[3] << 24
                 | (uint64_t)b[4] << 32 | (uint64_t)b[5] << 40 | (uint64_t)b[6] << 48 | (uint64_t)b[7] << 56;
    }
    for (round = 0; round < 12; round++) {
        const uint8_t *s = SJ_BLAKE2B_ORDER[round % 10];
        sj_mix(v, 0, 4, 8, 12, m[s[0]], m[s[1]]);
        sj_mix(v, 1, 5, 9, 13, m[s[2]], m[s[3]]);
        sj_mix(v, 2, 6, 10, 14, m[s[4]], m[s[5]]);
        sj_mix(v, 3, 7, 11, 15, m[s[6]], m[s[7]]);
        sj_mix(v, 0, 5, 10, 15, m[s[8]], m[s[9]]);
        sj_mix(v, 1, 6, 11, 12, m[s[10]], m[s[11]]);
        sj_mix(v, 2, 7, 8, 13, m[s[12]], m[s[13]]);
        sj_mix(v, 3, 4, 9, 14, m[s[14]], m[s[15]]);
    }
    for (idx = 0; idx < 8; idx++) {
        digest->hash[idx] ^= v[idx] ^ v[idx + 8];
    }
}

/* Begins a digest of 1 to 64 bytes. */
static void sj_blake2b_begin(sj_blake2b *digest, size_t n_bytes)
{
    memcpy(digest->hash, SJ_BLAKE2B_START, sizeof digest->hash);
    digest->hash[0] ^= UINT64_C(0x01010000) ^ (uint64_t)n_bytes;
    digest->n_hashed = 0;
    digest->n_block = 0;
}

static void sj_blake2b_add(sj_blake2b *digest, const void *bytes, size_t n_bytes)
{
    const unsigned char *from = (const unsigned char *)bytes;
    while (n_bytes > 0) {
        size_t n = SJ_BLAKE2B_ROOM - digest->n_block;
        if (n == 0) { /* more follows, so this block is not the last */
            digest->n_hashed += SJ_BLAKE2B_ROOM;
            sj_blake2b_block(digest, 0);
            digest->n_block = 0;
            continue;
        }
        n = n < n_bytes ? n : n_bytes;
        memcpy(digest->block + digest->n_block, from, n);
        digest->n_block += n;
        from += n;
        n_bytes -= n;
    }
}

/* The digest as 64 bytes in `hash`, of which the first n_bytes of `begin` count: byte i is bits 8 * (i % 8) on of
 * hash[i / 8]. */
static void sj_blake2b_end(sj_blake2b *digest)
{
    memset(digest->block + digest->n_block, 0, SJ_BLAKE2B_ROOM - digest->n_block);
    digest->n_hashed += digest->n_block;
    sj_blake2b_block(digest, 1);
}

/* The code of a key whose texts were added: the digest as a big-endian number. */
static uint64_t sj_code(sj_blake2b *digest)
{
    uint64_t code = 0;
    int byte;
    sj_blake2b_end(digest);
    for (byte = 0; byte < SJ_CODE_BYTES; byte++) {
        code = (code << 8) | ((digest->hash[0] >> (8 * byte)) & 255);
    }
    return code;
}

/* A whole number of any double's size: limbs of 32 bits, the low one first. */
typedef struct {
    uint32_t limb[SJ_N_LIMBS];
    int n;
} sj_large;

static void sj_set(sj_large *number, uint64_t value)
{
    number->limb[0] = (uint32_t)value;
    number->limb[1] = (uint32_t)(value >> 32);
    number->n = number->limb[1] ? 2 : 1;
}

static void sj_multiply(sj_large *number, uint32_t factor)
{
    uint64_t carry = 0;
    int idx;
    for (idx = 0; idx < number->n; idx++) {
        carry += (uint64_t)number->limb[idx] * factor;
        number->limb[idx] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry > 0 && number->n < SJ_N_LIMBS) {
        number->limb[number->n++] = (uint32_t)carry;
    }
}

static void sj_multiply_power(sj_large *number, uint32_t base, int power)
{
    for (; power > 0; power--) {
        sj_multiply(number, base);
    }
}

static void sj_double_often(sj_large *number, int n_times)
{
    sj_multiply_power(number, UINT32_C(1) << 31, n_times / 31);
    sj_multiply(number, UINT32_C(1) << n_times % 31);
}

static uint32_t sj_limb(const sj_large *number, int idx)
{
    return idx < number->n ? number->limb[idx] : 0;
}

/* The sign of one + more - other. */
static int sj_compare(const sj_large *one, const sj_large *more, const sj_large *other)
{
    uint64_t carry = 0;
    uint32_t sum[SJ_N_LIMBS + 1];
    int idx, n = one->n > more->n ? one->n : more->n;
    n = n > other->n ? n : other->n;
    for (idx = 0; idx < n; idx++) {
        carry += (uint64_t)sj_limb(one, idx) + sj_limb(more, idx);
        sum[idx] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry > 0) {
        return 1;
    }
    for (idx = n - 1; idx >= 0; idx--) {
        if (sum[idx] != sj_limb(other, idx)) {
            return sum[idx] < sj_limb(other, idx) ? -1 : 1;
        }
    }
    return 0;
}

static void sj_subtract(sj_large *from, const sj_large *what)
{
    uint64_t borrow = 0;
    int idx;
    for (idx = 0; idx < from->n; idx++) {
        borrow = (uint64_t)from->limb[idx] - sj_limb(what, idx) - borrow;
        from->limb[idx] = (uint32_t)borrow;
        borrow >>= 63;
    }
    while (from->n > 1 && from->limb[from->n - 1] == 0) {
        from->n--;
    }
}

/* The shortest digits that read back as a value above 0, and of them the nearest; it is 0.DIGITS times 10 to the
 * `point`. Burger and Dybvig, Printing Floating-Point Numbers Quickly and Accurately (PLDI 1996), figure 1. */
static int sj_digits(double value, char digits[SJ_N_DIGITS + 1], int *point)
{
    sj_large left, whole, above, below, none;
    int exponent, is_even, is_power, n = 0, is_low, is_high;
    const uint64_t fraction = (uint64_t)ldexp(frexp(value, &exponent), 53);
    uint64_t mantissa = fraction;
    exponent -= 53;
    for (; exponent < -1074; exponent++) { /* a subnormal number: the bits that it does not have are zeros */
        mantissa >>= 1;
    }
    is_even = (mantissa & 1) == 0;
    is_power = mantissa == UINT64_C(1) << 52 && exponent > -1074; /* the double below is half as far away */
    sj_set(&left, mantissa);
    sj_set(&whole, 1);
    sj_set(&above, 1);
    sj_set(&none, 0);
    sj_double_often(&left, (exponent > 0 ? exponent : 0) + 1 + is_power);
    sj_double_often(&whole, (exponent < 0 ? -exponent : 0) + 1 + is_power);
    sj_double_often(&above, exponent > 0 ? exponent : 0);
    below = above;
    sj_double_often(&above, is_power);
    *point = (int)ceil(log10(value) - 1e-10);
    if (*point >= 0) {
        sj_multiply_power(&whole, 10, *point);
    } else {
        sj_multiply_power(&left, 10, -*point);
        sj_multiply_power(&above, 10, -*point);
        sj_multiply_power(&below, 10, -*point);
    }
    if (sj_compare(&left, &above, &whole) >= (is_even ? 0 : 1)) {
        ++*point;
    } else {
        sj_multiply(&left, 10);
        sj_multiply(&above, 10);
        sj_multiply(&below, 10);
    }
    for (;;) {
        int digit = 0, side;
        while (sj_compare(&left, &none, &whole) >= 0) {
            sj_subtract(&left, &whole);
            digit++;
        }
        is_low = sj_compare(&left, &none, &below) < (is_even ? 1 : 0);
        is_high = sj_compare(&left, &above, &whole) >= (is_even ? 0 : 1);
        side = sj_compare(&left, &left, &whole);
        if (is_high && (!is_low || side > 0 || (side == 0 && digit % 2 == 1))) {
            digit++;
        }
        digits[n++] = (char)('0' + digit);
        if (is_low || is_high || n == SJ_N_DIGITS) {
            return n;
        }
        sj_multiply(&left, 10);
        sj_multiply(&above, 10);
        sj_multiply(&below, 10);
    }
}

static size_t sj_write_whole(uint64_t value, char *text)
{
    char digits[20];
    size_t n = 0, idx;
    do {
        digits[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    for (idx = 0; idx < n; idx++) {
        text[idx] = digits[n - 1 - idx];
    }
    return n;
}

/* A finite number as Python's repr writes it, NaN as "-"; returns the length. Negative zero is written as zero. */
static size_t sj_number_text(double value, char text[SJ_NUMBER_ROOM])
{
    char digits[SJ_N_DIGITS + 1];
    size_t at = 0;
    double power;
    int n, idx, point;
    if (isnan(value)) {
        text[0] = '-';
        return 1;
    }
    if (value < 0.0) {
        text[at++] = '-';
        value = -value;
    }
    if (value < 1e16 && value == floor(value)) {
        at += sj_write_whole((uint64_t)value, text + at);
        text[at++] = '.';
        text[at++] = '0';
        return at;
    }
    for (power = 10.0, n = 1; n <= 6 && value >= 1e-4 && value < 1e8; power *= 10.0, n++) {
        const double whole = floor(value * power + 0.5);
        if (whole / power == value) { /* with up to 15 digits no other text reads back as the same double */
            const uint64_t before = (uint64_t)(whole / power), after = (uint64_t)whole - before * (uint64_t)power;
            at += sj_write_whole(before, text + at);
            text[at++] = '.';
            idx = (int)sj_write_whole(after, digits);
            memset(text + at, '0', (size_t)(n - idx));
            memcpy(text + at + (n - idx), digits, (size_t)idx);
            return at + (size_t)n;
        }
    }
    n = sj_digits(value, digits, &point);
    if (point > -4 && point <= 16) { /* no whole number, so digits follow the point */
        const size_t n_before = point > 0 ? (size_t)point : 0;
        memcpy(text + at, digits, n_before);
        at += n_before;
        if (point <= 0) {
            text[at++] = '0';
        }
        text[at++] = '.';
        for (idx = point; idx < 0; idx++) {
            text[at++] = '0';
        }
        memcpy(text + at, digits + n_before, (size_t)n - n_before);
        return at + (size_t)n - n_before;
    }
    text[at++] = digits[0];
    if (n > 1) {
        text[at++] = '.';
        memcpy(text + at, digits + 1, (size_t)n - 1);
        at += (size_t)n - 1;
    }
    text[at++] = 'e';
    text[at++] = point - 1 < 0 ? '-' : '+';
    idx = point - 1 < 0 ? 1 - point : point - 1;
    if (idx < 10) {
        text[at++] = '0';
    }
    return at + sj_write_whole((uint64_t)idx, text + at);
}

#endif
