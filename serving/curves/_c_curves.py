"""The C of an exported model's curves: the operations of `formulas.py` for each kind of score.

`c_source` replaces names after `$`.
"""

from __future__ import annotations

from string import Template

AT_MOST = Template("""/* How many of the rising values are at most `value`: by blocks of 8, without branches. */
static int count_at_most(const double values[], int n, double value)
{
    int idx, n_found = 0, start = n > 8 ? n - 8 : 0; /* of the last 8 */
    for (idx = 7; idx < n; idx += 8) {
        n_found += values[idx] <= value;
    }
    start = 8 * n_found < start ? 8 * n_found : start;
    n_found = start;
    for (idx = start; idx < start + 8 && idx < n; idx++) {
        n_found += values[idx] <= value;
    }
    return n_found;
}
""")

HAZARD_FIELDS = Template("""    double rates[${NAME}_N_STEPS + 1]; /* per second in each interval, then the tail */
    double cumulative[${NAME}_N_STEPS + 1]; /* hazard from 0 to its lower edge */
    double after[${NAME}_N_STEPS + 1]; /* mean remaining at its upper edge, s */
    double gaps[${NAME}_N_STEPS + 1]; /* after - 1 / rate, s */""")

HAZARD = Template("""static double mean_at(const ${name}_curve *curve, int idx, double uptime_s)
{
    if (idx >= N_STEPS) {
        return curve->after[idx];
    }
    return curve->after[idx] + expm1((uptime_s - EDGES[idx + 1]) * curve->rates[idx]) * curve->gaps[idx];
}

static double interval_hazard(double score, double offset)
{
    const double logit = score + offset;
    return logit > 0.0 ? logit + log1p(exp(-logit)) : log1p(exp(logit));
}

void ${name}_curve_fill(${name}_curve *curve, const double features[${NAME}_N_FEATURES])
{
    double scores[N_STEPS];
    double total = 0.0, mean_s = TAIL_S;$lookup_row
    int idx;
    step_scores(features, scores);
    for (idx = 0; idx < N_STEPS; idx++) {
        double hazard = interval_hazard(scores[idx], OFFSETS[idx]);$lookup_mixed
        hazard = hazard < LEAST_HAZARD ? LEAST_HAZARD : hazard;
        curve->rates[idx] = hazard / (EDGES[idx + 1] - EDGES[idx]);
        curve->cumulative[idx] = total;
        total += hazard;
    }
    curve->rates[N_STEPS] = 1.0 / TAIL_S;
    curve->cumulative[N_STEPS] = total;
    curve->after[N_STEPS] = TAIL_S;
    curve->gaps[N_STEPS] = 0.0;
    for (idx = N_STEPS - 1; idx >= 0; idx--) {
        curve->after[idx] = mean_s;
        curve->gaps[idx] = mean_s - 1.0 / curve->rates[idx];
        mean_s = mean_at(curve, idx, EDGES[idx]);
    }
}

double ${name}_remaining(const ${name}_curve *curve, double uptime_s)
{
    if (!is_seconds(uptime_s)) {
        return NAN;
    }
    return whole(mean_at(curve, edges_at_most(uptime_s) - 1, uptime_s));
}

static double cumulative_at(const ${name}_curve *curve, double time_s)
{
    const int idx = edges_at_most(time_s) - 1;
    return curve->cumulative[idx] + (time_s - EDGES[idx]) * curve->rates[idx];
}

double ${name}_quantile(const ${name}_curve *curve, double q, double uptime_s)
{
    double target, left_s;
    int idx;
    if (!(q > 0.0 && q < 1.0) || !is_seconds(uptime_s)) {
        return NAN;
    }
    target = cumulative_at(curve, uptime_s) - log1p(-q);
    idx = count_at_most(curve->cumulative, N_STEPS + 1, target) - 1;
    left_s = EDGES[idx] + (target - curve->cumulative[idx]) / curve->rates[idx] - uptime_s;
    left_s = left_s < 0.0 ? 0.0 : left_s;
    return whole(left_s > LONGEST_S ? LONGEST_S : left_s);
}

double ${name}_survival(const ${name}_curve *curve, double horizon_s, double uptime_s)
{
    if (!is_seconds(horizon_s) || !is_seconds(uptime_s)) {
        return NAN;
    }
    return exp(cumulative_at(curve, uptime_s) - cumulative_at(curve, uptime_s + horizon_s));
}

double ${name}_next_change(const ${name}_curve *curve, double uptime_s)
{
    int idx;
    (void)curve; /* the same for all requests */
    if (!is_seconds(uptime_s)) {
        return NAN;
    }
    idx = grid_at_most(uptime_s);
    return idx < N_GRID ? GRID[idx] : INFINITY;
}
""")

RESIDUALS = Template("""static double score_seconds(double score)
{
    double seconds;
    if (score < 7.976) { /* log10 of LONGEST_S, rounded down */
        return pow(10.0, score);
    }
    seconds = pow(10.0, score < 9.0 ? score : 9.0);
    return seconds < LONGEST_S ? seconds : LONGEST_S;
}

static double mean_seconds(double score)
{
    const double seconds = score_seconds(score) * SMEARING;
    return seconds < LONGEST_S ? seconds : LONGEST_S;
}

/* The share of validation residuals above `value`, linear between grid quantiles. */
static double residual_share_above(double value)
{
    int low = 0, n = N_RESIDUALS - 1;
    double share;
    if (value < RESIDUALS[0]) {
        return 1.0;
    }
    if (value >= RESIDUALS[n]) {
        return 0.0;
    }
    while (n > 1) { /* without branches */
        const int half = n / 2;
        low += half & -(RESIDUALS[low + half] <= value);
        n -= half;
    }
    share = low + (value - RESIDUALS[low]) / (RESIDUALS[low + 1] - RESIDUALS[low]);
    return 1.0 - share / (N_RESIDUALS - 1);
}

/* The residual that a share of the validation residuals does not exceed, linear between grid quantiles. */
static double residual_quantile(double share)
{
    const double position = share * (N_RESIDUALS - 1);
    int low = (int)position;
    low = low < N_RESIDUALS - 2 ? low : N_RESIDUALS - 2;
    return RESIDUALS[low] + (position - low) * (RESIDUALS[low + 1] - RESIDUALS[low]);
}
""")

UPTIME_FIELDS = Template("""    double scores[${NAME}_N_STEPS]; /* log10 s, between two uptime thresholds */
    double seconds[${NAME}_N_STEPS]; /* mean remaining, whole s */""")

UPTIME = Template("""void ${name}_curve_fill(${name}_curve *curve, const double features[${NAME}_N_FEATURES])
{
    int step;
    step_scores(features, curve->scores);
    for (step = 0; step < N_STEPS; step++) {
        curve->seconds[step] = whole(mean_seconds(curve->scores[step]));
    }
}

double ${name}_remaining(const ${name}_curve *curve, double uptime_s)
{
    return is_seconds(uptime_s) ? curve->seconds[thresholds_below(uptime_s)] : NAN;
}

double ${name}_quantile(const ${name}_curve *curve, double q, double uptime_s)
{
    double score;
    if (!(q > 0.0 && q < 1.0) || !is_seconds(uptime_s)) {
        return NAN;
    }
    score = curve->scores[thresholds_below(uptime_s)];
    return whole(score_seconds(score + residual_quantile(q)));
}

double ${name}_survival(const ${name}_curve *curve, double horizon_s, double uptime_s)
{
    double score;
    if (!is_seconds(horizon_s) || !is_seconds(uptime_s)) {
        return NAN;
    }
    if (horizon_s <= 0.0) {
        return 1.0;
    }
    score = curve->scores[thresholds_below(uptime_s)];
    return residual_share_above(log10(horizon_s) - score);
}

double ${name}_next_change(const ${name}_curve *curve, double uptime_s)
{
    int step;
    (void)curve; /* the same for all requests */
    if (!is_seconds(uptime_s)) {
        return NAN;
    }
    step = thresholds_below(uptime_s);
    return step < N_STEPS - 1 ? floor(THRESHOLDS[step]) + 1.0 : INFINITY;
}
""")

ONCE_FIELDS = Template("""    double total_s; /* mean total lifetime, whole s; doubles when outlived */
    double score;   /* log10 s */""")

ONCE = Template("""void ${name}_curve_fill(${name}_curve *curve, const double features[${NAME}_N_FEATURES])
{
    const double score = ${name}_score(features);
    const double total_s = whole(mean_seconds(score));
    curve->total_s = total_s > 1.0 ? total_s : 1.0;
    curve->score = score;
}

static double outlived_total(double total_s, double uptime_s)
{
    while (total_s <= uptime_s) {
        total_s *= 2.0;
    }
    return total_s;
}

static double left_of_total(double total_s, double uptime_s)
{
    const double left_s = outlived_total(total_s, uptime_s) - uptime_s;
    return left_s < LONGEST_S ? left_s : LONGEST_S;
}

double ${name}_remaining(const ${name}_curve *curve, double uptime_s)
{
    return is_seconds(uptime_s) ? whole(left_of_total(curve->total_s, uptime_s)) : NAN;
}

static double share_alive(const ${name}_curve *curve, double time_s)
{
    return time_s <= 0.0 ? 1.0 : residual_share_above(log10(time_s) - curve->score);
}

double ${name}_quantile(const ${name}_curve *curve, double q, double uptime_s)
{
    double alive, score, left_s;
    if (!(q > 0.0 && q < 1.0) || !is_seconds(uptime_s)) {
        return NAN;
    }
    alive = share_alive(curve, uptime_s);
    if (alive <= 0.0) {
        return whole(left_of_total(curve->total_s, uptime_s));
    }
    score = curve->score + residual_quantile(1.0 - alive * (1.0 - q));
    left_s = pow(10.0, score < 300.0 ? score : 300.0) - uptime_s;
    left_s = left_s < 0.0 ? 0.0 : left_s;
    return whole(left_s > LONGEST_S ? LONGEST_S : left_s);
}

double ${name}_survival(const ${name}_curve *curve, double horizon_s, double uptime_s)
{
    double alive, end_s;
    if (!is_seconds(horizon_s) || !is_seconds(uptime_s)) {
        return NAN;
    }
    alive = share_alive(curve, uptime_s);
    end_s = uptime_s + horizon_s;
    if (alive <= 0.0) {
        return end_s < outlived_total(curve->total_s, uptime_s) ? 1.0 : 0.0;
    }
    return share_alive(curve, end_s) / alive;
}

double ${name}_next_change(const ${name}_curve *curve, double uptime_s)
{
    return is_seconds(uptime_s) ? outlived_total(curve->total_s, uptime_s) : NAN;
}
""")

_FILL_START = HAZARD.template.index("void ${name}_curve_fill")
_FILL_STOP = HAZARD.template.index("double ${name}_remaining")
LIMIT_FILL = Template("""/* The request's own edges and the hazards between them, from those of whole intervals. */
static void own_axis(${name}_curve *curve, const double hazards[], double limit_s, double own[])
{
    int idx, n = 0;
    curve->edges[0] = EDGES[0];
    if (limit_s >= LIMIT_MIN_S && limit_s <= LIMIT_MAX_S) {
        const double switch_s = SHARES[0] * limit_s - HALF_S;
        for (idx = 0; idx < N_AGES && switch_s - EDGES[idx] >= WIDTH_MIN_S; idx++) {
            const double end_s = switch_s < EDGES[idx + 1] || idx == N_AGES - 1 ? switch_s : EDGES[idx + 1];
            own[n] = hazards[idx] * ((end_s - EDGES[idx]) / (EDGES[idx + 1] - EDGES[idx]));
            curve->edges[++n] = end_s;
        }
        for (idx = N_AGES; idx < N_STEPS; idx++) {
            own[n] = hazards[idx];
            curve->edges[++n] = SHARES[idx - N_AGES + 1] * limit_s - HALF_S;
        }
    } else {
        for (; n < N_AGES; n++) {
            own[n] = hazards[n];
            curve->edges[n + 1] = EDGES[n + 1];
        }
    }
    for (; n < N_STEPS; n++) {
        own[n] = 1.0;
        curve->edges[n + 1] = curve->edges[n] + TAIL_S;
    }
}

void ${name}_curve_fill(${name}_curve *curve, const double features[${NAME}_N_FEATURES])
{
    double scores[N_STEPS], own[N_STEPS];
    double total = 0.0, mean_s = TAIL_S;$lookup_row
    int idx;
    step_scores(features, scores);
    for (idx = 0; idx < N_STEPS; idx++) {
        double hazard = interval_hazard(scores[idx], OFFSETS[idx]);$lookup_mixed
        scores[idx] = hazard;
    }
    own_axis(curve, scores, features[LIMIT_PLACE], own);
    for (idx = 0; idx < N_STEPS; idx++) {
        const double hazard = own[idx] < LEAST_HAZARD ? LEAST_HAZARD : own[idx];
        curve->rates[idx] = hazard / (curve->edges[idx + 1] - curve->edges[idx]);
        curve->cumulative[idx] = total;
        total += hazard;
    }
    curve->rates[N_STEPS] = 1.0 / TAIL_S;
    curve->cumulative[N_STEPS] = total;
    curve->after[N_STEPS] = TAIL_S;
    curve->gaps[N_STEPS] = 0.0;
    for (idx = N_STEPS - 1; idx >= 0; idx--) {
        curve->after[idx] = mean_s;
        curve->gaps[idx] = mean_s - 1.0 / curve->rates[idx];
        mean_s = mean_at(curve, idx, curve->edges[idx]);
    }
}

""")
LIMIT_FIELDS = Template(HAZARD_FIELDS.template + """
    double edges[${NAME}_N_STEPS + 1]; /* the request's own, s: of the age, then of the share of its limit */""")
_OWN_EDGES = "curve->edges"
LIMIT_BEFORE, LIMIT_AFTER = (
    Template(part.replace("edges_at_most(", "count_at_most(EDGES, N_STEPS + 1, ").replace("EDGES", _OWN_EDGES))
    for part in (HAZARD.template[:_FILL_START], HAZARD.template[_FILL_STOP:]))

HAZARD_CODE = HAZARD_FIELDS, (AT_MOST, HAZARD), ("EDGES", "GRID")
LIMIT_CODE = LIMIT_FIELDS, (AT_MOST, LIMIT_BEFORE, LIMIT_FILL, LIMIT_AFTER), ("GRID",)
UPTIME_CODE = UPTIME_FIELDS, (RESIDUALS, UPTIME), ("THRESHOLDS",)
ONCE_CODE = ONCE_FIELDS, (RESIDUALS, ONCE), ()
"""For each kind of score, the members of its curve, the code that fills and reads it, and its tables that are
searched."""
