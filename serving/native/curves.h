/* Lifetime curves as Python objects: their numbers in one piece of memory, and lookups in 50 ns.
 *
 * `Axis` holds what all curves of a model share, as tuples and as doubles. `Numbers` holds the doubles of one request
 * and gives them as a buffer; `Hazard` and `Steps` are numbers with answers. Slow twins, to the bit:
 * serving/curves/plain.py. Formulas: serving/curves/formulas.py. Compiled without contraction of a * b + c.
 */
#include "formulas.h"

static PyObject *checked_seconds, *checked_share; /* serving/curves/plain.py: they refuse, and convert the unusual */
static PyTypeObject *axis_type, *numbers_type, *hazard_type, *steps_type;

/* The doubles of a tuple of floats, in new memory; NULL with an exception set. */
static double *doubles_of(PyObject *tuple, Py_ssize_t *n)
{
    double *values;
    Py_ssize_t idx;
    if (!PyTuple_Check(tuple)) {
        PyErr_SetString(PyExc_TypeError, "an axis must be of tuples");
        return NULL;
    }
    *n = PyTuple_Size(tuple);
    values = PyMem_Malloc(sizeof(double) * (size_t)(*n ? *n : 1));
    if (values == NULL) {
        return (double *)PyErr_NoMemory();
    }
    for (idx = 0; idx < *n; idx++) {
        values[idx] = PyFloat_AsDouble(PyTuple_GetItem(tuple, idx));
        if (values[idx] == -1.0 && PyErr_Occurred()) {
            PyMem_Free(values);
            return NULL;
        }
    }
    return values;
}

typedef struct {
    PyObject_HEAD
    PyObject *first, *second; /* tuples */
    double *firsts, *seconds, smearing;
    Py_ssize_t n_first, n_second;
} Axis;

static PyObject *axis_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *first, *second;
    double smearing = 1.0;
    Axis *self;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "OO|d", &first, &second, &smearing)) {
        return NULL;
    }
    self = (Axis *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL) {
        return NULL;
    }
    Py_INCREF(first);
    Py_INCREF(second);
    self->first = first;
    self->second = second;
    self->smearing = smearing;
    self->firsts = doubles_of(first, &self->n_first);
    self->seconds = self->firsts == NULL ? NULL : doubles_of(second, &self->n_second);
    if (self->seconds == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void axis_dealloc(Axis *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    PyMem_Free(self->firsts);
    PyMem_Free(self->seconds);
    Py_XDECREF(self->first);
    Py_XDECREF(self->second);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *axis_reduce(Axis *self, PyObject *unused)
{
    (void)unused;
    return Py_BuildValue("O(OOd)", Py_TYPE((PyObject *)self), self->first, self->second, self->smearing);
}

static PyMemberDef axis_members[] = {
    {"first", T_OBJECT_EX, offsetof(Axis, first), READONLY, NULL},
    {"second", T_OBJECT_EX, offsetof(Axis, second), READONLY, NULL},
    {"smearing", T_DOUBLE, offsetof(Axis, smearing), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyMethodDef axis_methods[] = {
    {"__reduce__", (PyCFunction)axis_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot axis_slots[] = {
    {Py_tp_new, axis_new},
    {Py_tp_dealloc, axis_dealloc},
    {Py_tp_members, axis_members},
    {Py_tp_methods, axis_methods},
    {0, NULL},
};
static PyType_Spec axis_spec = {"sojourn.serving.native.compiled.Axis", sizeof(Axis), 0, Py_TPFLAGS_DEFAULT, axis_slots};

typedef struct {
    PyObject_VAR_HEAD
    PyObject *weak; /* list of weak references */
    Axis *axis;
    int has_own_edges; /* of this request, after the other numbers */
    double number[1];
} Numbers;

static Numbers *numbers_made(PyTypeObject *type, PyObject *axis, Py_ssize_t n)
{
    Numbers *self = (Numbers *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, n);
    if (self != NULL) {
        Py_INCREF(axis);
        self->axis = (Axis *)axis;
    }
    return self;
}

/* Whether a buffer is one row of doubles; else an exception is set. */
static int is_row(const Py_buffer *view, const char *name)
{
    if (view->itemsize == (Py_ssize_t)sizeof(double) && view->format != NULL && strcmp(view->format, "d") == 0) {
        return 1;
    }
    PyErr_Format(PyExc_ValueError, "%s must be a row of doubles, got another buffer", name);
    return 0;
}

/* Type(axis, numbers, has_own_edges=False): a copy of the numbers. */
static PyObject *numbers_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *axis, *values;
    int has_own_edges = 0;
    Py_ssize_t n, least;
    Py_buffer view;
    Numbers *self = NULL;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O!O|p", axis_type, &axis, &values, &has_own_edges)
        || PyObject_GetBuffer(values, &view, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) < 0) {
        return NULL;
    }
    n = view.len / (Py_ssize_t)sizeof(double);
    least = ((Axis *)axis)->n_first;
    if (PyType_IsSubtype(type, hazard_type)) {
        least = (least - has_own_edges) * (GAPS + 1 + has_own_edges);
    } else {
        least = PyType_IsSubtype(type, steps_type) ? least + 1 : 0;
    }
    if (n < least || (PyType_IsSubtype(type, hazard_type) && least < 2 * (GAPS + 1))) {
        PyErr_Format(PyExc_ValueError, "numbers must be at least %zd, got %zd", least, n);
    } else if (is_row(&view, "numbers")) {
        self = numbers_made(type, axis, n);
    }
    if (self != NULL) {
        memcpy(self->number, view.buf, (size_t)view.len);
        self->has_own_edges = has_own_edges;
    }
    PyBuffer_Release(&view);
    return (PyObject *)self;
}

static void numbers_dealloc(Numbers *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    if (self->weak != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    Py_XDECREF((PyObject *)self->axis);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static int numbers_buffer(Numbers *self, Py_buffer *view, int flags)
{
    static Py_ssize_t stride = sizeof(double);
    if (PyBuffer_FillInfo(view, (PyObject *)self, self->number, Py_SIZE((PyObject *)self) * stride, 0, flags) < 0) {
        return -1;
    }
    view->itemsize = stride;
    view->format = flags & PyBUF_FORMAT ? "d" : NULL;
    view->shape = flags & PyBUF_ND ? &((PyVarObject *)self)->ob_size : NULL;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? &stride : NULL;
    return 0;
}

static PyType_Slot numbers_slots[] = {
    {Py_tp_new, numbers_new},
    {Py_tp_dealloc, numbers_dealloc},
    {Py_bf_getbuffer, numbers_buffer},
    {0, NULL},
};
static PyType_Spec numbers_spec = {"sojourn.serving.native.compiled.Numbers", sizeof(Numbers) - sizeof(double),
                                   sizeof(double), Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, numbers_slots};

/* The arguments of a method with n of these names, by position or by name: 1, or 0 with a TypeError set. */
static int are_arguments(const char *const *names, Py_ssize_t n, PyObject *const *given, Py_ssize_t n_given,
                         PyObject *by_name, PyObject **found)
{
    const Py_ssize_t n_named = by_name == NULL ? 0 : PyTuple_Size(by_name);
    Py_ssize_t idx, place;
    if (n_given + n_named != n) {
        PyErr_Format(PyExc_TypeError, "a lookup takes %zd arguments, got %zd", n, n_given + n_named);
        return 0;
    }
    for (idx = 0; idx < n; idx++) {
        found[idx] = idx < n_given ? given[idx] : NULL;
    }
    for (idx = 0; idx < n_named; idx++) {
        for (place = n_given; place < n; place++) {
            if (PyUnicode_CompareWithASCIIString(PyTuple_GetItem(by_name, idx), names[place]) == 0) {
                found[place] = given[n_given + idx];
            }
        }
    }
    for (idx = 0; idx < n; idx++) {
        if (found[idx] == NULL) {
            PyErr_Format(PyExc_TypeError, "a lookup needs %s, got other names", names[idx]);
            return 0;
        }
    }
    return 1;
}

/* A finite number of seconds >= 0: 1; else 0 with an exception set. */
static int is_seconds(PyObject *value, const char *name, double *seconds)
{
    PyObject *checked;
    if (PyFloat_CheckExact(value) || PyLong_CheckExact(value)) {
        *seconds = PyFloat_CheckExact(value) ? PyFloat_AsDouble(value) : PyLong_AsDouble(value);
        if (*seconds >= 0.0 && *seconds <= 1.7976931348623157e308) {
            return 1;
        }
        PyErr_Clear(); /* an int too large for a double: refused below */
    }
    checked = PyObject_CallFunction(checked_seconds, "Os", value, name);
    *seconds = checked == NULL ? 0.0 : PyFloat_AsDouble(checked);
    Py_XDECREF(checked);
    return checked != NULL;
}

static int is_share(PyObject *value, double *share)
{
    PyObject *checked;
    if (PyFloat_CheckExact(value)) {
        *share = PyFloat_AsDouble(value);
        if (*share > 0.0 && *share < 1.0) {
            return 1;
        }
    }
    checked = PyObject_CallFunction(checked_share, "O", value);
    *share = checked == NULL ? 0.0 : PyFloat_AsDouble(checked);
    Py_XDECREF(checked);
    return checked != NULL;
}

static const char *const UPTIME[] = {"uptime_s"}, *const SHARE_UPTIME[] = {"q", "uptime_s"};
static const char *const HORIZON_UPTIME[] = {"horizon_s", "uptime_s"};

/* How many edges a hazard curve has. An axis of ages and shares of a limit has two starts, the request's edges one. */
static Py_ssize_t n_edges(const Numbers *self)
{
    return self->axis->n_first - self->has_own_edges;
}

static const double *hazard_edges(const Numbers *self)
{
    return self->has_own_edges ? self->number + OWN_EDGES * n_edges(self) : self->axis->firsts;
}

/* The interval of a time, from 0. */
static Py_ssize_t interval_of(const Numbers *self, double time_s)
{
    const Py_ssize_t idx = count_up_to(hazard_edges(self), n_edges(self), time_s, 0) - 1;
    return idx < 0 ? 0 : idx;
}

static double cumulative_at(const Numbers *self, double time_s)
{
    const Py_ssize_t n = n_edges(self), idx = interval_of(self, time_s);
    return self->number[CUMULATIVE * n + idx] + (time_s - hazard_edges(self)[idx]) * self->number[RATES * n + idx];
}

/* The one argument of `remaining` and `next_change`, by place or by name; false with an error set if it is no uptime. */
static inline int is_uptime(PyObject *const *given, Py_ssize_t n_given, PyObject *by_name, double *uptime_s)
{
    PyObject *argument = n_given ? given[0] : NULL;
    return ((n_given == 1 && by_name == NULL) || are_arguments(UPTIME, 1, given, n_given, by_name, &argument))
        && is_seconds(argument, "uptime_s", uptime_s);
}

static PyObject *hazard_remaining(Numbers *self, PyObject *const *given, Py_ssize_t n_given, PyObject *by_name)
{
    const Py_ssize_t n = n_edges(self);
    Py_ssize_t idx;
    double uptime_s, left_s;
    if (!is_uptime(given, n_given, by_name, &uptime_s)) {
        return NULL;
    }
    idx = interval_of(self, uptime_s);
    left_s = self->number[AFTER * n + idx];
    if (idx + 1 < n) {
        left_s = left_s + expm1((uptime_s - hazard_edges(self)[idx + 1]) * self->number[idx]) * self->number[GAPS * n + idx];
    }
    return PyFloat_FromDouble(left_s + ROUND_AT - ROUND_AT);
}

static PyObject *hazard_next_change(Numbers *self, PyObject *const *given, Py_ssize_t n_given, PyObject *by_name)
{
    double uptime_s;
    Py_ssize_t idx;
    if (!is_uptime(given, n_given, by_name, &uptime_s)) {
        return NULL;
    }
    idx = count_up_to(self->axis->seconds, self->axis->n_second, uptime_s, 0);
    return PyFloat_FromDouble(idx < self->axis->n_second ? self->axis->seconds[idx] : HUGE_VAL);
}

static PyObject *hazard_quantile(Numbers *self, PyObject *const *given, Py_ssize_t n_given, PyObject *by_name)
{
    const Py_ssize_t n = n_edges(self);
    PyObject *found[2];
    double share, start_s, target, time_s;
    Py_ssize_t idx;
    if (!are_arguments(SHARE_UPTIME, 2, given, n_given, by_name, found) || !is_share(found[0], &share)
        || !is_seconds(found[1], "uptime_s", &start_s)) {
        return NULL;
    }
    target = cumulative_at(self, start_s) - log1p(-share);
    idx = count_up_to(self->number + CUMULATIVE * n, n, target, 0) - 1;
    idx = idx < 0 ? n - 1 : idx; /* the cumulative hazard of 0 is 0, so only NaN comes here */
    time_s = hazard_edges(self)[idx] + (target - self->number[CUMULATIVE * n + idx]) / self->number[RATES * n + idx];
    time_s = time_s - start_s;
    time_s = time_s > 0.0 ? time_s : 0.0;
    return PyFloat_FromDouble(rint(time_s < LONGEST_S ? time_s : LONGEST_S));
}

static PyObject *hazard_survival(Numbers *self, PyObject *const *given, Py_ssize_t n_given, PyObject *by_name)
{
    PyObject *found[2];
    double span_s, start_s;
    if (!are_arguments(HORIZON_UPTIME, 2, given, n_given, by_name, found) || !is_seconds(found[0], "horizon_s", &span_s)
        || !is_seconds(found[1], "uptime_s", &start_s)) {
        return NULL;
    }
    return PyFloat_FromDouble(exp(cumulative_at(self, start_s) - cumulative_at(self, start_s + span_s)));
}

/* recalibrated(factors): the curve with hazards multiplied by these factors, float64 (N_AGES, N_BANDS). */
static PyObject *hazard_recalibrated(Numbers *self, PyObject *factors)
{
    const Py_ssize_t n = n_edges(self), n_numbers = (GAPS + 1 + self->has_own_edges) * n;
    Py_buffer view;
    Numbers *curve = NULL;
    if (PyObject_GetBuffer(factors, &view, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) < 0) {
        return NULL;
    }
    if (is_row(&view, "factors") && view.len != (Py_ssize_t)sizeof(double) * N_AGES * N_BANDS) {
        PyErr_Format(PyExc_ValueError, "factors must be %d, got %zd bytes", N_AGES * N_BANDS, view.len);
    } else if (!PyErr_Occurred()) {
        curve = numbers_made(Py_TYPE((PyObject *)self), (PyObject *)self->axis, n_numbers);
    }
    if (curve != NULL) {
        double *hazards = curve->number + GAPS * n; /* overwritten from its end on, behind what is read */
        curve->has_own_edges = self->has_own_edges;
        memcpy(curve->number + n_numbers - n, self->number + n_numbers - n, sizeof(double) * (size_t)n);
        fill_recalibrated(hazard_edges(self), self->number, n - 1, (const double *)view.buf, hazards);
        fill_hazard(hazards, hazard_edges(self), n - 1, self->number[(AFTER + 1) * n - 1], curve->number);
    }
    PyBuffer_Release(&view);
    return (PyObject *)curve;
}

/* The edges as a tuple: those of the axis, or the request's own. */
static PyObject *hazard_edges_tuple(Numbers *self, void *unused)
{
    const double *edges = hazard_edges(self);
    Py_ssize_t idx;
    PyObject *tuple;
    (void)unused;
    if (!self->has_own_edges) {
        Py_INCREF(self->axis->first);
        return self->axis->first;
    }
    tuple = PyTuple_New(n_edges(self));
    for (idx = 0; tuple != NULL && idx < n_edges(self); idx++) {
        PyObject *edge = PyFloat_FromDouble(edges[idx]);
        if (edge == NULL || PyTuple_SetItem(tuple, idx, edge) < 0) {
            Py_CLEAR(tuple);
        }
    }
    return tuple;
}

#define LOOKUP(function) (PyCFunction)(void (*)(void)) function, METH_FASTCALL | METH_KEYWORDS
static PyMethodDef hazard_methods[] = {
    {"remaining", LOOKUP(hazard_remaining), NULL},
    {"next_change", LOOKUP(hazard_next_change), NULL},
    {"quantile", LOOKUP(hazard_quantile), NULL},
    {"survival", LOOKUP(hazard_survival), NULL},
    {"recalibrated", (PyCFunction)hazard_recalibrated, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef hazard_properties[] = {
    {"edges", (getter)hazard_edges_tuple, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyMemberDef curve_members[] = {
    {"axis", T_OBJECT_EX, offsetof(Numbers, axis), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Numbers, weak), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyType_Slot hazard_slots[] = {
    {Py_tp_new, numbers_new},
    {Py_tp_dealloc, numbers_dealloc},
    {Py_bf_getbuffer, numbers_buffer},
    {Py_tp_methods, hazard_methods},
    {Py_tp_members, curve_members},
    {Py_tp_getset, hazard_properties},
    {0, NULL},
};
static PyType_Spec hazard_spec = {"sojourn.serving.native.compiled.Hazard", sizeof(Numbers) - sizeof(double),
                                  sizeof(double), Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, hazard_slots};

/* The raw score at an uptime: a threshold belongs to the step before it. */
static double score_at(const Numbers *self, double uptime_s)
{
    return self->number[count_up_to(self->axis->firsts, self->axis->n_first, uptime_s, 1)];
}

static PyObject *steps_remaining(Numbers *self, PyObject *const *given, Py_ssize_t n_given, PyObject *by_name)
{
    double uptime_s, mean_s;
    if (!is_uptime(given, n_given, by_name, &uptime_s)) {
        return NULL;
    }
    mean_s = score_seconds(score_at(self, uptime_s)) * self->axis->smearing;
    mean_s = mean_s < LONGEST_S ? mean_s : LONGEST_S;
    return PyFloat_FromDouble(mean_s + ROUND_AT - ROUND_AT);
}

static PyObject *steps_next_change(Numbers *self, PyObject *const *given, Py_ssize_t n_given, PyObject *by_name)
{
    double uptime_s;
    Py_ssize_t idx;
    if (!is_uptime(given, n_given, by_name, &uptime_s)) {
        return NULL;
    }
    idx = count_up_to(self->axis->firsts, self->axis->n_first, uptime_s, 1);
    return PyFloat_FromDouble(idx < self->axis->n_first ? floor(self->axis->firsts[idx]) + 1.0 : HUGE_VAL);
}

static PyObject *steps_quantile(Numbers *self, PyObject *const *given, Py_ssize_t n_given, PyObject *by_name)
{
    const double *residuals = self->axis->seconds;
    const Py_ssize_t n = self->axis->n_second - 1;
    PyObject *found[2];
    double share, uptime_s, position;
    Py_ssize_t low;
    if (!are_arguments(SHARE_UPTIME, 2, given, n_given, by_name, found) || !is_share(found[0], &share)
        || !is_seconds(found[1], "uptime_s", &uptime_s)) {
        return NULL;
    }
    position = share * (double)n;
    low = (Py_ssize_t)position < n - 1 ? (Py_ssize_t)position : n - 1;
    position = residuals[low] + (position - (double)low) * (residuals[low + 1] - residuals[low]);
    return PyFloat_FromDouble(rint(score_seconds(score_at(self, uptime_s) + position)));
}

static PyObject *steps_survival(Numbers *self, PyObject *const *given, Py_ssize_t n_given, PyObject *by_name)
{
    PyObject *found[2];
    double span_s, uptime_s;
    if (!are_arguments(HORIZON_UPTIME, 2, given, n_given, by_name, found) || !is_seconds(found[0], "horizon_s", &span_s)
        || !is_seconds(found[1], "uptime_s", &uptime_s)) {
        return NULL;
    }
    return PyFloat_FromDouble(span_s <= 0.0 ? 1.0 : residual_share_above(
        self->axis->seconds, self->axis->n_second - 1, log10(span_s) - score_at(self, uptime_s)));
}

static PyMethodDef steps_methods[] = {
    {"remaining", LOOKUP(steps_remaining), NULL},
    {"next_change", LOOKUP(steps_next_change), NULL},
    {"quantile", LOOKUP(steps_quantile), NULL},
    {"survival", LOOKUP(steps_survival), NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot steps_slots[] = {
    {Py_tp_new, numbers_new},
    {Py_tp_dealloc, numbers_dealloc},
    {Py_bf_getbuffer, numbers_buffer},
    {Py_tp_methods, steps_methods},
    {Py_tp_members, curve_members},
    {0, NULL},
};
static PyType_Spec steps_spec = {"sojourn.serving.native.compiled.Steps", sizeof(Numbers) - sizeof(double),
                                 sizeof(double), Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, steps_slots};
