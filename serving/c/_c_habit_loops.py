"""The C of habits' loops: the operations of `serving.curves.habit_kernels`, in their order, so that bits agree."""

from __future__ import annotations

from string import Template

AXIS = """
/* The interval in which a request with this limit begins. */
static int first_interval(double limit_s)
{
    (void)limit_s; /* no limit axis */
    return 0;
}

/* The uptime at which an interval ends, its part of the whole interval, and the interval after it. */
static double interval_end(int interval, double limit_s, double *part, int *following)
{
    (void)limit_s;
    *part = interval >= N_STEPS ? 0.0 : 1.0;
    *following = interval >= N_STEPS ? interval : interval + 1;
    return interval >= N_STEPS ? INFINITY : EDGES[interval + 1];
}

/* Hazards of whole intervals on the request's axis; how many of them are of the age. */
static int on_axis(const float known[], double limit_s, double own[])
{
    int idx;
    (void)limit_s;
    for (idx = 0; idx < N_STEPS; idx++) {
        own[idx] = known[idx];
    }
    return N_STEPS;
}
"""
LIMIT_AXIS = """
static int first_interval(double limit_s)
{
    return is_limit(limit_s) && SHARES[0] * limit_s - HALF_S < WIDTH_MIN_S ? N_AGES : 0;
}

/* The uptime at which an interval ends, its part of the whole interval, and the interval after it. */
static double interval_end(int interval, double limit_s, double *part, int *following)
{
    double switch_s, lower_s, upper_s;
    *part = 1.0;
    if (!is_limit(limit_s)) {
        *part = interval >= N_AGES ? 0.0 : 1.0;
        *following = interval >= N_AGES ? interval : interval + 1;
        return interval >= N_AGES ? INFINITY : EDGES[interval + 1];
    }
    if (interval >= N_AGES) {
        const int idx = interval - N_AGES;
        if (idx >= N_STEPS - N_AGES) {
            *part = 0.0;
            *following = interval;
            return INFINITY;
        }
        *following = interval + 1;
        return SHARES[idx + 1] * limit_s - HALF_S;
    }
    switch_s = SHARES[0] * limit_s - HALF_S;
    lower_s = EDGES[interval];
    upper_s = EDGES[interval + 1];
    if (switch_s < upper_s || interval == N_AGES - 1) {
        *part = (switch_s - lower_s) / (upper_s - lower_s);
        *following = N_AGES;
        return switch_s;
    }
    *following = switch_s - upper_s < WIDTH_MIN_S ? N_AGES : interval + 1;
    return upper_s;
}

/* Hazards of whole intervals on the request's axis; how many of them are of the age. */
static int on_axis(const float known[], double limit_s, double own[])
{
    int idx, n = 0, n_of_age = N_AGES;
    if (is_limit(limit_s)) {
        const double switch_s = SHARES[0] * limit_s - HALF_S;
        for (; n < N_AGES && switch_s - EDGES[n] >= WIDTH_MIN_S; n++) {
            const double end_s = switch_s < EDGES[n + 1] || n == N_AGES - 1 ? switch_s : EDGES[n + 1];
            own[n] = known[n] * ((end_s - EDGES[n]) / (EDGES[n + 1] - EDGES[n]));
        }
        n_of_age = n;
        for (idx = N_AGES; idx < N_STEPS; idx++) {
            own[n++] = known[idx];
        }
    } else {
        for (; n < N_AGES; n++) {
            own[n] = known[n];
        }
    }
    for (; n < N_STEPS; n++) {
        own[n] = 1.0;
    }
    return n_of_age;
}
"""

LOOPS = Template("""
static double at_most_half(double value)
{
    return value < 0.5 ? value : 0.5;
}

/* Count one request in an interval, at all of its nodes that still have its keys. */
static void count_one(${name}_habits *habits, long place, int interval, double part, double ended)
{
    const double fade = at_most_half(part / ALL_MEMORY), slow = at_most_half(part / MEMORY);
    const double fast = at_most_half(part / FAST_MEMORY);
    double *count = habits->counts + (size_t)interval * 4;
    int level;
    count[0] += part - fade * count[0];
    count[1] += ended - fade * count[1];
    for (level = 0; level < N_LEVELS; level++) {
        const int32_t node = habits->nodes[place * LEVEL_ROOM + level];
        if (node >= 0 && habits->open_serial[place] >= habits->born[node]) {
            count = habits->counts + ((size_t)node * N_STEPS + (size_t)interval) * 4;
            count[0] += part - slow * count[0];
            count[1] += ended - slow * count[1];
            count[2] += part - fast * count[2];
            count[3] += ended - fast * count[3];
        }
    }
}

static int32_t owner_of(const int32_t nodes[])
{
    return OWNER_LEVEL < 0 ? -1 : nodes[OWNER_LEVEL < 0 ? 0 : OWNER_LEVEL];
}

static void add_losses(double sums[], double squared, double product, double memory)
{
    sums[0] += squared - sums[0] / memory;
    sums[1] += product - sums[1] / memory;
}

/* Count the losses of both predictions in an interval that a request came through, or in which it ended. */
static void weigh_one(${name}_habits *habits, long place, int interval, double part, double ended)
{
    const double model = -expm1(-part * habits->model[(size_t)place * N_STEPS + (size_t)interval]);
    const double known = -expm1(-part * habits->known[(size_t)place * N_STEPS + (size_t)interval]);
    const double squared = (model - known) * (model - known), product = (ended - known) * (model - known);
    const int32_t node = owner_of(habits->nodes + place * LEVEL_ROOM);
    const size_t bucket = (size_t)BUCKETS[interval] * 2;
    if (!IS_BLENDED) {
        return;
    }
    add_losses(habits->sums + bucket, squared, product, ALL_LOSSES);
    if (node >= 0 && habits->open_serial[place] >= habits->born[node]) {
        add_losses(habits->sums + (size_t)node * N_BUCKETS * 2 + bucket, squared, product, LOSSES);
    }
}

static int is_before(double due_s, int64_t serial, double other_s, int64_t other)
{
    return due_s < other_s || (due_s == other_s && serial <= other);
}

static void set_due(${name}_habits *habits, int at, double due_s, int32_t place, int64_t serial)
{
    habits->due_s[at] = due_s;
    habits->due_place[at] = place;
    habits->due_serial[at] = serial;
}

static void copy_due(${name}_habits *habits, int at, int from)
{
    set_due(habits, at, habits->due_s[from], habits->due_place[from], habits->due_serial[from]);
}

static void rise(${name}_habits *habits, int at, double due_s, int32_t place, int64_t serial)
{
    while (at > 0) {
        const int above = (at - 1) / 2;
        if (is_before(habits->due_s[above], habits->due_serial[above], due_s, serial)) {
            break;
        }
        copy_due(habits, at, above);
        at = above;
    }
    set_due(habits, at, due_s, place, serial);
}

static void push_due(${name}_habits *habits, double due_s, long place)
{
    if (habits->n_due == 2 * habits->n_open) { /* those of ended requests are removed */
        const int n = habits->n_due;
        int idx;
        habits->n_due = 0;
        for (idx = 0; idx < n; idx++) {
            const int32_t one = habits->due_place[idx];
            if (habits->open_serial[one] == habits->due_serial[idx]) {
                rise(habits, habits->n_due++, habits->due_s[idx], one, habits->due_serial[idx]);
            }
        }
    }
    rise(habits, habits->n_due++, due_s, (int32_t)place, habits->open_serial[place]);
}

static void pop_due(${name}_habits *habits)
{
    const int n = --habits->n_due;
    const double due_s = habits->due_s[n];
    const int32_t place = habits->due_place[n];
    const int64_t serial = habits->due_serial[n];
    int at = 0;
    for (;;) {
        int below = 2 * at + 1;
        if (below >= n) {
            break;
        }
        if (below + 1 < n && is_before(habits->due_s[below + 1], habits->due_serial[below + 1], habits->due_s[below],
                                       habits->due_serial[below])) {
            below++;
        }
        if (is_before(due_s, serial, habits->due_s[below], habits->due_serial[below])) {
            break;
        }
        copy_due(habits, at, below);
        at = below;
    }
    set_due(habits, at, due_s, place, serial);
}

/* Count who came through the end of an interval before now. */
static void advance(${name}_habits *habits, double now_s)
{
    while (habits->n_due > 0 && habits->due_s[0] < now_s) {
        const int32_t place = habits->due_place[0];
        const int64_t serial = habits->due_serial[0];
        double part, unread, upper_s;
        int interval, following, after;
        pop_due(habits);
        if (habits->open_serial[place] != serial) { /* it ended */
            continue;
        }
        interval = habits->interval[place];
        (void)interval_end(interval, habits->limit_s[place], &part, &following);
        count_one(habits, place, interval, part, 0.0);
        weigh_one(habits, place, interval, part, 0.0);
        habits->interval[place] = following;
        upper_s = interval_end(following, habits->limit_s[place], &unread, &after);
        if (upper_s < INFINITY) {
            push_due(habits, habits->start_s[place] + upper_s, place);
        }
    }
}

/* Follow the request at a place from the first whole interval after its uptime `seen_s` on. */
static void begin(${name}_habits *habits, long place, double seen_s)
{
    int interval = first_interval(habits->limit_s[place]), following;
    double lower_s = 0.0, part, upper_s = interval_end(interval, habits->limit_s[place], &part, &following);
    while (lower_s < seen_s && upper_s < INFINITY) {
        interval = following;
        lower_s = upper_s;
        upper_s = interval_end(interval, habits->limit_s[place], &part, &following);
    }
    habits->interval[place] = interval;
    if (upper_s < INFINITY) {
        push_due(habits, habits->start_s[place] + upper_s, place);
    }
}

void ${name}_habits_curve(${name}_habits *habits, ${name}_curve *curve, ${name}_given *given,
                          const int64_t codes[$room], double limit_s, double now_s)
{
    double weights[N_BUCKETS], own[N_STEPS], total = 0.0, mean_s = TAIL_S;
    int32_t nodes[LEVEL_ROOM];
    int idx, level, n_of_age, owner;
    advance(habits, now_s);
    for (level = 0; level < LEVEL_ROOM; level++) {
        given->codes[level] = level < N_LEVELS ? codes[level] : -1;
        nodes[level] = level < N_LEVELS ? found(habits, level, codes[level]) : -1;
    }
    given->limit_s = $given_limit;
    for (idx = 0; idx < N_STEPS; idx++) {
        const double *count = habits->counts + (size_t)idx * 4;
        double hazard = (count[1] + PRIOR * HABIT_BASE[idx]) / (count[0] + PRIOR);
        for (level = 0; level < N_LEVELS; level++) {
            count = habits->counts + ((size_t)(nodes[level] < 0 ? 0 : nodes[level]) * N_STEPS + (size_t)idx) * 4;
            if (nodes[level] >= 0 && count[0] > 0.0) {
                hazard = (count[1] + PRIOR * hazard) / (count[0] + PRIOR);
                hazard = (count[3] + FAST_PRIOR * hazard) / (count[2] + FAST_PRIOR);
            }
        }
        given->known[idx] = (float)-log1p(-(hazard < HAZARD_TOP ? hazard : HAZARD_TOP));
        given->model[idx] = 0.0F;
    }
    owner = owner_of(nodes);
    for (idx = 0; idx < N_BUCKETS; idx++) {
        const double *sums = habits->sums + (size_t)idx * 2;
        double weight = (sums[1] + 0.5 * LOSS_ALL_PRIOR) / (sums[0] + LOSS_ALL_PRIOR);
        weight = weight < 0.0 ? 0.0 : weight > 1.0 ? 1.0 : weight;
        if (owner >= 0) {
            sums += (size_t)owner * N_BUCKETS * 2;
            weight = (sums[1] + LOSS_PRIOR * weight) / (sums[0] + LOSS_PRIOR);
            weight = weight < 0.0 ? 0.0 : weight > 1.0 ? 1.0 : weight;
        }
        weights[idx] = IS_BLENDED ? (float)weight : 0.0;
    }
    n_of_age = on_axis(given->known, given->limit_s, own);
    for (idx = 0; idx < N_STEPS; idx++) {
        const double width_s = $edges[idx + 1] - $edges[idx], of_model = curve->rates[idx] * width_s;
        const int interval = idx < n_of_age ? idx : N_AGE_STEPS + idx - n_of_age;
        double hazard = of_model;
        if (interval < N_STEPS && (idx < n_of_age || is_limit(given->limit_s))) {
            const double weight = weights[BUCKETS[interval]];
            const double part = idx < n_of_age ? width_s / (EDGES[idx + 1] - EDGES[idx]) : 1.0;
            hazard = weight * of_model + (1.0 - weight) * own[idx];
            given->model[interval] = (float)(of_model / part);
        }
        hazard = hazard < LEAST_HAZARD ? LEAST_HAZARD : hazard;
        curve->rates[idx] = hazard / width_s;
        curve->cumulative[idx] = total;
        total += hazard;
    }
    curve->cumulative[N_STEPS] = total;
    for (idx = N_STEPS - 1; idx >= 0; idx--) {
        curve->after[idx] = mean_s;
        curve->gaps[idx] = mean_s - 1.0 / curve->rates[idx];
        mean_s = mean_at(curve, idx, $edges[idx]);
    }
}

long ${name}_habits_admit(${name}_habits *habits, const ${name}_given *given, double start_s, double now_s)
{
    long place;
    int idx, level;
    if (habits->n_freed == 0 && habits->n_places == habits->n_open) {
        return -1;
    }
    place = habits->n_freed > 0 ? habits->freed[--habits->n_freed] : habits->n_places++;
    habits->serial++;
    for (level = 0; level < LEVEL_ROOM; level++) {
        habits->nodes[place * LEVEL_ROOM + level] = level < N_LEVELS ? node_of(habits, level, given->codes[level]) : -1;
    }
    habits->start_s[place] = start_s;
    habits->limit_s[place] = given->limit_s;
    habits->open_serial[place] = habits->serial;
    for (idx = 0; idx < N_STEPS; idx++) {
        habits->known[(size_t)place * N_STEPS + (size_t)idx] = given->known[idx];
        habits->model[(size_t)place * N_STEPS + (size_t)idx] = given->model[idx];
    }
    habits->interval[place] = UNTIMED;
    if (!habits->waits) {
        begin(habits, place, now_s > start_s ? now_s - start_s : 0.0);
    }
    return place;
}

int ${name}_habits_ended(${name}_habits *habits, long place, double end_s, double began_s)
{
    double lifetime_s = end_s - began_s > 1.0 ? end_s - began_s : 1.0, part, upper_s;
    int interval, following;
    if (place < 0 || place >= habits->n_places || habits->open_serial[place] < 0) {
        return 0;
    }
    if (habits->start_s[place] != began_s) { /* admissions are no starts: later ones count when they end */
        habits->waits = 1;
    }
    habits->start_s[place] = began_s;
    if (habits->interval[place] == UNTIMED) {
        begin(habits, place, 0.0);
    }
    advance(habits, end_s);
    interval = first_interval(habits->limit_s[place]);
    upper_s = interval_end(interval, habits->limit_s[place], &part, &following);
    while (upper_s < lifetime_s) {
        interval = following;
        upper_s = interval_end(interval, habits->limit_s[place], &part, &following);
    }
    if (upper_s < INFINITY) {
        count_one(habits, place, interval, 1.0, 1.0);
        weigh_one(habits, place, interval, 1.0, 1.0);
    }
    return ${name}_habits_forget(habits, place);
}

int ${name}_habits_forget(${name}_habits *habits, long place)
{
    if (place < 0 || place >= habits->n_places || habits->open_serial[place] < 0) {
        return 0;
    }
    habits->open_serial[place] = -1;
    habits->freed[habits->n_freed++] = (int32_t)place;
    return 1;
}
""")
