/* Events as columns of Arrow: matched with the interpreter let go, so several threads may. */
#include "kernel.h"
#include <string.h>

enum { INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, FLOAT32, FLOAT64, TEXT32, TEXT64, NOTHING };

typedef struct {
    int type;
    const void *data;
    const uint8_t *valid; /* a bit for each; NULL if all are */
    const char *chars;
    int64_t offset;
    Value *values; /* of objects, read before */
} Source;

static void put_number(const Source *source, int64_t at, Value *value) {
    double number;
    value->kind = V_INT;
    switch (source->type) {
    case INT8: value->key = ((const int8_t *)source->data)[at]; return;
    case INT16: value->key = ((const int16_t *)source->data)[at]; return;
    case INT32: value->key = ((const int32_t *)source->data)[at]; return;
    case INT64:
        value->key = ((const int64_t *)source->data)[at];
        if (value->key == INT64_MAX) value->kind = V_ODD;
        return;
    case UINT8: value->key = ((const uint8_t *)source->data)[at]; return;
    case UINT16: value->key = ((const uint16_t *)source->data)[at]; return;
    case UINT32: value->key = ((const uint32_t *)source->data)[at]; return;
    case FLOAT32: number = ((const float *)source->data)[at]; break;
    default: number = ((const double *)source->data)[at];
    }
    value->kind = number != number ? V_NAN : V_FLOAT;
    value->key = number != number ? 0 : float_key(number);
}

static void put_characters(const Source *source, int64_t at, Value *value) {
    int64_t from, to;
    if (source->type == TEXT32) {
        const int32_t *offsets = source->data;
        from = offsets[at], to = offsets[at + 1];
    } else {
        const int64_t *offsets = source->data;
        from = offsets[at], to = offsets[at + 1];
    }
    value->kind = V_TEXT;
    value->data = source->chars + from;
    value->size = (Py_ssize_t)(to - from);
    value->key = text_key(value->data, value->size);
}

static void put_value(const Source *source, int64_t row, Value *value) {
    int64_t at = row + source->offset;
    value->owner = NULL;
    if (source->values != NULL)
        *value = source->values[row];
    else if (source->type == NOTHING)
        value->kind = V_ABSENT;
    else if (source->valid != NULL && !(source->valid[at >> 3] >> (at & 7) & 1))
        value->kind = V_NONE;
    else if (source->type >= TEXT32)
        put_characters(source, at, value);
    else
        put_number(source, at, value);
}

/* -- sources ---------------------------------------------------------------------------------------- */

static int read_objects(const Column *column, PyObject *list, Source *source) {
    Py_ssize_t size = PyList_GET_SIZE(list);
    source->values = calloc((size_t)size + 1, sizeof(Value));
    if (source->values == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        PyObject *value = Py_NewRef(PyList_GET_ITEM(list, i));
        int result = classify(column, value, source->values + i);
        Py_DECREF(value);
        if (result) return -1;
    }
    return 0;
}

/* (type, address of values, of the bits that tell what is null, of characters, offset); or a list
 * of objects; or None, if no event has it. The caller keeps the buffers alive. */
static int read_source(const Column *column, PyObject *from, Py_ssize_t rows, Source *source) {
    unsigned long long data, valid, chars;
    long long offset;
    source->type = NOTHING;
    if (from == Py_None) return 0;
    if (PyList_CheckExact(from) && PyList_GET_SIZE(from) >= rows)
        return read_objects(column, from, source);
    if (!PyArg_ParseTuple(from, "iKKKL", &source->type, &data, &valid, &chars, &offset)) return -1;
    source->data = (const void *)(uintptr_t)data;
    source->valid = (const uint8_t *)(uintptr_t)valid;
    source->chars = (const char *)(uintptr_t)chars;
    source->offset = offset;
    return 0;
}

static void free_sources(Source *sources, int count, Py_ssize_t rows) {
    for (int i = 0; i < count; i++) {
        for (Py_ssize_t row = 0; sources[i].values != NULL && row < rows; row++)
            Py_XDECREF(sources[i].values[row].owner);
        free(sources[i].values);
    }
}

/* -- matching ---------------------------------------------------------------------------------------- */

#define TILE 64 /* rows that are encoded together, column by column */

typedef struct {
    Kernel *kernel;
    PyObject *segments;
    int columns;
    Source sources[MOST_COLUMNS];
    Py_ssize_t begin, end;
    uint32_t anchors;
    int64_t *offsets;
    Found found;
    Found odd; /* rows to be asked one by one; and of each of found.asked the row */
    size_t blocks;
    Encoded *encoded; /* a tile for each segment */
    uint8_t is_odd[TILE];
    Value values[MOST_COLUMNS]; /* of the row that was read last */
    Py_ssize_t row, read;
} Task;

static const Segment *segment_at(const Task *task, Py_ssize_t number) {
    return (const Segment *)PyTuple_GET_ITEM(task->segments, number);
}

static void encode_column(const Segment *segment, int column, const Source *source,
                          Py_ssize_t begin, Py_ssize_t count, Encoded *encoded) {
    for (Py_ssize_t i = 0; i < count; i++) {
        Value value;
        put_value(source, begin + i, &value);
        encode_value(segment, column, &value, encoded + i);
    }
}

static void encode_tile(Task *task, Py_ssize_t begin, Py_ssize_t count) {
    for (Py_ssize_t number = 0; number < PyTuple_GET_SIZE(task->segments); number++) {
        const Segment *segment = segment_at(task, number);
        Encoded *encoded = task->encoded + number * TILE;
        for (Py_ssize_t i = 0; i < count; i++) encode_none(encoded + i);
        for (int column = 0; column < segment->columns; column++)
            if (segment->used >> column & 1)
                encode_column(segment, column, task->sources + column, begin, count, encoded);
    }
}

/* Only integers of 64 bits, and objects, can be odd. */
static void find_odd(Task *task, Py_ssize_t begin, Py_ssize_t count) {
    memset(task->is_odd, 0, sizeof task->is_odd);
    for (int column = 0; column < task->columns; column++) {
        const Source *source = task->sources + column;
        if (source->values == NULL && source->type != INT64) continue;
        for (Py_ssize_t i = 0; i < count; i++) {
            Value value;
            put_value(source, begin + i, &value);
            task->is_odd[i] |= value.kind == V_ODD;
        }
    }
}

static const Value *read_row(void *of) {
    Task *task = of;
    for (int i = 0; task->read != task->row && i < task->columns; i++)
        put_value(task->sources + i, task->row, task->values + i);
    task->read = task->row;
    return task->values;
}

static int match_row(Task *task, const Encoded *encoded) {
    size_t asks = task->found.asks;
    for (Py_ssize_t number = 0; number < PyTuple_GET_SIZE(task->segments); number++)
        if (segment_find(segment_at(task, number), task->kernel->columns, (Event){read_row, task},
                         encoded + number * TILE, &task->found, task->anchors, &task->blocks))
            return -1;
    for (; asks < task->found.asks; asks++)
        if (found_ask(&task->odd, (uint32_t)task->row, task->found.asked[2 * asks])) return -1;
    return 0;
}

static int match_tile(Task *task, Py_ssize_t begin, Py_ssize_t count) {
    find_odd(task, begin, count);
    encode_tile(task, begin, count);
    for (Py_ssize_t i = 0; i < count; i++) {
        int failed = 0;
        task->row = begin + i;
        task->offsets[task->row - task->begin] = (int64_t)task->found.count;
        if (!task->is_odd[i])
            failed = match_row(task, task->encoded + i);
        else if (task->anchors & 1)
            failed = found_put(&task->odd, (uint32_t)task->row);
        if (failed) return -1;
    }
    return 0;
}

static int match_rows(Task *task) {
    task->read = -1;
    for (Py_ssize_t row = task->begin; row < task->end; row += TILE)
        if (match_tile(task, row, task->end - row < TILE ? task->end - row : TILE)) return -1;
    task->offsets[task->end - task->begin] = (int64_t)task->found.count;
    return 0;
}

/* (row, number of a filter, what else is asked) for each. */
static PyObject *asked(const Task *task) {
    PyObject *list = PyList_New((Py_ssize_t)task->found.asks);
    for (size_t i = 0; list != NULL && i < task->found.asks; i++) {
        PyObject *each = Py_BuildValue("(III)", task->odd.asked[2 * i], task->found.asked[2 * i],
                                       task->found.asked[2 * i + 1]);
        if (each == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, each);
    }
    return list;
}

static PyObject *result(const Task *task) {
    Py_ssize_t rows = task->end - task->begin;
    PyObject *odd = PyList_New(0), *asks = asked(task), *answer = NULL;
    for (size_t i = 0; odd != NULL && i < task->odd.count; i++) {
        PyObject *row = PyLong_FromUnsignedLong(task->odd.numbers[i]);
        if (row == NULL || PyList_Append(odd, row)) Py_CLEAR(odd);
        Py_XDECREF(row);
    }
    if (odd != NULL && asks != NULL)
        answer = Py_BuildValue("(y#y#OO)", (char *)task->offsets,
                               (rows + 1) * (Py_ssize_t)sizeof(int64_t),
                               (char *)task->found.numbers,
                               (Py_ssize_t)(task->found.count * sizeof(uint32_t)), asks, odd);
    Py_XDECREF(odd);
    Py_XDECREF(asks);
    return answer;
}

static void watch_row(Task *task, Py_ssize_t row) {
    task->row = row;
    kernel_watch(task->kernel, read_row(task), task->columns);
}

/* To begin with: rows from everywhere. */
static void watch_many(Task *task) {
    Py_ssize_t step = (task->end - task->begin) / SAMPLE + 1;
    task->read = -1;
    for (Py_ssize_t row = task->begin; row < task->end; row += step) watch_row(task, row);
}

/* As many as if they had come one by one. */
static void watch_some(Task *task) {
    Py_ssize_t row = task->begin + task->kernel->until - 1;
    for (; row < task->end; row += task->kernel->every) watch_row(task, row);
    task->kernel->until = (int)(row - task->end + 1);
}

/* Columns that came after the sources were made. */
static int lacks_columns(const Task *task) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(task->segments); i++)
        if (((Segment *)PyTuple_GET_ITEM(task->segments, i))->columns > task->columns) {
            PyErr_SetString(PyExc_LookupError, "there is a column without a source");
            return 1;
        }
    return 0;
}

static PyObject *run(Task *task) {
    Kernel *kernel = task->kernel;
    Py_ssize_t rows = task->end - task->begin;
    int failed;
    task->segments = Py_NewRef(kernel->segments);
    if (lacks_columns(task)) {
        Py_DECREF(task->segments);
        return NULL;
    }
    kernel->readers++;
    found_begin(&task->found);
    found_begin(&task->odd);
    task->offsets = malloc(((size_t)rows + 1) * sizeof(int64_t));
    task->encoded = malloc((size_t)(PyTuple_GET_SIZE(task->segments) + 1) * TILE *
                                    sizeof *task->encoded);
    Py_BEGIN_ALLOW_THREADS
    failed = task->offsets == NULL || task->encoded == NULL || match_rows(task);
    Py_END_ALLOW_THREADS
    kernel->readers--;
    kernel->blocks += task->blocks;
    if (task->anchors & 1) { /* one of several that share the filters */
        kernel->events += (uint64_t)rows;
        if (!failed) watch_some(task);
    }
    PyObject *answer = failed ? PyErr_NoMemory() : result(task);
    found_end(&task->found);
    found_end(&task->odd);
    free(task->offsets);
    free(task->encoded);
    Py_DECREF(task->segments);
    return answer;
}

/* match_columns(sources, begin, end, anchors): for these rows, where the filters of each begin, the
 * filters, what else has to be asked, and the rows that have to be asked one by one. With no
 * anchors at all the rows are only looked at, to learn from them. */
PyObject *kernel_match_columns(Kernel *kernel, PyObject *arguments) {
    PyObject *sources, *answer = NULL;
    unsigned int anchors;
    Task *task = calloc(1, sizeof *task);
    if (task == NULL) return PyErr_NoMemory();
    task->kernel = kernel;
    if (!PyArg_ParseTuple(arguments, "O!nnI", &PyTuple_Type, &sources, &task->begin, &task->end,
                          &anchors))
        goto end;
    if (PyTuple_GET_SIZE(sources) > kernel->count || task->begin < 0 || task->end < task->begin ||
        task->end > UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "at most a source for each column, and rows in order");
        goto end;
    }
    task->anchors = anchors;
    for (; task->columns < PyTuple_GET_SIZE(sources); task->columns++)
        if (read_source(kernel->columns + task->columns,
                        PyTuple_GET_ITEM(sources, task->columns), task->end,
                        task->sources + task->columns)) {
            task->columns++;
            goto end;
        }
    if (anchors)
        answer = run(task);
    else {
        watch_many(task);
        answer = Py_NewRef(Py_None);
    }
end:
    free_sources(task->sources, task->columns, task->end);
    free(task);
    return answer;
}

/* -- keys --------------------------------------------------------------------------------------------- */

static PyObject *key_of(const Kernel *kernel, uint32_t number) {
    return number < kernel->numbers ? kernel->keys[number] : NULL;
}

static int append_id(PyObject *ids, Py_ssize_t at, int64_t id) {
    Py_ssize_t needed = (at + 1) * (Py_ssize_t)sizeof id;
    if (needed > PyByteArray_GET_SIZE(ids) && PyByteArray_Resize(ids, needed + needed / 2)) return -1;
    memcpy(PyByteArray_AS_STRING(ids) + at * (Py_ssize_t)sizeof id, &id, sizeof id);
    return 0;
}

/* The numbers of several who want the same, if there is anybody. */
static int64_t put_several(const Kernel *kernel, uint32_t number, PyObject *ids, int64_t count) {
    PyObject *key = key_of(kernel, number);
    if (key == NULL) return count;
    PyObject *several = IS_SEVERAL(key) ? PySequence_List(SEVERAL(key)) : PyList_New(0);
    if (several == NULL) return -1;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(several) && count >= 0; i++) {
        int64_t id = PyLong_AsLongLong(PyList_GET_ITEM(several, i));
        count = PyErr_Occurred() || append_id(ids, count, id) ? -1 : count + 1;
    }
    Py_DECREF(several);
    return count;
}

/* All keys are numbers of 64 bits. */
static int put_ids(const Kernel *kernel, const uint32_t *numbers, const int64_t *offsets,
                   Py_ssize_t rows, PyObject *ids, int64_t *ends) {
    int64_t count = 0;
    for (Py_ssize_t row = 0; row < rows; row++) {
        ends[row] = count;
        for (int64_t i = offsets[row]; i < offsets[row + 1]; i++) {
            int64_t id = numbers[i] < kernel->numbers ? kernel->ids[numbers[i]] : NOT_ONE;
            if (id == NOT_ONE)
                count = put_several(kernel, numbers[i], ids, count);
            else
                count = append_id(ids, count, id) ? -1 : count + 1;
            if (count < 0) return -1;
        }
    }
    ends[rows] = count;
    return PyByteArray_Resize(ids, (Py_ssize_t)count * (Py_ssize_t)sizeof(int64_t));
}

static PyObject *listed_keys(const Kernel *kernel, const uint32_t *numbers, const int64_t *offsets,
                             Py_ssize_t rows, int64_t *ends) {
    PyObject *list = PyList_New(0);
    for (Py_ssize_t row = 0; list != NULL && row < rows; row++) {
        ends[row] = PyList_GET_SIZE(list);
        for (int64_t i = offsets[row]; list != NULL && i < offsets[row + 1]; i++) {
            PyObject *key = key_of(kernel, numbers[i]), *several = NULL;
            int failed = 0;
            if (key != NULL && IS_SEVERAL(key))
                failed = (several = PySequence_List(SEVERAL(key))) == NULL ||
                         PyList_SetSlice(list, PY_SSIZE_T_MAX, PY_SSIZE_T_MAX, several);
            else if (key != NULL)
                failed = PyList_Append(list, key);
            Py_XDECREF(several);
            if (failed) Py_CLEAR(list);
        }
    }
    if (list != NULL) ends[rows] = PyList_GET_SIZE(list);
    return list;
}

/* keys_for(offsets, numbers): offsets and keys; these as 64-bit numbers if they are, or a list. */
PyObject *kernel_keys_for(Kernel *kernel, PyObject *arguments) {
    Py_buffer offsets, numbers;
    PyObject *keys = NULL, *ends = NULL, *answer = NULL;
    if (!PyArg_ParseTuple(arguments, "y*y*", &offsets, &numbers)) return NULL;
    Py_ssize_t rows = offsets.len / (Py_ssize_t)sizeof(int64_t) - 1;
    Py_ssize_t count = numbers.len / (Py_ssize_t)sizeof(uint32_t);
    const int64_t *starts = offsets.buf;
    if (rows < 0 || starts[rows] != count)
        PyErr_SetString(PyExc_ValueError, "the offsets do not fit the numbers");
    else {
        ends = PyByteArray_FromStringAndSize(NULL, offsets.len);
        keys = PyByteArray_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(int64_t));
    }
    if (ends != NULL && keys != NULL) {
        int64_t *to = (int64_t *)PyByteArray_AS_STRING(ends);
        if (!kernel->whole)
            Py_SETREF(keys, listed_keys(kernel, numbers.buf, starts, rows, to));
        else if (put_ids(kernel, numbers.buf, starts, rows, keys, to))
            Py_CLEAR(keys);
        if (keys != NULL) answer = PyTuple_Pack(2, ends, keys);
    }
    Py_XDECREF(ends);
    Py_XDECREF(keys);
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&numbers);
    return answer;
}
