/* The kernel of one index: columns, keys by number, and segments of conjunctions.
 *
 * Everything but building and matching columns happens with the interpreter held. Segments are
 * never changed, only exchanged; who reads holds those that were there when it began.
 */
#include "kernel.h"
#include <string.h>

/* -- matching -------------------------------------------------------------------------------------- */

/* What is left to ask of an event: -1 only to stop the program. */
static int passes(const Kernel *kernel, uint32_t what, PyObject *event) {
    if (what >= (size_t)PyList_GET_SIZE(kernel->residuals)) return 0;
    PyObject *function = PyList_GET_ITEM(kernel->residuals, what);
    if (function == Py_None) return 0;
    Py_INCREF(function);
    PyObject *verdict = PyObject_CallOneArg(function, event);
    int result = verdict == NULL ? -1 : PyObject_IsTrue(verdict);
    Py_DECREF(function);
    Py_XDECREF(verdict);
    if (result < 0 && is_failure()) {
        PyErr_Clear();
        result = 0;
    }
    return result;
}

/* What several filters ask is mostly asked once. */
static int ask_residuals(const Kernel *kernel, PyObject *event, Found *found) {
    uint32_t known[64];
    int8_t verdicts[64];
    memset(verdicts, -1, sizeof verdicts);
    for (size_t i = 0; i < found->asks; i++) {
        uint32_t number = found->asked[2 * i], what = found->asked[2 * i + 1], place = what % 64;
        if (number >= kernel->numbers || kernel->keys[number] == NULL) continue;
        if (verdicts[place] < 0 || known[place] != what) {
            int verdict = passes(kernel, what, event);
            if (verdict < 0) return -1;
            verdicts[place] = (int8_t)verdict;
            known[place] = what;
        }
        int result = verdicts[place];
        if (result && found_put(found, number)) {
            PyErr_NoMemory();
            return -1;
        }
    }
    return 0;
}

static PyObject *numbers_list(const Found *found) {
    PyObject *list = PyList_New((Py_ssize_t)found->count);
    for (size_t i = 0; list != NULL && i < found->count; i++) {
        PyObject *number = PyLong_FromUnsignedLong(found->numbers[i]);
        if (number == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, number);
    }
    return list;
}

static PyObject *match_odd(Kernel *kernel, PyObject *segments, PyObject *event,
                           const Value *values, uint32_t odd) {
    Found sure, unsure;
    PyObject *some = NULL, *others = NULL, *keys = NULL;
    int failed = 0;
    found_begin(&sure);
    found_begin(&unsure);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(segments) && !failed; i++)
        failed = segment_find_odd((Segment *)PyTuple_GET_ITEM(segments, i), kernel->columns,
                                  values, odd, &sure, &unsure);
    if (failed)
        PyErr_NoMemory();
    else if ((some = numbers_list(&sure)) != NULL && (others = numbers_list(&unsure)) != NULL)
        keys = PyObject_CallFunctionObjArgs(kernel->elsewhere, event, some, others, NULL);
    Py_XDECREF(some);
    Py_XDECREF(others);
    found_end(&sure);
    found_end(&unsure);
    return keys;
}

static PyObject *match_usual(Kernel *kernel, PyObject *segments, PyObject *event,
                             const Value *values) {
    Found found;
    PyObject *keys = NULL;
    size_t blocks = 0;
    int failed = 0;
    found_begin(&found);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(segments) && !failed; i++) {
        const Segment *segment = (Segment *)PyTuple_GET_ITEM(segments, i);
        Encoded encoded;
        encode(segment, values, &encoded);
        failed = segment_find(segment, kernel->columns, (Event){as_read, (void *)values}, &encoded,
                              &found, UINT32_MAX, &blocks);
    }
    kernel->events++;
    kernel->blocks += blocks;
    if (failed)
        PyErr_NoMemory();
    else if (found.asks == 0 || ask_residuals(kernel, event, &found) == 0)
        keys = list_of_keys(kernel, found.numbers, found.count);
    found_end(&found);
    return keys;
}

PyObject *kernel_match(Kernel *kernel, PyObject *event) {
    Value values[MOST_COLUMNS];
    uint32_t odd;
    PyObject *keys;
    kernel->readers++;
    PyObject *segments = Py_NewRef(kernel->segments);
    int count = kernel_read(kernel, event, values, &odd);
    if (count < 0)
        keys = NULL;
    else {
        if (--kernel->until <= 0) kernel_watch(kernel, values, count);
        keys = odd ? match_odd(kernel, segments, event, values, odd)
                   : match_usual(kernel, segments, event, values);
        release_values(values, count);
    }
    Py_DECREF(segments);
    kernel->readers--;
    return keys;
}

PyObject *kernel_match_many(Kernel *kernel, PyObject *events) {
    if (!PyList_CheckExact(events)) {
        PyErr_SetString(PyExc_TypeError, "a list of events is needed");
        return NULL;
    }
    PyObject *all = PyList_New(0);
    for (Py_ssize_t i = 0; all != NULL && i < PyList_GET_SIZE(events); i++) {
        PyObject *event = Py_NewRef(PyList_GET_ITEM(events, i));
        PyObject *keys = kernel_match(kernel, event);
        Py_DECREF(event);
        if (keys == NULL || PyList_Append(all, keys)) Py_CLEAR(all);
        Py_XDECREF(keys);
    }
    return all;
}

/* -- changing -------------------------------------------------------------------------------------- */

/* add_column(name, reader, seat, kind, plain, never, coerce, loose, of): its number. */
static PyObject *add_column(Kernel *kernel, PyObject *arguments) {
    PyObject *name, *reader, *seat, *never, *coerce, *loose, *of;
    int kind, plain;
    if (!PyArg_ParseTuple(arguments, "OOOipO!OOO", &name, &reader, &seat, &kind, &plain,
                          &PyFrozenSet_Type, &never, &coerce, &loose, &of))
        return NULL;
    if (kernel->count == MOST_COLUMNS) {
        PyErr_SetString(PyExc_ValueError, "there are as many columns as there can be");
        return NULL;
    }
    Column *column = kernel->columns + kernel->count;
    column->name = name == Py_None ? NULL : Py_NewRef(name);
    if (column->name != NULL) PyUnicode_InternInPlace(&column->name);
    column->reader = Py_NewRef(reader);
    column->seat = Py_NewRef(seat);
    column->never = Py_NewRef(never);
    column->coerce = Py_NewRef(coerce);
    column->loose = Py_NewRef(loose);
    column->of = Py_NewRef(of);
    column->kind = (uint8_t)kind;
    column->asks_loosely = 0;
    column->plain = plain && column->name != NULL;
    memset(kernel->plans, 0, sizeof kernel->plans);
    for (int i = 0; i < SAMPLE; i++) kernel->sample[kernel->count * SAMPLE + i].kind = V_ABSENT;
    kernel->sampled = kernel->next = 0; /* it had no values before */
    kernel->every = kernel->until = 1;
    return PyLong_FromLong(kernel->count++);
}

/* -- what Python sees -------------------------------------------------------------------------------- */

static PyObject *get_segments(Kernel *kernel, void *closure) { return Py_NewRef(kernel->segments); }

static PyObject *get_pending(Kernel *kernel, void *closure) {
    return PyLong_FromSize_t(kernel->pending.count);
}

static PyObject *get_watched(Kernel *kernel, void *closure) {
    PyObject *facts = Py_BuildValue("(iKK)", kernel->sampled, kernel->events, kernel->blocks);
    kernel->events = kernel->blocks = 0;
    return facts;
}

static PyObject *get_bytes(Kernel *kernel, void *closure) {
    size_t bytes = kernel->numbers * (sizeof(PyObject *) + sizeof(int64_t)) + kernel->pending.room;
    bytes += (size_t)kernel->count * SAMPLE * sizeof(Value);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kernel->segments); i++)
        bytes += segment_bytes((Segment *)PyTuple_GET_ITEM(kernel->segments, i));
    return PyLong_FromSize_t(bytes);
}

static PyObject *kernel_new(PyTypeObject *type, PyObject *arguments, PyObject *options) {
    PyObject *elsewhere;
    Limits limits;
    if (!PyArg_ParseTuple(arguments, "Oiii", &elsewhere, &limits.few, &limits.cuts, &limits.codes))
        return NULL;
    if (limits.few < 0 || limits.cuts < 1 || limits.cuts > MOST_CUTS || limits.codes < 1 ||
        limits.codes > MOST_CODES) {
        PyErr_SetString(PyExc_ValueError, "a kernel cannot have such limits");
        return NULL;
    }
    Kernel *kernel = (Kernel *)type->tp_alloc(type, 0);
    if (kernel == NULL) return NULL;
    kernel->limits = limits;
    kernel->elsewhere = Py_NewRef(elsewhere);
    kernel->residuals = PyList_New(0);
    kernel->segments = PyTuple_New(0);
    kernel->sample = calloc((size_t)SAMPLE * MOST_COLUMNS, sizeof(Value));
    kernel->every = kernel->until = 1;
    if (kernel->residuals && kernel->segments && kernel->sample) return (PyObject *)kernel;
    Py_DECREF(kernel);
    return PyErr_NoMemory();
}

static int kernel_traverse(Kernel *kernel, visitproc visit, void *arg) {
    for (int i = 0; i < kernel->count; i++) {
        Py_VISIT(kernel->columns[i].reader);
        Py_VISIT(kernel->columns[i].seat);
        Py_VISIT(kernel->columns[i].coerce);
        Py_VISIT(kernel->columns[i].loose);
        Py_VISIT(kernel->columns[i].never);
        Py_VISIT(kernel->columns[i].of);
    }
    for (size_t i = 0; i < kernel->numbers; i++)
        if (kernel->keys[i] != NULL) Py_VISIT(SEVERAL(kernel->keys[i]));
    Py_VISIT(kernel->residuals);
    Py_VISIT(kernel->elsewhere);
    Py_VISIT(kernel->segments);
    return 0;
}

static int kernel_clear(Kernel *kernel) {
    int count = kernel->count;
    kernel->count = 0;
    for (int i = 0; i < count; i++) {
        Py_CLEAR(kernel->columns[i].name);
        Py_CLEAR(kernel->columns[i].reader);
        Py_CLEAR(kernel->columns[i].seat);
        Py_CLEAR(kernel->columns[i].coerce);
        Py_CLEAR(kernel->columns[i].loose);
        Py_CLEAR(kernel->columns[i].never);
        Py_CLEAR(kernel->columns[i].of);
    }
    PyObject **keys = kernel->keys;
    size_t numbers = kernel->numbers;
    kernel->keys = NULL;
    kernel->numbers = 0;
    for (size_t i = 0; i < numbers; i++) drop_key(keys[i]);
    free(keys);
    free(kernel->ids);
    kernel->ids = NULL;
    if (kernel->residuals) PyList_SetSlice(kernel->residuals, 0, PY_SSIZE_T_MAX, NULL);
    Py_XSETREF(kernel->elsewhere, Py_NewRef(Py_None));
    if (kernel->segments) Py_SETREF(kernel->segments, PyTuple_New(0)); /* there is one of these */
    return 0;
}

static void kernel_dealloc(Kernel *kernel) {
    PyObject_GC_UnTrack(kernel);
    kernel_clear(kernel);
    Py_CLEAR(kernel->residuals);
    Py_CLEAR(kernel->elsewhere);
    Py_CLEAR(kernel->segments);
    for (int i = 0; i < kernel->named; i++) Py_CLEAR(kernel->names[i]);
    records_free(&kernel->pending);
    free_sample(kernel->sample, MOST_COLUMNS);
    Py_TYPE(kernel)->tp_free((PyObject *)kernel);
}

/* Whoever holds a kernel may keep numbers of filters: they are not given to others meanwhile. */
static PyObject *hold(Kernel *kernel, PyObject *nothing) {
    kernel->readers++;
    Py_RETURN_NONE;
}

static PyObject *release(Kernel *kernel, PyObject *nothing) {
    kernel->readers--;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"hold", (PyCFunction)hold, METH_NOARGS, "Let numbers of filters keep their meaning."},
    {"release", (PyCFunction)release, METH_NOARGS, "End that."},
    {"add_column", (PyCFunction)add_column, METH_VARARGS, "One more term of the events."},
    {"set_key", (PyCFunction)set_key, METH_VARARGS, "Who wants what passes a filter."},
    {"put", (PyCFunction)put_conjunction, METH_VARARGS, "One more conjunction of a filter."},
    {"take", (PyCFunction)(void (*)(void))take_tree, METH_FASTCALL, "A filter that is one of them."},
    {"settle", (PyCFunction)settle, METH_VARARGS, "What waits becomes a segment, or part of one."},
    {"merged", (PyCFunction)merged, METH_VARARGS, "One segment of the first ones."},
    {"swap", (PyCFunction)swap, METH_VARARGS, "Let a segment stand for the first ones."},
    {"match", (PyCFunction)kernel_match, METH_O, "The keys that an event is for."},
    {"match_many", (PyCFunction)kernel_match_many, METH_O, "The keys for each event of a list."},
    {"match_columns", (PyCFunction)kernel_match_columns, METH_VARARGS, "Filters for each row."},
    {"keys_for", (PyCFunction)kernel_keys_for, METH_VARARGS, "Their keys, as an array if numbers."},
    {NULL},
};

static PyMemberDef members[] = {
    {"residuals", T_OBJECT, offsetof(Kernel, residuals), READONLY, "What else is asked."},
    {"readers", T_PYSSIZET, offsetof(Kernel, readers), READONLY, "Who is matching now."},
    {"direct", T_BOOL, offsetof(Kernel, direct), 0, "Whether it may be asked without its index."},
    {"attention", T_BOOL, offsetof(Kernel, attention), 0, "Whether its index should look at it."},
    {"whole", T_BOOL, offsetof(Kernel, whole), 0, "Whether all keys are numbers of 64 bits."},
    {"sampled", T_INT, offsetof(Kernel, sampled), READONLY, "Events to learn from."},
    {"columns", T_INT, offsetof(Kernel, count), READONLY, "How many columns there are."},
    {NULL},
};

static PyGetSetDef getters_and_setters[] = {
    {"segments", (getter)get_segments, NULL, "What is matched now.", NULL},
    {"pending", (getter)get_pending, NULL, "Conjunctions that are in no segment yet.", NULL},
    {"watched", (getter)get_watched, NULL, "Sampled; events and blocks since last asked.", NULL},
    {"bytes", (getter)get_bytes, NULL, "Memory of its own.", NULL},
    {NULL},
};

PyTypeObject KernelType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "polycast.matching.native._kernel.Kernel",
    .tp_basicsize = sizeof(Kernel),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "Many filters at once.",
    .tp_new = kernel_new,
    .tp_dealloc = (destructor)kernel_dealloc,
    .tp_traverse = (traverseproc)kernel_traverse,
    .tp_clear = (inquiry)kernel_clear,
    .tp_methods = methods,
    .tp_members = members,
    .tp_getset = getters_and_setters,
};
