/* The way from an event to the kernels of its class, without Python in between.
 *
 * Whenever anything is not as usual, the matcher itself is asked: a topic, a class that is new,
 * filters that wait, values to learn from.
 */
#include "kernel.h"
#include <string.h>

#define PLACES 16

typedef struct {
    PyTypeObject *type; /* not owned: no two classes ever have the same version */
    unsigned int version;
    PyObject *kernels; /* a tuple */
} Place;

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *fallback;
    PyObject *current; /* gives the token of abc.ABCMeta.register; None if nobody can be registered */
    PyObject *token;
    Place places[PLACES];
} Dispatch;

static Place *place_for(Dispatch *dispatch, PyTypeObject *type) {
    return dispatch->places + ((uintptr_t)type >> 6) % PLACES;
}

static int is_outdated(Dispatch *dispatch) {
    if (dispatch->current == Py_None) return 0;
    PyObject *token = PyObject_CallNoArgs(dispatch->current);
    int same = token == NULL ? -1 : PyObject_RichCompareBool(token, dispatch->token, Py_EQ);
    Py_XDECREF(token);
    if (same < 0) PyErr_Clear();
    return same != 1;
}

/* The kernels for a class, if they may be asked at once: a new reference, or NULL. */
static PyObject *kernels_for(Dispatch *dispatch, PyTypeObject *type) {
    Place *place = place_for(dispatch, type);
    unsigned int version = version_of(type);
    if (place->type != type || place->version != version || version == 0) return NULL;
    if (is_outdated(dispatch) || place->kernels == NULL) return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(place->kernels); i++) {
        Kernel *kernel = (Kernel *)PyTuple_GET_ITEM(place->kernels, i);
        if (!kernel->direct || kernel->attention || kernel->pending.count) return NULL;
    }
    return Py_NewRef(place->kernels);
}

static PyObject *match_all(PyObject *kernels, PyObject *event) {
    if (PyTuple_GET_SIZE(kernels) == 0) return PyList_New(0);
    PyObject *found = kernel_match((Kernel *)PyTuple_GET_ITEM(kernels, 0), event);
    for (Py_ssize_t i = 1; found != NULL && i < PyTuple_GET_SIZE(kernels); i++) {
        PyObject *more = kernel_match((Kernel *)PyTuple_GET_ITEM(kernels, i), event);
        if (more == NULL || PyList_SetSlice(found, PY_SSIZE_T_MAX, PY_SSIZE_T_MAX, more))
            Py_CLEAR(found);
        Py_XDECREF(more);
    }
    return found;
}

/* Just an event, or `topic=None` with it. */
static int is_usual(PyObject *const *arguments, size_t flags, PyObject *names) {
    if (PyVectorcall_NARGS(flags) != 1) return 0;
    if (names == NULL || PyTuple_GET_SIZE(names) == 0) return 1;
    return PyTuple_GET_SIZE(names) == 1 && arguments[1] == Py_None &&
           PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "topic") == 0;
}

static PyObject *dispatch_call(PyObject *self, PyObject *const *arguments, size_t flags,
                               PyObject *names) {
    Dispatch *dispatch = (Dispatch *)self;
    if (is_usual(arguments, flags, names)) {
        PyObject *kernels = kernels_for(dispatch, Py_TYPE(arguments[0]));
        if (kernels != NULL) {
            PyObject *found = match_all(kernels, arguments[0]);
            Py_DECREF(kernels);
            return found;
        }
    }
    return PyObject_Vectorcall(dispatch->fallback, arguments, flags, names);
}

/* many(events): a list of keys for each; None if the matcher has to do it. */
static PyObject *many(Dispatch *dispatch, PyObject *events) {
    if (!PyList_CheckExact(events) || PyList_GET_SIZE(events) == 0) Py_RETURN_NONE;
    PyTypeObject *type = Py_TYPE(PyList_GET_ITEM(events, 0));
    for (Py_ssize_t i = 1; i < PyList_GET_SIZE(events); i++)
        if (Py_TYPE(PyList_GET_ITEM(events, i)) != type) Py_RETURN_NONE;
    PyObject *kernels = kernels_for(dispatch, type), *found = NULL;
    if (kernels == NULL) Py_RETURN_NONE;
    if (PyTuple_GET_SIZE(kernels) == 1)
        found = kernel_match_many((Kernel *)PyTuple_GET_ITEM(kernels, 0), events);
    else
        found = Py_NewRef(Py_None);
    Py_DECREF(kernels);
    return found;
}

static PyObject *clear(Dispatch *dispatch, PyObject *nothing) {
    for (int i = 0; i < PLACES; i++) {
        dispatch->places[i].type = NULL;
        Py_CLEAR(dispatch->places[i].kernels);
    }
    Py_RETURN_NONE;
}

/* Whether it is known where events of a class go, though that may need the matcher. */
static PyObject *has(Dispatch *dispatch, PyObject *type) {
    Place *place = place_for(dispatch, (PyTypeObject *)type);
    return PyBool_FromLong((PyObject *)place->type == type &&
                           place->version == version_of(place->type));
}

/* put(class, kernels): events of it go there from now on. */
static PyObject *put_class(Dispatch *dispatch, PyObject *arguments) {
    PyTypeObject *type;
    PyObject *kernels;
    if (!PyArg_ParseTuple(arguments, "O!O!", &PyType_Type, &type, &PyTuple_Type, &kernels))
        return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kernels); i++)
        if (!Py_IS_TYPE(PyTuple_GET_ITEM(kernels, i), &KernelType)) {
            PyErr_SetString(PyExc_TypeError, "that is no kernel");
            return NULL;
        }
    Place *place = place_for(dispatch, type);
    place->type = type;
    place->version = version_of(type);
    Py_XSETREF(place->kernels, Py_NewRef(kernels));
    Py_RETURN_NONE;
}

/* check(current, token): whether the token is still the same is asked for each event. */
static PyObject *check(Dispatch *dispatch, PyObject *arguments) {
    PyObject *current, *token;
    if (!PyArg_ParseTuple(arguments, "OO", &current, &token)) return NULL;
    Py_SETREF(dispatch->current, Py_NewRef(current));
    Py_SETREF(dispatch->token, Py_NewRef(token));
    Py_RETURN_NONE;
}

static PyObject *dispatch_new(PyTypeObject *type, PyObject *arguments, PyObject *options) {
    PyObject *fallback;
    if (!PyArg_ParseTuple(arguments, "O", &fallback)) return NULL;
    Dispatch *dispatch = (Dispatch *)type->tp_alloc(type, 0);
    if (dispatch == NULL) return NULL;
    dispatch->call = dispatch_call;
    dispatch->fallback = Py_NewRef(fallback);
    dispatch->current = Py_NewRef(Py_None);
    dispatch->token = Py_NewRef(Py_None);
    return (PyObject *)dispatch;
}

static int dispatch_traverse(Dispatch *dispatch, visitproc visit, void *arg) {
    Py_VISIT(dispatch->fallback);
    Py_VISIT(dispatch->current);
    Py_VISIT(dispatch->token);
    for (int i = 0; i < PLACES; i++) Py_VISIT(dispatch->places[i].kernels);
    return 0;
}

static int dispatch_clear(Dispatch *dispatch) {
    for (int i = 0; i < PLACES; i++) Py_CLEAR(dispatch->places[i].kernels);
    Py_XSETREF(dispatch->fallback, Py_NewRef(Py_None));
    return 0;
}

static void dispatch_dealloc(Dispatch *dispatch) {
    PyObject_GC_UnTrack(dispatch);
    dispatch_clear(dispatch);
    Py_CLEAR(dispatch->fallback);
    Py_CLEAR(dispatch->current);
    Py_CLEAR(dispatch->token);
    Py_TYPE(dispatch)->tp_free((PyObject *)dispatch);
}

static PyMethodDef dispatch_methods[] = {
    {"many", (PyCFunction)many, METH_O, "A list of keys for each event; None: ask the matcher."},
    {"has", (PyCFunction)has, METH_O, "Whether a class was put, and is as it was then."},
    {"put", (PyCFunction)put_class, METH_VARARGS, "Where events of a class go."},
    {"clear", (PyCFunction)clear, METH_NOARGS, "Where events go is to be found out anew."},
    {"check", (PyCFunction)check, METH_VARARGS, "Have a token checked for each event."},
    {NULL},
};

PyTypeObject DispatchType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "polycast.matching.native._kernel.Dispatch",
    .tp_basicsize = sizeof(Dispatch),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = "Called with an event: the keys that it is for.",
    .tp_vectorcall_offset = offsetof(Dispatch, call),
    .tp_call = PyVectorcall_Call,
    .tp_new = dispatch_new,
    .tp_dealloc = (destructor)dispatch_dealloc,
    .tp_traverse = (traverseproc)dispatch_traverse,
    .tp_clear = (inquiry)dispatch_clear,
    .tp_methods = dispatch_methods,
};
