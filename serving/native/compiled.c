/* The extension `sojourn.serving.native.compiled`: first answers and lookups without Python's objects between. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <structmember.h>

#include "curves.h"
#include "model.h"

static PyObject *use(PyObject *module, PyObject *args)
{
    PyObject *seconds, *share;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO", &seconds, &share)) {
        return NULL;
    }
    Py_INCREF(seconds);
    Py_INCREF(share);
    Py_XDECREF(checked_seconds);
    Py_XDECREF(checked_share);
    checked_seconds = seconds;
    checked_share = share;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"use", use, METH_VARARGS, "use(checked_seconds, checked_share): functions that check unusual arguments."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef module_of = {PyModuleDef_HEAD_INIT, "compiled", NULL, -1, functions, NULL, NULL, NULL, NULL};

static PyTypeObject *added(PyObject *module, const char *name, PyType_Spec *spec)
{
    PyObject *type = PyType_FromSpec(spec);
    if (type != NULL && PyModule_AddObjectRef(module, name, type) < 0) {
        Py_CLEAR(type);
    }
    return (PyTypeObject *)type;
}

#define NAME(type, name) #name " "

PyMODINIT_FUNC PyInit_compiled(void)
{
    PyObject *module = PyModule_Create(&module_of);
    if (module == NULL || PyModule_AddIntConstant(module, "INTERFACE", 1) < 0
        || PyModule_AddStringConstant(module, "TABLES", "" SJ_FOREST_FIELDS(NAME)) < 0
        || (axis_type = added(module, "Axis", &axis_spec)) == NULL
        || (numbers_type = added(module, "Numbers", &numbers_spec)) == NULL
        || (hazard_type = added(module, "Hazard", &hazard_spec)) == NULL
        || (steps_type = added(module, "Steps", &steps_spec)) == NULL
        || (added(module, "Model", &model_spec)) == NULL) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
