/* From a request to its lifetime curve in one call: `Model`, one bundle's encoder, forest and curve.
 *
 * It reads a plain dict with known types and leaves all else to Python (None), so that refusals have one text. Strings
 * find their history by Python's own dicts: a string keeps its hash, so a lookup compares one pointer, as a perfect
 * hash would. Slow twins, to the bit: `Encoder.parse`, `Encoder.encode` and the curve kinds. One caller at a time: the
 * caller holds Python's lock.
 */
#include "../c/core/forest.h"

enum { HAZARD, POINT, ONCE, LIMITED }; /* serving/curves/curve_arrays.py */
enum { N_OWNER = 15, N_CATEGORY = 2, N_HEAD = 6, MEAN = 7, LAST = 9, N_TEXTS = 1024, UNKNOWN = 0 };
enum { N_MOST = 256 }; /* columns, history keys: more are left to Python */

#define SJ_ONE(type, name) +1
enum { N_AFTER = 5, N_BUFFERS = 0 SJ_FOREST_FIELDS(SJ_ONE) + N_AFTER };
#undef SJ_ONE

typedef struct {
    double number;
    PyObject *text;
} Text;

typedef struct {
    PyObject_HEAD
    PyObject *columns;       /* tuple of text: of numbers, then of names */
    PyObject *parts;         /* for each history key a tuple of places in the pool: names, then numbers as text */
    PyObject *history_names; /* for each history key */
    PyObject *reported;      /* for each column its name, or None if a request may lack it unsaid */
    PyObject *flags;         /* bytes: for each number, whether it must not be below 0; for each key, whether an owner's */
    PyObject *row_of;        /* the row of a lookup table from the keys, or None */
    PyObject *numpy_float;   /* numpy.float64 */
    PyObject *slot;          /* "slot" */
    PyObject *tables;        /* the forest's arrays, which the buffers hold */
    Axis *axis;
    PyTypeObject *curve_type;
    const char *is_size, *is_owner;
    Py_ssize_t n_numbers, n_names, n_keys, n_features, n_values;
    long long phase_s;
    double batch_gap_s, window, prior_strength, tail_s;
    Py_ssize_t limit_place, lookup_place, n_ages, n_shares, n_rows, n_steps, n_before;
    int kind, n_buffers;
    Py_buffer buffers[N_BUFFERS];
    sj_forest forest;
    const double *offsets, *edges, *shares, *weights, *known; /* edges of the age, shares of the limit, lookup table */
    double *scores, *own_hazards;
    void *scratch;
    Text *texts;
} Model;

/* The features after the numbers, which stand there already: clock, history, limits; `Encoder.encode`. */
static void fill_features(const Model *model, long long now_s, double overall, const double *rows,
                          const Py_ssize_t *slots, double *features)
{
    const long long second = now_s + model->phase_s, of_day = floor_mod(second, 86400);
    const double now = (double)now_s;
    double *at = features + model->n_values;
    const double *history = at + 2;
    Py_ssize_t idx, key;
    *at++ = (double)of_day / 3600.0;
    *at++ = (double)floor_mod((second - of_day) / 86400, 7);
    for (key = 0; key < model->n_keys; key++) {
        const double *row = rows + slots[key] * N_OWNER;
        if (model->is_owner[key]) {
            at[0] = row[0];
            at[1] = row[1];
            for (idx = 2; idx < 5; idx++) {
                const double age_s = now - row[idx];
                at[idx] = isnan(row[idx]) ? row[idx] : log10(age_s > 1.0 ? age_s : 1.0);
            }
            at[5] = now - row[4] <= model->batch_gap_s ? row[5] : 0.0;
            memcpy(at + N_HEAD, row + N_HEAD, sizeof(double) * (N_OWNER - N_HEAD));
            at += N_OWNER;
        } else {
            const double n = row[0];
            at[0] = log1p(n < model->window ? n : model->window);
            at[1] = n > 0.0 ? (n * row[1] + model->prior_strength * overall) / (n + model->prior_strength) : overall;
            at += N_CATEGORY;
        }
    }
    if (model->limit_place >= 0) {
        const double limit_s = features[model->limit_place];
        const double level = has_limit(limit_s) ? log10(limit_s) : Py_NAN;
        for (key = 0; key < model->n_keys; key++) {
            if (model->is_owner[key]) {
                *at++ = history[MEAN] - level;
                *at++ = history[LAST] - level;
                history += N_OWNER;
            } else {
                history += N_CATEGORY;
            }
        }
    }
}

/* Raw scores of encoded features at each step. */
static void fill_scores(const Model *model, const double *features, double *scores)
{
    if (model->forest.shape[SJ_N_AGED] > 0) {
        sj_interval_scores(&model->forest, features, scores, model->scratch);
    } else {
        sj_step_scores(&model->forest, features, scores, model->scratch);
    }
}

/* The curve's numbers, before the features that stand there already. */
static void fill_numbers(const Model *model, Numbers *curve)
{
    const double *features = curve->number + model->n_before;
    Py_ssize_t idx;
    if (model->kind != HAZARD && model->kind != LIMITED) {
        fill_scores(model, features, curve->number);
        return;
    }
    fill_scores(model, features, model->scores);
    for (idx = 0; idx < model->n_steps; idx++) { /* formulas.interval_hazard */
        const double logit = model->scores[idx] + model->offsets[idx];
        model->scores[idx] = logit > 0.0 ? logit + log1p(exp(-logit)) : log1p(exp(logit));
    }
    if (model->n_rows) { /* formulas.mixed_hazard */
        const double value = features[model->lookup_place];
        const double *known = model->known;
        known += value >= 0.0 && value < (double)model->n_rows ? (Py_ssize_t)value * model->n_steps : 0;
        for (idx = 0; idx < model->n_steps; idx++) {
            model->scores[idx] = model->weights[idx] * model->scores[idx] + (1.0 - model->weights[idx]) * known[idx];
        }
    }
    if (model->kind == HAZARD) {
        fill_hazard(model->scores, model->edges, model->n_steps, model->tail_s, curve->number);
    } else {
        double *own_edges = curve->number + OWN_EDGES * (model->n_steps + 1);
        fill_limit_axis(model->scores, model->edges, model->n_ages, model->shares, model->n_shares,
                        features[model->limit_place], model->tail_s, own_edges, model->own_hazards);
        fill_hazard(model->own_hazards, own_edges, model->n_steps, model->tail_s, curve->number);
    }
}

/* An empty curve of this model: room for its numbers and the features. */
static Numbers *curve_room(const Model *model)
{
    Numbers *curve = numbers_made(model->curve_type, (PyObject *)model->axis, model->n_before + model->n_features);
    if (curve != NULL) {
        curve->has_own_edges = model->kind == LIMITED;
    }
    return curve;
}

/* A number as the text of a history key, as Python writes it; the latest are kept. A new reference. */
static PyObject *number_text(Model *model, double number)
{
    uint64_t bits;
    Text *text;
    char *written;
    memcpy(&bits, &number, sizeof bits);
    text = model->texts + (bits * 0x9E3779B97F4A7C15u >> 54);
    if (text->text == NULL || memcmp(&text->number, &number, sizeof number) != 0) {
        PyObject *fresh;
        written = PyOS_double_to_string(number, 'r', 0, Py_DTSF_ADD_DOT_0, NULL);
        fresh = written == NULL ? NULL : PyUnicode_FromString(isnan(number) ? "-" : written);
        PyMem_Free(written);
        if (fresh == NULL) {
            return NULL;
        }
        Py_XDECREF(text->text);
        text->text = fresh;
        text->number = number;
    }
    Py_INCREF(text->text);
    return text->text;
}

/* A request's numbers and names; NaN or NULL if it lacks one: 1; 0 if Python must read it. Names are borrowed. */
static int read_values(const Model *model, PyObject *request, double *numbers, PyObject **names)
{
    Py_ssize_t idx, n_given = 0;
    if (!PyDict_CheckExact(request)) {
        return 0;
    }
    for (idx = 0; idx < model->n_numbers + model->n_names; idx++) {
        PyObject *value = PyDict_GetItemWithError(request, PyTuple_GetItem(model->columns, idx));
        n_given += value != NULL;
        value = value == Py_None ? NULL : value;
        if (idx >= model->n_numbers) {
            names[idx - model->n_numbers] = value;
            if (value != NULL && !PyUnicode_CheckExact(value)) {
                return 0;
            }
            continue;
        }
        if (value == NULL) {
            numbers[idx] = Py_NAN;
            continue;
        } else if (PyLong_CheckExact(value)) {
            numbers[idx] = PyLong_AsDouble(value);
        } else if (PyFloat_CheckExact(value) || (PyObject *)Py_TYPE(value) == model->numpy_float) {
            numbers[idx] = PyFloat_AsDouble(value);
        } else {
            return 0;
        }
        numbers[idx] += 0.0; /* no negative zero, whose text differs */
        if (!(fabs(numbers[idx]) <= 1.7976931348623157e308) || (numbers[idx] < 0.0 && model->is_size[idx])) {
            PyErr_Clear(); /* an int too large for a double */
            return 0;
        }
    }
    return n_given == PyDict_Size(request) && !PyErr_Occurred(); /* else it has a column that the model does not read */
}

/* One history key: a tuple, or None if a name is missing; a new reference. */
static PyObject *read_key(Model *model, PyObject *places, const double *numbers, PyObject **names)
{
    const Py_ssize_t n = PyTuple_Size(places);
    PyObject *key = PyTuple_New(n);
    Py_ssize_t part;
    for (part = 0; key != NULL && part < n; part++) {
        const Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GetItem(places, part));
        PyObject *text;
        if (place >= model->n_names) {
            text = number_text(model, numbers[place - model->n_names]);
        } else if (names[place] == NULL) {
            Py_DECREF(key);
            Py_RETURN_NONE;
        } else {
            text = names[place];
            Py_INCREF(text);
        }
        if (text == NULL || PyTuple_SetItem(key, part, text) < 0) {
            Py_CLEAR(key);
        }
    }
    return key;
}

/* The history keys as a tuple; a new reference. */
static PyObject *read_keys(Model *model, const double *numbers, PyObject **names)
{
    PyObject *keys = PyTuple_New(model->n_keys);
    Py_ssize_t idx;
    for (idx = 0; keys != NULL && idx < model->n_keys; idx++) {
        PyObject *key = read_key(model, PyTuple_GetItem(model->parts, idx), numbers, names);
        if (key == NULL || PyTuple_SetItem(keys, idx, key) < 0) {
            Py_CLEAR(keys);
        }
    }
    return keys;
}

/* The slot of each key in the history's rows: 0, or -1 with an exception set. */
static int find_slots(const Model *model, PyObject *tables, PyObject *keys, Py_ssize_t *slots)
{
    Py_ssize_t idx;
    for (idx = 0; idx < model->n_keys; idx++) {
        PyObject *key = PyTuple_GetItem(keys, idx), *found;
        slots[idx] = UNKNOWN;
        if (key == NULL) {
            return -1;
        }
        if (key == Py_None) {
            continue;
        }
        found = PyDict_GetItemWithError(PyTuple_GetItem(tables, idx), key);
        if (found == NULL) {
            if (PyErr_Occurred()) {
                return -1;
            }
        } else if (model->is_owner[idx]) {
            PyObject *slot = PyObject_GetAttr(found, model->slot);
            slots[idx] = slot == NULL ? -1 : PyLong_AsSsize_t(slot);
            Py_XDECREF(slot);
        } else {
            slots[idx] = PyLong_AsSsize_t(found);
        }
        if (slots[idx] < 0) {
            return -1;
        }
    }
    return 0;
}

/* Appends a name to a list if it is not None: 0, or -1 with an exception set. */
static int report(PyObject *list, PyObject *name)
{
    return name == Py_None ? 0 : PyList_Append(list, name);
}

/* What a request lacks and the model has not seen, as a tuple; a new reference. numbers: NULL = columns are left out. */
static PyObject *unknown_of(const Model *model, const double *numbers, PyObject **names, PyObject *keys,
                            const Py_ssize_t *slots)
{
    PyObject *list = PyList_New(0), *tuple;
    Py_ssize_t idx;
    int code = list == NULL ? -1 : 0;
    for (idx = 0; numbers != NULL && code == 0 && idx < model->n_numbers + model->n_names; idx++) {
        if (idx < model->n_numbers ? isnan(numbers[idx]) : names[idx - model->n_numbers] == NULL) {
            code = report(list, PyTuple_GetItem(model->reported, idx));
        }
    }
    for (idx = 0; code == 0 && idx < model->n_keys; idx++) {
        if (slots[idx] == UNKNOWN && PyTuple_GetItem(keys, idx) != Py_None) {
            code = report(list, PyTuple_GetItem(model->history_names, idx));
        }
    }
    tuple = code == 0 ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return tuple;
}

/* The curve from values that stand among its features; steals it. NULL with an exception set. */
static Numbers *answered(Model *model, Numbers *curve, PyObject *keys, long long now_s, PyObject *moments,
                         PyObject *tables, PyObject *rows, Py_ssize_t *slots)
{
    double *features = curve->number + model->n_before;
    const int is_first_end = PyFloat_AsDouble(PyList_GetItem(moments, 0)) == 0.0;
    const double overall = is_first_end ? Py_NAN : PyFloat_AsDouble(PyList_GetItem(moments, 1));
    Py_buffer view;
    Py_ssize_t idx;
    if (find_slots(model, tables, keys, slots) < 0 || PyObject_GetBuffer(rows, &view, PyBUF_SIMPLE) < 0) {
        Py_DECREF((PyObject *)curve);
        return NULL;
    }
    for (idx = 0; idx < model->n_keys; idx++) {
        if ((slots[idx] + 1) * N_OWNER * (Py_ssize_t)sizeof(double) > view.len) {
            PyErr_SetString(PyExc_IndexError, "a slot must be within the history's rows");
            break;
        }
    }
    if (idx == model->n_keys) {
        fill_features(model, now_s, overall, (const double *)view.buf, slots, features);
        fill_numbers(model, curve);
    }
    PyBuffer_Release(&view);
    if (idx < model->n_keys) {
        Py_DECREF((PyObject *)curve);
        return NULL;
    }
    return curve;
}

/* Whether these are what a history hands over: 1; else 0 with an exception set. */
static int is_history(const Model *model, PyObject *const *given, long long *now_s)
{
    *now_s = PyLong_AsLongLong(given[0]);
    if (*now_s == -1 && PyErr_Occurred()) {
        return 0;
    }
    if (!PyList_CheckExact(given[1]) || PyList_Size(given[1]) != 2 || !PyTuple_CheckExact(given[2])
        || PyTuple_Size(given[2]) != model->n_keys) {
        PyErr_SetString(PyExc_TypeError, "a history must be its moments, tables and rows");
        return 0;
    }
    return 1;
}

/* first(request, now_s, moments, tables, rows): the curve, the history keys and what is unknown; None if Python must
 * read the request. */
static PyObject *model_first(Model *model, PyObject *const *given, Py_ssize_t n_given)
{
    double numbers[N_MOST];
    PyObject *names[N_MOST], *keys, *unknown, *result;
    Py_ssize_t slots[N_MOST];
    long long now_s;
    Numbers *curve;
    if (n_given != 5) {
        PyErr_SetString(PyExc_TypeError, "first takes 5 arguments");
        return NULL;
    }
    if (!is_history(model, given + 1, &now_s)) {
        return NULL;
    }
    if (!read_values(model, given[0], numbers, names)) {
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    keys = read_keys(model, numbers, names);
    if (keys == NULL) {
        return NULL;
    }
    curve = curve_room(model);
    if (curve != NULL) {
        memcpy(curve->number + model->n_before, numbers, sizeof(double) * (size_t)model->n_numbers);
        if (model->row_of != Py_None) {
            PyObject *row = PyObject_CallFunctionObjArgs(model->row_of, keys, NULL);
            curve->number[model->n_before + model->n_numbers] = row == NULL ? 0.0 : PyFloat_AsDouble(row);
            if (row == NULL) {
                Py_DECREF((PyObject *)curve);
                curve = NULL;
            }
            Py_XDECREF(row);
        }
    }
    if (curve != NULL) {
        curve = answered(model, curve, keys, now_s, given[2], given[3], given[4], slots);
    }
    unknown = curve == NULL ? NULL : unknown_of(model, numbers, names, keys, slots);
    result = unknown == NULL ? NULL : PyTuple_Pack(3, (PyObject *)curve, keys, unknown);
    Py_XDECREF((PyObject *)curve);
    Py_XDECREF(unknown);
    Py_DECREF(keys);
    return result;
}

/* answer(numbers, keys, now_s, moments, tables, rows): the curve of a request that Python has read, and the names of
 * histories that it does not know. */
static PyObject *model_answer(Model *model, PyObject *const *given, Py_ssize_t n_given)
{
    PyObject *unknown, *result;
    Py_ssize_t slots[N_MOST], idx;
    long long now_s;
    Numbers *curve;
    if (n_given != 6 || !PyTuple_Check(given[0]) || PyTuple_Size(given[0]) != model->n_values
        || !PyTuple_Check(given[1]) || PyTuple_Size(given[1]) != model->n_keys) {
        PyErr_SetString(PyExc_TypeError, "answer takes a parsed request of this model and a history");
        return NULL;
    }
    if (!is_history(model, given + 2, &now_s)) {
        return NULL;
    }
    curve = curve_room(model);
    for (idx = 0; curve != NULL && idx < model->n_values; idx++) {
        curve->number[model->n_before + idx] = PyFloat_AsDouble(PyTuple_GetItem(given[0], idx));
    }
    if (curve == NULL || PyErr_Occurred()) {
        Py_XDECREF((PyObject *)curve);
        return NULL;
    }
    curve = answered(model, curve, given[1], now_s, given[3], given[4], given[5], slots);
    unknown = curve == NULL ? NULL : unknown_of(model, NULL, NULL, given[1], slots);
    result = unknown == NULL ? NULL : PyTuple_Pack(2, (PyObject *)curve, unknown);
    Py_XDECREF((PyObject *)curve);
    Py_XDECREF(unknown);
    return result;
}

/* A view of a request's encoded features, a buffer of doubles; false with an error set if it is anything else. */
static int has_features(const Model *model, PyObject *features, Py_buffer *view)
{
    if (PyObject_GetBuffer(features, view, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) < 0) {
        return 0;
    }
    if (is_row(view, "features")) {
        if (view->len == (Py_ssize_t)sizeof(double) * model->n_features) {
            return 1;
        }
        PyErr_Format(PyExc_ValueError, "features must be %zd, got %zd bytes", model->n_features, view->len);
    }
    PyBuffer_Release(view);
    return 0;
}

/* of_features(features): the curve of a request's encoded features, a buffer of doubles. */
static PyObject *model_of_features(Model *model, PyObject *features)
{
    Py_buffer view;
    Numbers *curve;
    if (!has_features(model, features, &view)) {
        return NULL;
    }
    curve = curve_room(model);
    if (curve != NULL) {
        memcpy(curve->number + model->n_before, view.buf, (size_t)view.len);
        fill_numbers(model, curve);
    }
    PyBuffer_Release(&view);
    return (PyObject *)curve;
}

/* scores(features): the raw scores at each step, `Numbers`. */
static PyObject *model_scores(Model *model, PyObject *features)
{
    Py_buffer view;
    Numbers *scores;
    if (!has_features(model, features, &view)) {
        return NULL;
    }
    scores = numbers_made(numbers_type, (PyObject *)model->axis, model->n_steps);
    if (scores != NULL) {
        fill_scores(model, (const double *)view.buf, scores->number);
    }
    PyBuffer_Release(&view);
    return (PyObject *)scores;
}

/* The values of a field of the forest, from the tables in order: NULL with an exception set. */
static const void *table_of(Model *model, Py_ssize_t idx, size_t size)
{
    Py_buffer *view = model->buffers + model->n_buffers;
    PyObject *table = PyTuple_GetItem(model->tables, idx);
    if (table == NULL || PyObject_GetBuffer(table, view, PyBUF_C_CONTIGUOUS) < 0) {
        return NULL;
    }
    model->n_buffers++;
    if ((size_t)view->itemsize != size) {
        PyErr_Format(PyExc_ValueError, "table %zd must be of items of %zd bytes, got %zd", idx, (Py_ssize_t)size,
                     view->itemsize);
        return NULL;
    }
    return view->buf;
}

static int fill_tables(Model *model)
{
    Py_ssize_t idx = 0;
#define TABLE(type, name)                                                                                              \
    if ((model->forest.name = (const type *)table_of(model, idx++, sizeof(type))) == NULL) {                           \
        return -1;                                                                                                     \
    }
    SJ_FOREST_FIELDS(TABLE)
#undef TABLE
    if ((model->offsets = (const double *)table_of(model, idx++, sizeof(double))) == NULL
        || (model->edges = (const double *)table_of(model, idx++, sizeof(double))) == NULL
        || (model->shares = (const double *)table_of(model, idx++, sizeof(double))) == NULL
        || (model->weights = (const double *)table_of(model, idx++, sizeof(double))) == NULL
        || (model->known = (const double *)table_of(model, idx++, sizeof(double))) == NULL) {
        return -1;
    }
    return 0;
}

/* Whether the tables have the sizes that the model names; else an exception is set. */
static int do_sizes_fit(const Model *model)
{
    const Py_buffer *after = model->buffers + model->n_buffers - N_AFTER; /* offsets, edges, shares, weights, known hazards */
    const int is_hazard = model->kind == HAZARD || model->kind == LIMITED, is_limited = model->kind == LIMITED;
    const Py_ssize_t n = model->n_steps, word = (Py_ssize_t)sizeof(double);
    const int32_t *shape = model->forest.shape;
    const Py_ssize_t n_first = is_hazard ? n + 1 + is_limited : model->kind == POINT ? n - 1 : model->axis->n_first;
    if (model->buffers[0].len == (Py_ssize_t)sizeof(int32_t) * (SJ_LAST_ROW + 1) && shape[SJ_N_STEPS] == n
        && shape[SJ_N_FEATURES] == model->n_features && model->axis->n_first == n_first
        && model->n_before == (is_hazard ? (GAPS + 1 + is_limited) * (n + 1) : n)
        && PyTuple_Size(model->columns) == model->n_numbers + model->n_names && model->n_numbers <= N_MOST
        && model->n_names >= 0 && model->n_names <= N_MOST && model->n_keys <= N_MOST
        && PyTuple_Size(model->reported) == PyTuple_Size(model->columns) && model->n_values <= model->n_features
        && PyTuple_Size(model->history_names) == model->n_keys && PyTuple_Size(model->parts) == model->n_keys
        && PyBytes_Size(model->flags) == model->n_numbers + model->n_keys && model->limit_place < model->n_numbers
        && model->lookup_place < model->n_features && (!is_limited || model->limit_place >= 0)
        && (!is_hazard || (after[0].len == n * word && after[1].len == (model->n_ages + 1) * word
                           && model->n_ages + (is_limited ? model->n_shares : 0) == n
                           && (!is_limited || after[2].len == (model->n_shares + 1) * word)
                           && (!model->n_rows || (model->lookup_place >= 0 && after[3].len == n * word
                                                  && after[4].len == model->n_rows * n * word))))) {
        return 1;
    }
    PyErr_SetString(PyExc_ValueError, "the tables must have the sizes that the model names");
    return 0;
}

static void model_dealloc(Model *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    int idx;
    for (idx = 0; idx < self->n_buffers; idx++) {
        PyBuffer_Release(self->buffers + idx);
    }
    for (idx = 0; self->texts != NULL && idx < N_TEXTS; idx++) {
        Py_XDECREF(self->texts[idx].text);
    }
    PyMem_Free(self->texts);
    PyMem_Free(self->scores);
    PyMem_Free(self->scratch);
    Py_XDECREF(self->columns);
    Py_XDECREF(self->parts);
    Py_XDECREF(self->history_names);
    Py_XDECREF(self->reported);
    Py_XDECREF(self->flags);
    Py_XDECREF(self->row_of);
    Py_XDECREF(self->numpy_float);
    Py_XDECREF(self->slot);
    Py_XDECREF(self->tables);
    Py_XDECREF((PyObject *)self->axis);
    Py_XDECREF((PyObject *)self->curve_type);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Model(columns, parts, history_names, reported, flags, row_of, numpy_float, tables, axis, curve_type, whole, real):
 * whole: kind, numbers, values, keys, features, numbers of a curve, steps, intervals of the age, shares, rows of the
 * lookup, places of limit and lookup row (-1 = none), phase in s. real: batch gap in s, window, prior strength, tail
 * in s. tables: of the forest, then offsets, edges, shares, weights and known hazards, float64. */
static PyObject *model_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Model given, *model;
    (void)kwargs;
    memset(&given, 0, sizeof given);
    if (!PyArg_ParseTuple(args, "O!O!O!O!SOOO!O!O!(innnnnnnnnnnL)(dddd)", &PyTuple_Type, &given.columns, &PyTuple_Type,
                          &given.parts, &PyTuple_Type, &given.history_names, &PyTuple_Type, &given.reported,
                          &given.flags, &given.row_of, &given.numpy_float, &PyTuple_Type, &given.tables, axis_type,
                          &given.axis, &PyType_Type, &given.curve_type, &given.kind, &given.n_numbers, &given.n_values,
                          &given.n_keys, &given.n_features, &given.n_before, &given.n_steps, &given.n_ages,
                          &given.n_shares, &given.n_rows, &given.limit_place, &given.lookup_place, &given.phase_s,
                          &given.batch_gap_s, &given.window, &given.prior_strength, &given.tail_s)) {
        return NULL;
    }
    if (!PyType_IsSubtype(given.curve_type, given.kind == HAZARD || given.kind == LIMITED ? hazard_type
                                                : given.kind == POINT                     ? steps_type
                                                                                          : numbers_type)) {
        PyErr_SetString(PyExc_TypeError, "the curve's class must be one of the model's kind");
        return NULL;
    }
    model = (Model *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (model == NULL) {
        return NULL;
    }
    memcpy((char *)model + offsetof(Model, columns), (char *)&given + offsetof(Model, columns),
           sizeof given - offsetof(Model, columns));
    Py_INCREF(model->columns);
    Py_INCREF(model->parts);
    Py_INCREF(model->history_names);
    Py_INCREF(model->reported);
    Py_INCREF(model->flags);
    Py_INCREF(model->row_of);
    Py_INCREF(model->numpy_float);
    Py_INCREF(model->tables);
    Py_INCREF((PyObject *)model->axis);
    Py_INCREF((PyObject *)model->curve_type);
    model->n_names = PyTuple_Size(model->columns) - model->n_numbers;
    model->is_size = PyBytes_AsString(model->flags);
    model->is_owner = model->is_size + model->n_numbers;
    model->slot = PyUnicode_InternFromString("slot");
    if (model->slot == NULL || fill_tables(model) < 0 || !do_sizes_fit(model)) {
        Py_DECREF((PyObject *)model);
        return NULL;
    }
    model->texts = PyMem_Calloc(N_TEXTS, sizeof(Text));
    model->scores = PyMem_Calloc((size_t)model->n_steps * 2 + 2, sizeof(double));
    model->scratch = PyMem_Malloc(sj_scratch_bytes(&model->forest) + 1);
    if (model->texts == NULL || model->scores == NULL || model->scratch == NULL) {
        Py_DECREF((PyObject *)model);
        return PyErr_NoMemory();
    }
    model->own_hazards = model->scores + model->n_steps + 1;
    return (PyObject *)model;
}

static PyMethodDef model_methods[] = {
    {"first", (PyCFunction)(void (*)(void))model_first, METH_FASTCALL, NULL},
    {"answer", (PyCFunction)(void (*)(void))model_answer, METH_FASTCALL, NULL},
    {"of_features", (PyCFunction)model_of_features, METH_O, NULL},
    {"scores", (PyCFunction)model_scores, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot model_slots[] = {
    {Py_tp_new, model_new},
    {Py_tp_dealloc, model_dealloc},
    {Py_tp_methods, model_methods},
    {0, NULL},
};
static PyType_Spec model_spec = {"sojourn.serving.native.compiled.Model", sizeof(Model), 0, Py_TPFLAGS_DEFAULT,
                                 model_slots};
