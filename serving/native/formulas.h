/* The formulas of lifetime curves on doubles, as in serving/curves/formulas.py, operation by operation.
 *
 * Times are seconds. exp, expm1, log1p, log10 and pow are those of the C library, which Python calls, too. Compiled
 * without contraction of a * b + c.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#define LONGEST_S (3.0 * 365.0 * 86400.0)
#define LONG_SCORE 7.976
#define LEAST_HAZARD 1e-12
#define LIMIT_MIN_S 60.0
#define LIMIT_MAX_S (3.0 * 365.0 * 86400.0)
#define HALF_S 0.5
#define WIDTH_MIN_S 1e-3
#define ROUND_AT (1.5 * 4503599627370496.0) /* x + this - this is x rounded half to even */

enum { RATES, CUMULATIVE, AFTER, GAPS, OWN_EDGES };
enum { N_AGES = 4, N_BANDS = 7 };

/* How many of n rising values are not above a value; with is_strict, how many are below it. */
static Py_ssize_t count_up_to(const double *values, Py_ssize_t n, double value, int is_strict)
{
    const double *base = values;
    if (n == 0) {
        return 0;
    }
    while (n > 1) {
        const Py_ssize_t half = n / 2;
        base += (is_strict ? base[half - 1] < value : base[half - 1] <= value) ? half : 0;
        n -= half;
    }
    return base - values + (is_strict ? *base < value : *base <= value);
}

static int has_limit(double limit_s)
{
    return limit_s >= LIMIT_MIN_S && limit_s <= LIMIT_MAX_S;
}

static long long floor_mod(long long value, long long by)
{
    const long long rest = value % by;
    return rest < 0 ? rest + by : rest;
}

/* `formulas.fill_hazard`. */
static void fill_hazard(const double *hazards, const double *edges, Py_ssize_t n, double tail_s, double *numbers)
{
    double *rates = numbers, *cumulative = numbers + (n + 1), *after = numbers + 2 * (n + 1), *gaps = after + (n + 1);
    double total = 0.0, mean_s = tail_s;
    Py_ssize_t idx;
    for (idx = 0; idx < n; idx++) {
        const double hazard = hazards[idx] > LEAST_HAZARD ? hazards[idx] : LEAST_HAZARD;
        const double width_s = edges[idx + 1] - edges[idx];
        rates[idx] = hazard / width_s;
        cumulative[idx] = total;
        total += hazard;
    }
    rates[n] = 1.0 / tail_s;
    cumulative[n] = total;
    after[n] = tail_s;
    gaps[n] = 0.0;
    for (idx = n - 1; idx >= 0; idx--) {
        const double growth = expm1((edges[idx] - edges[idx + 1]) * rates[idx]);
        after[idx] = mean_s;
        gaps[idx] = mean_s - 1.0 / rates[idx];
        mean_s = after[idx] + growth * gaps[idx];
    }
}

/* `formulas.fill_limit_axis`. */
static void fill_limit_axis(const double *hazards, const double *edges, Py_ssize_t n_ages, const double *shares,
                            Py_ssize_t n_shares, double limit_s, double tail_s, double *own_edges, double *own_hazards)
{
    Py_ssize_t n = 0, idx;
    own_edges[0] = edges[0];
    if (has_limit(limit_s)) {
        const double switch_s = shares[0] * limit_s - HALF_S;
        for (idx = 0; idx < n_ages && switch_s - edges[idx] >= WIDTH_MIN_S; idx++) {
            const double end_s = switch_s < edges[idx + 1] || idx == n_ages - 1 ? switch_s : edges[idx + 1];
            own_hazards[n] = hazards[idx] * ((end_s - edges[idx]) / (edges[idx + 1] - edges[idx]));
            own_edges[++n] = end_s;
        }
        for (idx = 0; idx < n_shares; idx++) {
            own_hazards[n] = hazards[n_ages + idx];
            own_edges[++n] = shares[idx + 1] * limit_s - HALF_S;
        }
    } else {
        for (n = 0; n < n_ages; n++) {
            own_hazards[n] = hazards[n];
            own_edges[n + 1] = edges[n + 1];
        }
    }
    for (; n < n_ages + n_shares; n++) {
        own_hazards[n] = 1.0;
        own_edges[n + 1] = own_edges[n] + tail_s;
    }
}

/* `formulas.fill_recalibrated`. edges: n + 1; rates: n; factors: N_AGES x N_BANDS; hazards: n. */
static void fill_recalibrated(const double *edges, const double *rates, Py_ssize_t n, const double *factors,
                              double *hazards)
{
    static const double age_starts_s[N_AGES] = {0.0, 600.0, 3600.0, 21600.0};
    static const double band_starts[N_BANDS] = {0.0, 0.1, 0.3, 0.7, 1.2, 2.0, 3.0};
    int age = 0, band = 0;
    double outlived = 0.0;
    Py_ssize_t idx;
    for (idx = 0; idx < n; idx++) {
        double until, total = 0.0;
        while (age < N_AGES - 1 && edges[idx] >= age_starts_s[age + 1]) {
            age++;
            band = 0;
            outlived = 0.0;
        }
        until = outlived + rates[idx] * (edges[idx + 1] - edges[idx]);
        while (band < N_BANDS - 1 && band_starts[band + 1] < until) {
            total += factors[age * N_BANDS + band] * (band_starts[band + 1] - outlived);
            outlived = band_starts[++band];
        }
        hazards[idx] = total + factors[age * N_BANDS + band] * (until - outlived);
        outlived = until;
    }
}

/* A point model's seconds of a raw score, at most three years; `formulas.score_seconds`. */
static double score_seconds(double score)
{
    double seconds;
    if (score >= LONG_SCORE) {
        seconds = pow(10.0, score < 9.0 ? score : 9.0);
        return seconds < LONGEST_S ? seconds : LONGEST_S;
    }
    return pow(10.0, score);
}

/* The share of validation residuals above a value; `formulas.residual_share_above`. */
static double residual_share_above(const double *residuals, Py_ssize_t n, double value)
{
    Py_ssize_t low = 0, high = n;
    double gap, share;
    if (value < residuals[0]) {
        return 1.0;
    }
    if (value >= residuals[n]) {
        return 0.0;
    }
    while (high - low > 1) {
        const Py_ssize_t middle = (low + high) / 2;
        if (residuals[middle] <= value) {
            low = middle;
        } else {
            high = middle;
        }
    }
    gap = residuals[high] - residuals[low];
    share = gap <= 0.0 ? (double)low / (double)n : ((double)low + (value - residuals[low]) / gap) / (double)n;
    return 1.0 - share;
}
