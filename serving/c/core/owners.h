/* The memory of an owner history, its tables of keys, and one owner: arrivals, running requests, latest lifetimes.
 * The operations of Sojourn's `serving/inputs/owner.py`, in their order, so that bits agree. The state holds no
 * pointers: arrays are at so many bytes from its start, so the memory may be copied or written to a file. */
#ifndef SJ_OWNERS_H
#define SJ_OWNERS_H

#include "keys.h"

#define SJ_NO_KEY UINT64_MAX
#define SJ_NEVER_S INT64_MIN

enum { SJ_NONE = -1, SJ_FULL = -1, SJ_REFUSED = -2, SJ_N_OWNER = 15, SJ_N_ENDED = 9, SJ_N_CATEGORY = 2 };
enum { SJ_N_ENTRIES_MAX = 10000000, SJ_N_OPEN_MAX = 1 << 22 };
enum { SJ_LAYOUT = 1 }; /* of the memory; a change of it makes kept states unreadable */

/* What a bundle says of its inputs and their history, and the history at the end of its trace. Tables are constant. */
typedef struct {
    uint64_t build;       /* of the export and of SJ_LAYOUT; a state of another one is refused */
    int32_t n_numbers, n_texts, n_keys, n_owners; /* owners: keys with owners, the others have categories */
    int32_t limit_place, has_row; /* the number that is a limit, or -1; 1 if a lookup row follows the numbers */
    int32_t window, n_keys_max;
    int64_t batch_gap_s, phase_s, first_s, latest_s; /* times before first_s or after latest_s are refused */
    double category_memory, prior_strength, instant_log10, limit_low_s, limit_high_s;
    double overall[2];       /* ended requests, mean of their log10 lifetimes */
    const uint8_t *is_size;  /* by number: a size is not below 0 */
    const uint8_t *is_owner; /* by key */
    const int16_t *starts, *columns; /* the columns of key k: columns[starts[k]] on; numbers first, then texts */
    const int32_t *n_kept;           /* by key; what follows is by kept owner or category, in the order of eviction */
    int32_t n_kept_groups;
    const uint64_t *codes;
    const int64_t *ended, *last_s;           /* of owners: ended requests, the latest arrival of them */
    const int32_t *n_groups, *n_recent;
    const int64_t *groups;                   /* latest, earliest arrival, count */
    const double *recent;                    /* log10 lifetimes */
    const double *moments;                   /* of categories: count and mean */
} sj_rules;

/* A place in the table of a key, with its neighbours in the order of eviction. */
typedef struct {
    uint64_t code;
    int32_t chain, earlier, later;
} sj_entry;

/* The owners or categories of one key; `freed` are places that were used, linked by `chain`. */
typedef struct {
    int32_t first, last, n_used, freed;
} sj_table;

/* Ended requests of a batch with gaps up to that of a batch; `before` is the group before it in time. */
typedef struct {
    int64_t latest_s, earliest_s, n;
    int32_t before;
} sj_group;

/* See `OwnerState` and `RunningRequests`. first, last: of its running requests, in the order of admission. */
typedef struct {
    int64_t n_ended, batch, batch_start_s, last_arrival_s, last_ended_s, sum_s;
    int64_t undo_id, undo_last_s, undo_batch, undo_start_s;
    int32_t first, last, n_running, n_recent, groups, undo_groups;
    int32_t is_idle, has_undo, is_undo_moved; /* moved: undo_groups were its groups, which are new since */
    double ended[SJ_N_ENDED];
} sj_owner;

/* An admitted request. id: -1 if the place is free. */
typedef struct {
    int64_t id, arrival_s, began_s;
    int32_t is_started, next_free;
} sj_request;

/* A request among the running ones of an owner; entry: SJ_NONE if it has no owner. */
typedef struct {
    int32_t entry, before, after;
} sj_link;

/* The head of the memory; the arrays follow, each at so many bytes from the start. */
typedef struct {
    uint64_t build, n_bytes;
    int64_t n_admitted;
    double overall[2];
    int32_t n_entries, n_open, n_places, free_place, n_groups, free_group, n_groups_used;
    size_t tables_at, heads_at, entries_at, owners_at, recent_at, moments_at;
    size_t requests_at, codes_at, links_at, groups_at, times_at;
} sj_state;

#define SJ_ARRAY(name, type, field)                          \
    static type *sj_##name(sj_state *state)                  \
    {                                                        \
        return (type *)(void *)((char *)state + state->field); \
    }
SJ_ARRAY(tables, sj_table, tables_at)
SJ_ARRAY(heads, int32_t, heads_at)
SJ_ARRAY(entries, sj_entry, entries_at)
SJ_ARRAY(owners, sj_owner, owners_at)
SJ_ARRAY(recent, double, recent_at)
SJ_ARRAY(moments, double, moments_at)
SJ_ARRAY(requests, sj_request, requests_at)
SJ_ARRAY(codes, uint64_t, codes_at)
SJ_ARRAY(links, sj_link, links_at)
SJ_ARRAY(groups, sj_group, groups_at)
SJ_ARRAY(times, int64_t, times_at)
#undef SJ_ARRAY

static uint64_t sj_room(uint64_t *at, uint64_t n, size_t size)
{
    const uint64_t begin = *at;
    *at += (n * size + 15) / 16 * 16;
    return begin;
}

/* Where each array begins; the result is the size of all. */
static uint64_t sj_lay_out(const sj_rules *rules, sj_state *state, uint64_t n_entries, uint64_t n_open)
{
    const uint64_t n_keys = (uint64_t)rules->n_keys, n_owners = (uint64_t)rules->n_owners;
    uint64_t at = (sizeof(sj_state) + 15) / 16 * 16;
    state->n_groups = (int32_t)(2 * n_open * n_owners + (uint64_t)rules->n_kept_groups);
    state->tables_at = (size_t)sj_room(&at, n_keys, sizeof(sj_table));
    state->heads_at = (size_t)sj_room(&at, n_keys * n_entries, sizeof(int32_t));
    state->entries_at = (size_t)sj_room(&at, n_keys * n_entries, sizeof(sj_entry));
    state->owners_at = (size_t)sj_room(&at, n_owners * n_entries, sizeof(sj_owner));
    state->recent_at = (size_t)sj_room(&at, n_owners * n_entries * (uint64_t)rules->window, sizeof(double));
    state->moments_at = (size_t)sj_room(&at, (n_keys - n_owners) * n_entries * 2, sizeof(double));
    state->requests_at = (size_t)sj_room(&at, n_open, sizeof(sj_request));
    state->codes_at = (size_t)sj_room(&at, n_open * n_keys, sizeof(uint64_t));
    state->links_at = (size_t)sj_room(&at, n_open * n_owners, sizeof(sj_link));
    state->groups_at = (size_t)sj_room(&at, (uint64_t)state->n_groups, sizeof(sj_group));
    state->times_at = (size_t)sj_room(&at, n_open, sizeof(int64_t));
    return at;
}

/* The bundle's own bound holds if the caller has room for more. */
static long sj_kept_entries(const sj_rules *rules, long n_entries)
{
    return n_entries < rules->n_keys_max ? n_entries : (long)rules->n_keys_max;
}

static size_t sj_state_size(const sj_rules *rules, long n_entries, long n_open)
{
    sj_state state;
    uint64_t size;
    int key;
    n_entries = sj_kept_entries(rules, n_entries);
    for (key = 0; key < rules->n_keys; key++) {
        if (n_entries < rules->n_kept[key]) {
            return 0;
        }
    }
    if (n_entries < 1 || n_entries > SJ_N_ENTRIES_MAX || n_open < 1 || n_open > SJ_N_OPEN_MAX) {
        return 0;
    }
    size = sj_lay_out(rules, &state, (uint64_t)n_entries, (uint64_t)n_open);
    return (size_t)size == size && size <= SIZE_MAX / 2 ? (size_t)size : 0;
}

/* ---- The tables of keys: hash chains, and the order of eviction. ---- */

static int32_t *sj_head(sj_state *state, int key, uint64_t code)
{
    return sj_heads(state) + (size_t)key * (size_t)state->n_entries + (size_t)(code % (uint64_t)state->n_entries);
}

static sj_entry *sj_entries_of(sj_state *state, int key)
{
    return sj_entries(state) + (size_t)key * (size_t)state->n_entries;
}

static int32_t sj_find(sj_state *state, int key, uint64_t code)
{
    const sj_entry *entries = sj_entries_of(state, key);
    int32_t entry = code == SJ_NO_KEY ? SJ_NONE : *sj_head(state, key, code);
    while (entry >= 0 && entries[entry].code != code) {
        entry = entries[entry].chain;
    }
    return entry;
}

static void sj_link_last(sj_state *state, int key, int32_t entry)
{
    sj_table *table = sj_tables(state) + key;
    sj_entry *entries = sj_entries_of(state, key);
    entries[entry].earlier = table->last;
    entries[entry].later = SJ_NONE;
    *(table->last >= 0 ? &entries[table->last].later : &table->first) = entry;
    table->last = entry;
}

static void sj_unlink(sj_state *state, int key, int32_t entry)
{
    sj_table *table = sj_tables(state) + key;
    sj_entry *entries = sj_entries_of(state, key);
    const int32_t earlier = entries[entry].earlier, later = entries[entry].later;
    *(earlier >= 0 ? &entries[earlier].later : &table->first) = later;
    *(later >= 0 ? &entries[later].earlier : &table->last) = earlier;
}

/* Takes a entry out of its table; its place may be used again. */
static void sj_drop(sj_state *state, int key, int32_t entry)
{
    sj_table *table = sj_tables(state) + key;
    sj_entry *entries = sj_entries_of(state, key);
    int32_t *link = sj_head(state, key, entries[entry].code);
    while (*link != entry) {
        link = &entries[*link].chain;
    }
    *link = entries[entry].chain;
    sj_unlink(state, key, entry);
    entries[entry].chain = table->freed;
    table->freed = entry;
}

/* A new entry of a code, the last in the order; the table has room. */
static int32_t sj_new(sj_state *state, int key, uint64_t code)
{
    sj_table *table = sj_tables(state) + key;
    sj_entry *entries = sj_entries_of(state, key);
    int32_t *head = sj_head(state, key, code), entry = table->freed;
    if (entry >= 0) {
        table->freed = entries[entry].chain;
    } else {
        entry = table->n_used++;
    }
    entries[entry].code = code;
    entries[entry].chain = *head;
    *head = entry;
    sj_link_last(state, key, entry);
    return entry;
}

static int sj_is_full(sj_state *state, int key)
{
    const sj_table *table = sj_tables(state) + key;
    return table->freed < 0 && table->n_used == state->n_entries;
}

/* ---- Groups of ended requests, the latest first. ---- */

static int32_t sj_new_group(sj_state *state, int64_t latest_s, int64_t earliest_s, int64_t n, int32_t before)
{
    sj_group *groups = sj_groups(state);
    int32_t group = state->free_group;
    if (group >= 0) {
        state->free_group = groups[group].before;
    } else if (state->n_groups_used < state->n_groups) {
        group = state->n_groups_used++;
    } else { /* cannot be: a running request is between two groups, or both are of the bundle */
        return before;
    }
    groups[group].latest_s = latest_s;
    groups[group].earliest_s = earliest_s;
    groups[group].n = n;
    groups[group].before = before;
    return group;
}

/* Frees a group; the result is the group before it. */
static int32_t sj_free_group(sj_state *state, int32_t group)
{
    sj_group *groups = sj_groups(state);
    const int32_t before = groups[group].before;
    groups[group].before = state->free_group;
    state->free_group = group;
    return before;
}

static void sj_free_groups(sj_state *state, int32_t *group)
{
    while (*group >= 0) {
        *group = sj_free_group(state, *group);
    }
}

/* Counts an ended request of a batch; it may join its neighbouring groups. */
static void sj_group_ended(sj_state *state, int32_t *first, int64_t arrival_s, int64_t batch_gap_s)
{
    sj_group *groups = sj_groups(state);
    int64_t latest_s = arrival_s, earliest_s = arrival_s, n = 1;
    while (*first >= 0 && groups[*first].earliest_s > arrival_s + batch_gap_s) {
        first = &groups[*first].before;
    }
    while (*first >= 0 && groups[*first].latest_s >= arrival_s - batch_gap_s) {
        latest_s = groups[*first].latest_s > latest_s ? groups[*first].latest_s : latest_s;
        earliest_s = groups[*first].earliest_s < earliest_s ? groups[*first].earliest_s : earliest_s;
        n += groups[*first].n;
        *first = sj_free_group(state, *first);
    }
    *first = sj_new_group(state, latest_s, earliest_s, n, *first);
}

/* ---- One owner. ---- */

static sj_owner *sj_owner_at(sj_state *state, int owner_key, int32_t entry)
{
    return sj_owners(state) + (size_t)owner_key * (size_t)state->n_entries + (size_t)entry;
}

static double *sj_recent_of(const sj_rules *rules, sj_state *state, int owner_key, int32_t entry)
{
    return sj_recent(state) + ((size_t)owner_key * (size_t)state->n_entries + (size_t)entry) * (size_t)rules->window;
}

static sj_link *sj_link_of(const sj_rules *rules, sj_state *state, int owner_key, int32_t place)
{
    return sj_links(state) + (size_t)place * (size_t)rules->n_owners + (size_t)owner_key;
}

static void sj_no_owner(sj_owner *owner)
{
    int idx;
    memset(owner, 0, sizeof *owner);
    owner->last_arrival_s = owner->last_ended_s = SJ_NEVER_S;
    owner->first = owner->last = owner->groups = owner->undo_groups = SJ_NONE;
    owner->is_idle = 1;
    for (idx = 1; idx < SJ_N_ENDED; idx++) {
        owner->ended[idx] = NAN;
    }
}

/* The mean of whole numbers, rounded once, as Python divides them. */
static double sj_mean(int64_t sum, int64_t n)
{
    uint64_t left = sum < 0 ? (uint64_t)-sum : (uint64_t)sum, whole = left / (uint64_t)n;
    int n_bits = 0;
    if (left < UINT64_C(1) << 53) {
        return (double)sum / (double)n;
    }
    left %= (uint64_t)n;
    for (; whole < UINT64_C(1) << 54; n_bits++) {
        left *= 2;
        whole = 2 * whole + (left >= (uint64_t)n);
        left -= left >= (uint64_t)n ? (uint64_t)n : 0;
    }
    return ldexp(sum < 0 ? -(double)(whole | (left > 0)) : (double)(whole | (left > 0)), -n_bits);
}

/* The 9 features that only ends change, after the first end. */
static void sj_ended_part(const sj_rules *rules, sj_owner *owner, const double recent[])
{
    const double longer[3] = {log10(3600.0), log10(86400.0), log10(604800.0)};
    const int is_apart = rules->instant_log10 >= 0.0;
    double total = 0.0, squares = 0.0, longest = -1.0, last = NAN, before = NAN, mean;
    int n = 0, n_longer[3] = {0, 0, 0}, idx, part;
    for (idx = 0; idx < owner->n_recent; idx++) {
        if (!is_apart || recent[idx] > rules->instant_log10) {
            total += recent[idx];
            before = last;
            last = recent[idx];
            n++;
        }
    }
    mean = total / n;
    for (idx = 0; idx < owner->n_recent && n > 0; idx++) {
        const double value = recent[idx];
        if (is_apart && !(value > rules->instant_log10)) {
            continue;
        }
        squares += (value - mean) * (value - mean);
        longest = value > longest ? value : longest;
        for (part = 0; part < 3; part++) {
            n_longer[part] += value >= longer[part];
        }
    }
    owner->ended[0] = log1p(n);
    owner->ended[4] = n == 1 ? last : (last + before) / 2.0;
    if (is_apart) {
        owner->ended[4] = (double)(owner->n_recent - n) / owner->n_recent;
    }
    owner->ended[1] = n > 0 ? mean : NAN;
    owner->ended[2] = n > 0 ? sqrt(squares / n) : NAN;
    owner->ended[3] = n > 0 ? last : NAN;
    owner->ended[5] = n > 0 ? longest : NAN;
    for (part = 0; part < 3; part++) {
        owner->ended[6 + part] = n > 0 ? (double)n_longer[part] / n : NAN;
    }
}

/* Sorts times, rising: a heap of them, of which the latest goes to the end. */
static void sj_sort(int64_t times[], int32_t n)
{
    int32_t start = n / 2, end = n;
    while (end > 1) {
        int32_t at, below;
        int64_t time_s;
        if (start > 0) {
            time_s = times[--start];
        } else {
            time_s = times[--end];
            times[end] = times[0];
        }
        for (at = start; (below = 2 * at + 1) < end; at = below) {
            below += below + 1 < end && times[below + 1] > times[below];
            if (times[below] <= time_s) {
                break;
            }
            times[at] = times[below];
        }
        times[at] = time_s;
    }
}

/* Counts the latest batch of running and ended requests anew. */
static void sj_recount(const sj_rules *rules, sj_state *state, int owner_key, sj_owner *owner)
{
    const sj_group *groups = sj_groups(state);
    int64_t *times = sj_times(state), latest_s, start_s, n = 0;
    int32_t n_times = 0, place, group = owner->groups;
    for (place = owner->first; place >= 0; place = sj_link_of(rules, state, owner_key, place)->after) {
        times[n_times++] = sj_requests(state)[place].arrival_s;
    }
    sj_sort(times, n_times);
    latest_s = n_times > 0 ? times[n_times - 1] : SJ_NEVER_S;
    latest_s = group >= 0 && groups[group].latest_s > latest_s ? groups[group].latest_s : latest_s;
    if (latest_s == SJ_NEVER_S || owner->last_ended_s > latest_s) { /* too old to continue: its size does not matter */
        owner->last_arrival_s = owner->last_ended_s;
        owner->batch = 0;
        owner->batch_start_s = owner->last_ended_s == SJ_NEVER_S ? 0 : owner->last_ended_s;
        return;
    }
    start_s = latest_s;
    for (;;) {
        while (n_times > 0 && start_s - times[n_times - 1] <= rules->batch_gap_s) {
            const int64_t time_s = times[--n_times];
            start_s = time_s < start_s ? time_s : start_s;
            n++;
        }
        if (group < 0 || start_s - groups[group].latest_s > rules->batch_gap_s) {
            break;
        }
        start_s = groups[group].earliest_s < start_s ? groups[group].earliest_s : start_s;
        n += groups[group].n;
        group = groups[group].before;
    }
    owner->last_arrival_s = latest_s;
    owner->batch_start_s = start_s;
    owner->batch = n;
}

/* The latest event is no admission that can be undone in constant time. */
static void sj_no_undo(sj_state *state, sj_owner *owner)
{
    sj_free_groups(state, &owner->undo_groups);
    owner->has_undo = owner->is_undo_moved = 0;
}

/* An idle owner needs no groups: its one group is the batch. */
static void sj_rest(sj_state *state, sj_owner *owner)
{
    if (owner->n_running == 0 && (owner->groups < 0 || sj_groups(state)[owner->groups].before < 0)) {
        sj_free_groups(state, &owner->groups);
        sj_no_undo(state, owner);
        owner->is_idle = 1;
    }
}

static void sj_arrive(const sj_rules *rules, sj_state *state, int owner_key, int32_t entry, int32_t place)
{
    sj_owner *owner = sj_owner_at(state, owner_key, entry);
    sj_link *link = sj_link_of(rules, state, owner_key, place);
    const int64_t now_s = sj_requests(state)[place].arrival_s, last_s = owner->last_arrival_s;
    if (owner->is_idle) {
        owner->is_idle = 0;
        owner->groups = SJ_NONE;
        if (owner->batch > 0) {
            owner->groups = sj_new_group(state, last_s, owner->batch_start_s, owner->batch, SJ_NONE);
        }
    }
    sj_no_undo(state, owner);
    owner->has_undo = 1;
    owner->undo_id = sj_requests(state)[place].id;
    owner->undo_last_s = last_s;
    owner->undo_batch = owner->batch;
    owner->undo_start_s = owner->batch_start_s;
    link->entry = entry;
    link->before = owner->last;
    link->after = SJ_NONE;
    *(owner->last >= 0 ? &sj_link_of(rules, state, owner_key, owner->last)->after : &owner->first) = place;
    owner->last = place;
    owner->n_running++;
    owner->sum_s += now_s;
    if (last_s == SJ_NEVER_S || now_s - last_s > rules->batch_gap_s) {
        owner->last_arrival_s = owner->batch_start_s = now_s;
        owner->batch = 1;
        owner->undo_groups = owner->groups;
        owner->is_undo_moved = 1;
        owner->groups = SJ_NONE;
    } else if (owner->batch > 0 && now_s >= owner->batch_start_s) {
        owner->last_arrival_s = now_s > last_s ? now_s : last_s;
        owner->batch++;
    } else if (owner->batch_start_s - now_s <= rules->batch_gap_s) { /* it ran before, and may join the batch */
        sj_recount(rules, state, owner_key, owner);
    }
}

/* Takes a request out of its owner's running ones; the owner, or NULL if that made room for another. */
static sj_owner *sj_leave(const sj_rules *rules, sj_state *state, int owner_key, int32_t place)
{
    sj_link *link = sj_link_of(rules, state, owner_key, place);
    sj_owner *owner;
    if (link->entry < 0) {
        return NULL;
    }
    owner = sj_owner_at(state, owner_key, link->entry);
    *(link->before >= 0 ? &sj_link_of(rules, state, owner_key, link->before)->after : &owner->first) = link->after;
    *(link->after >= 0 ? &sj_link_of(rules, state, owner_key, link->after)->before : &owner->last) = link->before;
    owner->n_running--;
    owner->sum_s -= sj_requests(state)[place].arrival_s;
    return owner;
}

static void sj_owner_ended(const sj_rules *rules, sj_state *state, int owner_key, int32_t place, double log_lifetime)
{
    const int32_t entry = sj_link_of(rules, state, owner_key, place)->entry;
    const int64_t arrival_s = sj_requests(state)[place].arrival_s;
    sj_owner *owner = sj_leave(rules, state, owner_key, place);
    double *recent;
    if (owner == NULL) {
        return;
    }
    sj_no_undo(state, owner);
    owner->last_ended_s = arrival_s > owner->last_ended_s ? arrival_s : owner->last_ended_s;
    if (arrival_s >= owner->batch_start_s) {
        sj_group_ended(state, &owner->groups, arrival_s, rules->batch_gap_s);
    }
    owner->n_ended++;
    recent = sj_recent_of(rules, state, owner_key, entry);
    if (owner->n_recent == rules->window) {
        memmove(recent, recent + 1, (size_t)(rules->window - 1) * sizeof *recent);
        owner->n_recent--;
    }
    recent[owner->n_recent++] = log_lifetime;
    sj_ended_part(rules, owner, recent);
    sj_rest(state, owner);
}

/* 1 if the owner is empty then. */
static int sj_owner_withdrew(const sj_rules *rules, sj_state *state, int owner_key, int32_t place)
{
    sj_owner *owner = sj_leave(rules, state, owner_key, place);
    if (owner == NULL) {
        return 0;
    }
    if (owner->has_undo && owner->undo_id == sj_requests(state)[place].id) {
        owner->last_arrival_s = owner->undo_last_s;
        owner->batch = owner->undo_batch;
        owner->batch_start_s = owner->undo_start_s;
        if (owner->is_undo_moved) {
            sj_free_groups(state, &owner->groups);
            owner->groups = owner->undo_groups;
            owner->undo_groups = SJ_NONE;
        }
        sj_no_undo(state, owner);
    } else {
        const int64_t start_s = owner->batch_start_s;
        int32_t *group = &owner->groups;
        sj_no_undo(state, owner);
        sj_recount(rules, state, owner_key, owner);
        while (*group >= 0) { /* those that no longer belong to the batch */
            const sj_group *one = sj_groups(state) + *group;
            if (start_s <= one->earliest_s && one->earliest_s < owner->batch_start_s) {
                *group = sj_free_group(state, *group);
            } else {
                group = &sj_groups(state)[*group].before;
            }
        }
    }
    sj_rest(state, owner);
    return owner->n_ended == 0 && owner->is_idle;
}

/* The owner's entry at an admission; in a full table the one with the oldest admission makes room. */
static int32_t sj_admitted_owner(const sj_rules *rules, sj_state *state, int key, int owner_key, uint64_t code)
{
    int32_t entry = sj_find(state, key, code);
    if (entry >= 0) {
        sj_unlink(state, key, entry);
        sj_link_last(state, key, entry);
        return entry;
    }
    if (sj_is_full(state, key)) {
        sj_owner *oldest;
        int32_t place;
        entry = sj_tables(state)[key].first;
        oldest = sj_owner_at(state, owner_key, entry);
        for (place = oldest->first; place >= 0; place = sj_link_of(rules, state, owner_key, place)->after) {
            sj_link_of(rules, state, owner_key, place)->entry = SJ_NONE;
        }
        sj_free_groups(state, &oldest->groups);
        sj_free_groups(state, &oldest->undo_groups);
        sj_drop(state, key, entry);
    }
    entry = sj_new(state, key, code);
    sj_no_owner(sj_owner_at(state, owner_key, entry));
    return entry;
}

#endif
