/* Owner history: arrivals, ends and lifetimes of each owner and category up to now, and from them a request's features.
 * The operations of Sojourn's `serving/inputs` (encoder.py, history.py), in their order, so that bits agree. C99 and
 * C++; no globals, no allocation: the state is in memory that the caller gives. One thread at a time. */
#ifndef SJ_HISTORY_H
#define SJ_HISTORY_H

#include "owners.h"

static void sj_owner_features(const sj_rules *rules, sj_state *state, int owner_key, int32_t entry, double now_s,
                              double values[])
{
    sj_owner none, *owner = &none;
    double arrivals_s[3] = {NAN, NAN, NAN};
    int64_t n_arrived;
    int idx;
    if (entry >= 0) {
        owner = sj_owner_at(state, owner_key, entry);
    } else {
        sj_no_owner(&none);
    }
    n_arrived = owner->n_ended + owner->n_running;
    values[0] = log1p((double)(n_arrived < rules->window ? n_arrived : rules->window));
    values[1] = log1p((double)owner->n_running);
    if (owner->n_running > 0) {
        arrivals_s[0] = (double)sj_requests(state)[owner->first].arrival_s;
        arrivals_s[1] = sj_mean(owner->sum_s, owner->n_running);
    }
    if (owner->last_arrival_s != SJ_NEVER_S) {
        arrivals_s[2] = (double)owner->last_arrival_s;
    }
    for (idx = 0; idx < 3; idx++) {
        const double age_s = now_s - arrivals_s[idx];
        values[2 + idx] = isnan(age_s) ? age_s : log10(age_s > 1.0 ? age_s : 1.0);
    }
    values[5] = now_s - arrivals_s[2] <= (double)rules->batch_gap_s ? log1p((double)owner->batch) : 0.0;
    memcpy(values + 6, owner->ended, sizeof owner->ended);
}

static double *sj_moments_at(sj_state *state, int category_key, int32_t entry)
{
    return sj_moments(state) + 2 * ((size_t)category_key * (size_t)state->n_entries + (size_t)entry);
}

/* Adds a value to (count, mean); a value weighs at least 1 / memory in the mean. */
static void sj_move(double moments[2], double value, double memory)
{
    moments[0] += 1.0;
    moments[1] += (value - moments[1]) / (moments[0] < memory ? moments[0] : memory);
}

/* The second of a time; 0 if it is on no clock of the bundle, or NaN. */
static int sj_second(const sj_rules *rules, double time_s, int64_t *second)
{
    const double whole_s = floor(time_s);
    if (!(whole_s >= (double)rules->first_s && whole_s <= (double)rules->latest_s)) {
        return 0;
    }
    *second = (int64_t)whole_s;
    return 1;
}

/* Reads a request: its numbers, and the codes of its keys. 1; 0 if a number is infinite or a size below 0, and then
 * nothing is known of the request. */
static int sj_parse(const sj_rules *rules, const double given[], const char *const texts[], const size_t n_bytes[],
                    double numbers[], uint64_t keys[])
{
    int idx, key, is_read = 1;
    for (idx = 0; idx < rules->n_numbers; idx++) {
        is_read = is_read && !isinf(given[idx]) && !(rules->is_size[idx] && given[idx] < 0.0);
    }
    if (!is_read) {
        for (idx = 0; idx < rules->n_numbers; idx++) {
            numbers[idx] = NAN;
        }
        for (key = 0; key < rules->n_keys; key++) {
            keys[key] = SJ_NO_KEY;
        }
        return 0;
    }
    for (idx = 0; idx < rules->n_numbers; idx++) {
        numbers[idx] = given[idx] + 0.0; /* no negative zero, whose text differs */
    }
    for (key = 0; key < rules->n_keys; key++) {
        sj_blake2b digest;
        int is_known = 1;
        sj_blake2b_begin(&digest, SJ_CODE_BYTES);
        for (idx = rules->starts[key]; idx < rules->starts[key + 1] && is_known; idx++) {
            const int column = rules->columns[idx];
            if (idx > rules->starts[key]) {
                sj_blake2b_add(&digest, "\x1f", 1);
            }
            if (column < rules->n_numbers) {
                char text[SJ_NUMBER_ROOM];
                sj_blake2b_add(&digest, text, sj_number_text(numbers[column], text));
            } else {
                const int text = column - rules->n_numbers;
                is_known = texts[text] != NULL;
                sj_blake2b_add(&digest, texts[text], is_known ? n_bytes[text] : 0);
            }
        }
        keys[key] = is_known ? sj_code(&digest) : SJ_NO_KEY;
    }
    return 1;
}

/* The features of a parsed request; 1, or 0 with NaN in all if the time is refused. Records nothing. */
static int sj_encode(const sj_rules *rules, sj_state *state, const double numbers[], const uint64_t keys[],
                     double time_s, double features[], int n_features)
{
    const double overall = state->overall[0] != 0.0 ? state->overall[1] : NAN;
    int64_t now_s, second, of_day;
    int at = 0, key, owner_key = 0, category_key = 0, idx, start;
    if (!sj_second(rules, time_s, &now_s)) {
        for (idx = 0; idx < n_features; idx++) {
            features[idx] = NAN;
        }
        return 0;
    }
    for (idx = 0; idx < rules->n_numbers + rules->has_row; idx++) {
        features[at++] = numbers[idx];
    }
    second = now_s + rules->phase_s;
    of_day = second % 86400 + (second % 86400 < 0 ? 86400 : 0);
    features[at++] = (double)of_day / 3600.0;
    second = (second - of_day) / 86400 % 7;
    features[at++] = (double)(second < 0 ? second + 7 : second);
    start = at;
    for (key = 0; key < rules->n_keys; key++) {
        const int32_t entry = sj_find(state, key, keys[key]);
        if (rules->is_owner[key]) {
            sj_owner_features(rules, state, owner_key++, entry, (double)now_s, features + at);
            at += SJ_N_OWNER;
        } else {
            const double *moments = entry >= 0 ? sj_moments_at(state, category_key, entry) : NULL;
            const double n = moments == NULL ? 0.0 : moments[0], prior = rules->prior_strength;
            features[at++] = log1p(n < rules->window ? n : rules->window);
            features[at++] = n > 0.0 ? (n * moments[1] + prior * overall) / (n + prior) : overall;
            category_key++;
        }
    }
    if (rules->limit_place >= 0) {
        const double limit_s = numbers[rules->limit_place];
        const double level = limit_s >= rules->limit_low_s && limit_s <= rules->limit_high_s ? log10(limit_s) : NAN;
        for (key = 0; key < rules->n_keys; start += rules->is_owner[key++] ? SJ_N_OWNER : SJ_N_CATEGORY) {
            if (rules->is_owner[key]) {
                features[at++] = features[start + 7] - level; /* mean and last, relative to the limit */
                features[at++] = features[start + 9] - level;
            }
        }
    }
    return 1;
}

/* ---- Events. ---- */

/* The place of an open request, or SJ_NONE. */
static int32_t sj_place(sj_state *state, int64_t id)
{
    const int32_t place = id < 0 ? SJ_NONE : (int32_t)(id % state->n_open);
    return place >= 0 && place < state->n_places && sj_requests(state)[place].id == id ? place : SJ_NONE;
}

static int64_t sj_admit(const sj_rules *rules, sj_state *state, const uint64_t keys[], double time_s)
{
    int32_t place = state->free_place;
    int64_t now_s;
    sj_request *one;
    int key, owner_key = 0;
    if (!sj_second(rules, time_s, &now_s)) {
        return SJ_REFUSED;
    }
    if (place < 0 && state->n_places == state->n_open) {
        return SJ_FULL;
    }
    if (place < 0) {
        place = state->n_places++;
    }
    one = sj_requests(state) + place;
    state->free_place = place == state->free_place ? one->next_free : state->free_place;
    one->id = state->n_admitted++ * state->n_open + place;
    one->arrival_s = one->began_s = now_s;
    one->is_started = 0;
    memcpy(sj_codes(state) + (size_t)place * (size_t)rules->n_keys, keys, (size_t)rules->n_keys * sizeof *keys);
    for (key = 0; key < rules->n_keys; key++) {
        if (rules->is_owner[key]) {
            sj_link_of(rules, state, owner_key, place)->entry = SJ_NONE;
            if (keys[key] != SJ_NO_KEY) {
                sj_arrive(rules, state, owner_key, sj_admitted_owner(rules, state, key, owner_key, keys[key]), place);
            }
            owner_key++;
        }
    }
    return one->id;
}

static int sj_started(const sj_rules *rules, sj_state *state, int64_t id, double time_s)
{
    const int32_t place = sj_place(state, id);
    sj_request *one = sj_requests(state) + place;
    int64_t now_s;
    if (place < 0 || !sj_second(rules, time_s, &now_s) || now_s < one->arrival_s
            || (one->is_started && one->began_s != now_s)) {
        return 0;
    }
    one->began_s = now_s;
    one->is_started = 1;
    return 1;
}

static void sj_close(sj_state *state, int32_t place)
{
    sj_request *one = sj_requests(state) + place;
    one->id = -1;
    one->next_free = state->free_place;
    state->free_place = place;
}

static int sj_ended(const sj_rules *rules, sj_state *state, int64_t id, double time_s)
{
    const int32_t place = sj_place(state, id);
    const uint64_t *keys;
    int64_t now_s, lifetime_s;
    double log_lifetime;
    int key, owner_key = 0, category_key = 0;
    if (place < 0 || !sj_second(rules, time_s, &now_s) || now_s < sj_requests(state)[place].began_s) {
        return 0;
    }
    lifetime_s = now_s - sj_requests(state)[place].began_s;
    log_lifetime = log10((double)(lifetime_s > 1 ? lifetime_s : 1));
    sj_move(state->overall, log_lifetime, rules->category_memory);
    keys = sj_codes(state) + (size_t)place * (size_t)rules->n_keys;
    for (key = 0; key < rules->n_keys; key++) {
        if (rules->is_owner[key]) {
            sj_owner_ended(rules, state, owner_key++, place, log_lifetime);
        } else if (keys[key] != SJ_NO_KEY) {
            int32_t entry = sj_find(state, key, keys[key]);
            if (entry >= 0) {
                sj_unlink(state, key, entry);
                sj_link_last(state, key, entry);
            } else {
                double *moments;
                if (sj_is_full(state, key)) { /* the one with the oldest last end makes room */
                    sj_drop(state, key, sj_tables(state)[key].first);
                }
                entry = sj_new(state, key, keys[key]);
                moments = sj_moments_at(state, category_key, entry);
                moments[0] = moments[1] = 0.0;
            }
            sj_move(sj_moments_at(state, category_key, entry), log_lifetime, rules->category_memory);
        }
        category_key += !rules->is_owner[key];
    }
    sj_close(state, place);
    return 1;
}

static int sj_withdraw(const sj_rules *rules, sj_state *state, int64_t id)
{
    const int32_t place = sj_place(state, id);
    int key, owner_key = 0;
    if (place < 0) {
        return 0;
    }
    for (key = 0; key < rules->n_keys; key++) {
        if (rules->is_owner[key]) {
            const int32_t entry = sj_link_of(rules, state, owner_key, place)->entry;
            if (sj_owner_withdrew(rules, state, owner_key++, place)) {
                sj_drop(state, key, entry);
            }
        }
    }
    sj_close(state, place);
    return 1;
}

/* ---- The beginning. ---- */

/* The history at the end of the bundle's trace, in memory of `sj_state_size`; NULL if that is 0 or memory is NULL. */
static sj_state *sj_begin(const sj_rules *rules, void *memory, long n_entries, long n_open)
{
    sj_state *state = (sj_state *)memory;
    const size_t n_bytes = sj_state_size(rules, n_entries, n_open);
    size_t at = 0, at_owner = 0, at_group = 0, at_recent = 0, at_moments = 0;
    int32_t idx;
    int key, owner_key = 0, category_key = 0;
    if (memory == NULL || n_bytes == 0) {
        return NULL;
    }
    memset(memory, 0, n_bytes);
    state->n_entries = (int32_t)sj_kept_entries(rules, n_entries);
    state->n_open = (int32_t)n_open;
    (void)sj_lay_out(rules, state, (uint64_t)state->n_entries, (uint64_t)n_open);
    state->build = rules->build;
    state->n_bytes = n_bytes;
    state->overall[0] = rules->overall[0];
    state->overall[1] = rules->overall[1];
    state->free_place = state->free_group = SJ_NONE;
    memset(sj_heads(state), 255, (size_t)rules->n_keys * (size_t)state->n_entries * sizeof(int32_t)); /* -1 */
    for (key = 0; key < rules->n_keys; key++) {
        sj_table *table = sj_tables(state) + key;
        table->first = table->last = table->freed = SJ_NONE;
        for (idx = 0; idx < rules->n_kept[key]; idx++) {
            const int32_t entry = sj_new(state, key, rules->codes[at++]);
            if (rules->is_owner[key]) {
                sj_owner *owner = sj_owner_at(state, owner_key, entry);
                double *recent = sj_recent_of(rules, state, owner_key, entry);
                int32_t part;
                sj_no_owner(owner);
                owner->is_idle = 0;
                owner->n_ended = rules->ended[at_owner];
                owner->last_ended_s = rules->last_s[at_owner];
                for (part = 0; part < rules->n_groups[at_owner]; part++, at_group += 3) {
                    const int64_t *group = rules->groups + at_group;
                    owner->groups = sj_new_group(state, group[0], group[1], group[2], owner->groups);
                }
                owner->n_recent = rules->n_recent[at_owner++];
                memcpy(recent, rules->recent + at_recent, (size_t)owner->n_recent * sizeof *recent);
                at_recent += (size_t)owner->n_recent;
                sj_ended_part(rules, owner, recent);
                sj_recount(rules, state, owner_key, owner);
                sj_rest(state, owner);
            } else {
                memcpy(sj_moments_at(state, category_key, entry), rules->moments + at_moments, 2 * sizeof(double));
                at_moments += 2;
            }
        }
        *(rules->is_owner[key] ? &owner_key : &category_key) += 1;
    }
    return state;
}

/* The state in memory that was copied or read from a file; NULL if it is no state of this export, or cut. */
static sj_state *sj_resume(const sj_rules *rules, void *memory, size_t n_bytes)
{
    sj_state *state = (sj_state *)memory;
    if (memory == NULL || n_bytes < sizeof *state || state->build != rules->build || state->n_bytes > n_bytes
            || sj_state_size(rules, state->n_entries, state->n_open) != state->n_bytes) {
        return NULL;
    }
    return state;
}

#endif
