/* Conjunctions that wait, and segments: made of these, merged, and exchanged in one step. */
#include "kernel.h"
#include <string.h>

/* -- what waits ----------------------------------------------------------------------------------- */

/* (column, form, low, high, flags, values) */
static int read_asked(const Kernel *kernel, PyObject *from, Asked *asked) {
    if (!PyTuple_Check(from)) {
        PyErr_SetString(PyExc_TypeError, "a predicate is a tuple of six");
        return -1;
    }
    if (!PyArg_ParseTuple(from, "iiOOiO", &asked->column, &asked->form, &asked->low, &asked->high,
                          &asked->flags, &asked->values))
        return -1;
    if (asked->column < 0 || asked->column >= kernel->count || asked->form < F_IN ||
        asked->form > F_FALSE) {
        PyErr_SetString(PyExc_IndexError, "a predicate of a column or form that is not there");
        return -1;
    }
    if (asked->low == Py_None) asked->low = NULL;
    if (asked->high == Py_None) asked->high = NULL;
    if (asked->values == Py_None) asked->values = NULL;
    if (asked->values == NULL || PyTuple_Check(asked->values)) return 0;
    PyErr_SetString(PyExc_TypeError, "the values of a predicate are a tuple");
    return -1;
}

/* One more conjunction, matched once it is in a segment. */
static int put_record(Kernel *kernel, Py_ssize_t number, Py_ssize_t residual, const Asked *asked,
                      uint32_t count) {
    if (number < 0 || number > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "more filters than there are numbers");
        return -1;
    }
    if (records_add(&kernel->pending, kernel->columns, (uint32_t)number, (int32_t)residual, asked,
                    count))
        return -1;
    for (uint32_t i = 0; i < count; i++) {
        int form = asked[i].form, loose = form == F_NOT_IN && !(asked[i].flags & STRICT);
        if (loose || form == F_TRUE || form == F_FALSE)
            kernel->columns[asked[i].column].asks_loosely = 1;
    }
    return 0;
}

/* put(number, residual, predicates) */
static PyObject *put_conjunction(Kernel *kernel, PyObject *arguments) {
    Py_ssize_t number, residual;
    PyObject *predicates;
    if (!PyArg_ParseTuple(arguments, "nnO!", &number, &residual, &PyTuple_Type, &predicates))
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(predicates);
    Asked *asked = malloc(((size_t)count + 1) * sizeof *asked);
    int result = asked == NULL ? -1 : 0;
    if (result) PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count && result == 0; i++)
        result = read_asked(kernel, PyTuple_GET_ITEM(predicates, i), asked + i);
    if (result == 0) result = put_record(kernel, number, residual, asked, (uint32_t)count);
    free(asked);
    if (result) return NULL;
    Py_RETURN_NONE;
}

/* -- segments -------------------------------------------------------------------------------------- */

static int take_records(const Kernel *kernel, Records *into, const Records *from) {
    const char *at = from->data;
    for (size_t i = 0; i < from->count; i++) {
        const Record *record = (const Record *)at;
        if (record->number < kernel->numbers && kernel->keys[record->number] != NULL &&
            records_copy(into, record))
            return -1;
        at += record->size;
    }
    return 0;
}

static Value *copy_sample(const Kernel *kernel) {
    size_t count = (size_t)kernel->count * SAMPLE;
    Value *copy = calloc(count + 1, sizeof *copy);
    for (size_t i = 0; copy != NULL && i < count; i++) {
        copy[i] = kernel->sample[i];
        if (copy[i].data == NULL) continue;
        char *text = malloc((size_t)copy[i].size + 1);
        if (text == NULL)
            copy[i].kind = V_ABSENT;
        else
            memcpy(text, kernel->sample[i].data, (size_t)copy[i].size);
        copy[i].data = text;
    }
    return copy;
}

static void free_sample(Value *sample, int columns) {
    for (size_t i = 0; sample != NULL && i < (size_t)columns * SAMPLE; i++)
        free((char *)sample[i].data);
    free(sample);
}

/* The records of some segments, and of what waits if so, as one; NULL with an exception. Nothing
 * of Python's is made after the first step, so no finaliser runs in between. */
static Segment *make_segment(Kernel *kernel, PyObject *from, Py_ssize_t begin, Py_ssize_t end,
                             int pending) {
    uint8_t kinds[MOST_COLUMNS] = {0};
    Limits limits = kernel->limits;
    int failed = 0, rows = kernel->sampled, columns = kernel->count;
    Segment *segment = PyObject_New(Segment, &SegmentType);
    if (segment == NULL) return NULL;
    memset((char *)segment + sizeof(PyObject), 0, sizeof *segment - sizeof(PyObject));
    for (Py_ssize_t i = begin; i < end && !failed; i++)
        failed = take_records(kernel, &segment->records,
                              &((Segment *)PyTuple_GET_ITEM(from, i))->records);
    if (pending && !failed) failed = take_records(kernel, &segment->records, &kernel->pending);
    Value *sample = copy_sample(kernel);
    for (int i = 0; i < columns; i++) kinds[i] = kernel->columns[i].kind;
    Py_BEGIN_ALLOW_THREADS
    failed = failed || sample == NULL || segment_build(segment, kinds, columns, sample, rows, limits);
    Py_END_ALLOW_THREADS
    free_sample(sample, columns);
    if (!failed) return segment;
    Py_DECREF(segment);
    PyErr_NoMemory();
    return NULL;
}

/* A segment instead of those from one place to another: the rest is as it is by then. */
static int replace(Kernel *kernel, Py_ssize_t begin, Py_ssize_t end, PyObject *fresh) {
    PyObject *segments = NULL;
    Py_ssize_t size, count;
    do { /* making a tuple may run a finaliser, which may add filters */
        Py_XDECREF(segments);
        size = PyTuple_GET_SIZE(kernel->segments);
        if (begin < 0 || begin > end || end > size) {
            PyErr_SetString(PyExc_IndexError, "there are not so many segments");
            return -1;
        }
        count = size - (end - begin) + 1;
        if ((segments = PyTuple_New(count)) == NULL) return -1;
    } while (size != PyTuple_GET_SIZE(kernel->segments));
    for (Py_ssize_t i = 0, to = 0; to < count; to++) {
        PyObject *each = to == begin ? fresh : PyTuple_GET_ITEM(kernel->segments, i);
        PyTuple_SET_ITEM(segments, to, Py_NewRef(each));
        i = to == begin ? end : i + 1;
    }
    Py_SETREF(kernel->segments, segments);
    return 0;
}

/* settle(joined, kept): what waits, and the last so many segments, as one; but not the first. */
static PyObject *settle(Kernel *kernel, PyObject *arguments) {
    Py_ssize_t joined, kept, begin, end;
    if (!PyArg_ParseTuple(arguments, "nn", &joined, &kept)) return NULL;
    PyObject *from = Py_NewRef(kernel->segments);
    end = PyTuple_GET_SIZE(from);
    begin = joined < 0 || end - joined < kept ? kept : end - joined;
    if (begin > end) begin = end;
    Segment *fresh = make_segment(kernel, from, begin, end, 1);
    Py_DECREF(from);
    if (fresh == NULL) return NULL;
    records_free(&kernel->pending); /* whoever settles lets nobody add meanwhile */
    int result = replace(kernel, begin, end, (PyObject *)fresh);
    Py_DECREF(fresh);
    if (result) return NULL;
    Py_RETURN_NONE;
}

/* merged(count): the first so many segments as one, which is not among them yet. */
static PyObject *merged(Kernel *kernel, PyObject *arguments) {
    Py_ssize_t count;
    if (!PyArg_ParseTuple(arguments, "n", &count)) return NULL;
    PyObject *from = Py_NewRef(kernel->segments);
    if (count > PyTuple_GET_SIZE(from)) count = PyTuple_GET_SIZE(from);
    Segment *fresh = make_segment(kernel, from, 0, count, 0);
    Py_DECREF(from);
    return (PyObject *)fresh;
}

/* swap(count, segment): it stands for the first so many from now on. */
static PyObject *swap(Kernel *kernel, PyObject *arguments) {
    Py_ssize_t count;
    PyObject *fresh;
    if (!PyArg_ParseTuple(arguments, "nO!", &count, &SegmentType, &fresh)) return NULL;
    if (replace(kernel, 0, count, fresh)) return NULL;
    Py_RETURN_NONE;
}
