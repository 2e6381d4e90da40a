/* One conjunction as a record, which can be copied anywhere, and which answers exactly. */
#include "kernel.h"
#include <math.h>
#include <string.h>

static int make_room(Records *records, size_t more) {
    if (records->size + more <= records->room) return 0;
    size_t room = records->room + records->room / 2 + more + 256;
    char *data = realloc(records->data, room);
    if (data == NULL) return -1;
    records->data = data;
    records->room = room;
    return 0;
}

static int append(Records *records, const void *data, size_t size) {
    if (make_room(records, size)) return -1;
    if (size) memcpy(records->data + records->size, data, size);
    records->size += size;
    return 0;
}

void records_free(Records *records) {
    free(records->data);
    memset(records, 0, sizeof *records);
}

int records_copy(Records *records, const Record *record) {
    if (append(records, record, record->size)) return -1;
    records->count++;
    return 0;
}

/* -- from Python --------------------------------------------------------------------------------- */

static int refuse(void) {
    PyErr_SetString(PyExc_ValueError, "a constant that has no place in its column");
    return -1;
}

/* The first integer that is not before a float, or not before what is right after it. */
static int64_t integer_cut(double number, int after) {
    if (number >= 9223372036854775808.0) return INT64_MAX;
    if (number < -9223372036854775808.0) return INT64_MIN;
    return after ? (int64_t)floor(number) + 1 : (int64_t)ceil(number);
}

static int number_cut(const Value *value, int after, int64_t at[2]) {
    if (value->kind == V_FLOAT) {
        at[0] = value->key + after;
        at[1] = integer_cut(float_of_key(value->key), after);
        return 0;
    }
    int64_t most = (int64_t)1 << 53; /* beyond, a float may lie between */
    if (value->kind != V_INT || value->key > most || value->key < -most) return refuse();
    at[0] = float_key((double)value->key) + after;
    at[1] = value->key + after;
    return 0;
}

/* The least text after another is that with a zero byte more. */
static int text_cut(const Value *value, int after, int64_t at[2], Records *texts) {
    if ((size_t)value->size > UINT32_MAX / 8 || texts->size > INT32_MAX / 2) return refuse();
    at[0] = value->key;
    at[1] = (int64_t)texts->size << 32 | (int64_t)(value->size + after);
    if (append(texts, value->data, (size_t)value->size) || (after && append(texts, "", 1))) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static int put_cut(const Column *column, PyObject *constant, int after, int64_t at[2],
                   Records *texts) {
    Value value = {.owner = NULL};
    int result;
    if (column->kind == MEMBER) {
        value.kind = V_INT;
        value.key = (int64_t)(uintptr_t)constant;
        if ((PyObject *)Py_TYPE(constant) != column->of) return refuse();
    } else if (!place_of(column->kind, constant, &value))
        return refuse();
    if (column->kind == NUMBER)
        result = number_cut(&value, after, at);
    else if (value.kind == V_TEXT)
        result = text_cut(&value, after, at, texts);
    else if (value.kind == V_INT) {
        at[0] = 0;
        at[1] = value.key + after;
        result = 0;
    } else
        result = refuse();
    Py_XDECREF(value.owner);
    return result;
}

static void open_end(const Column *column, int high, int64_t at[2]) {
    at[0] = high ? INT64_MAX : INT64_MIN;
    at[1] = column->kind == TEXT || column->kind == BYTES ? OPEN : at[0];
}

static int put_end(const Column *column, PyObject *constant, int after, int high,
                   int64_t at[2], Records *texts) {
    if (constant != NULL) return put_cut(column, constant, after, at, texts);
    open_end(column, high, at);
    return 0;
}

/* What follows all ASCII texts that begin with another: the same with a greater last character. */
static PyObject *successor(PyObject *prefix) {
    Py_ssize_t size = PyUnicode_GET_LENGTH(prefix);
    PyObject *text = PyUnicode_New(size, 127);
    if (text == NULL) return NULL;
    memcpy(PyUnicode_1BYTE_DATA(text), PyUnicode_1BYTE_DATA(prefix), (size_t)size);
    PyUnicode_1BYTE_DATA(text)[size - 1]++;
    return text;
}

static int put_interval(Records *records, const Column *column, PyObject *low, PyObject *high,
                        int flags, Records *texts) {
    Interval interval;
    PyObject *end = flags & HIGH_FOLLOWS ? successor(low) : Py_XNewRef(high);
    int result = end == NULL && flags & HIGH_FOLLOWS;
    result = result ||
             put_end(column, low, flags & LOW_AFTER, 0, interval.low, texts) ||
             put_end(column, end, flags >> 1 & 1, 1, interval.high, texts);
    Py_XDECREF(end);
    if (result) return -1;
    if (append(records, &interval, sizeof interval)) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static int put_predicate(Records *records, const Column *columns, const Asked *asked,
                         Records *texts) {
    const Column *column = columns + asked->column;
    Predicate made = {(uint8_t)asked->column, (uint8_t)asked->form, (asked->flags & NAN_TOO) != 0,
                      (asked->flags & STRICT) != 0, 0};
    if (asked->form <= F_NOT_IN)
        made.intervals = asked->values == NULL ? 1 : (uint32_t)PyTuple_GET_SIZE(asked->values);
    if (made.intervals > MOST_INTERVALS) return refuse();
    if (append(records, &made, sizeof made)) {
        PyErr_NoMemory();
        return -1;
    }
    if (asked->values == NULL && made.intervals)
        return put_interval(records, column, asked->low, asked->high, asked->flags, texts);
    for (uint32_t i = 0; i < made.intervals; i++) {
        PyObject *value = PyTuple_GET_ITEM(asked->values, i);
        if (put_interval(records, column, value, value, HIGH_AFTER, texts)) return -1;
    }
    return 0;
}

static void move_texts(Record *record, const Column *columns, size_t by) {
    const Predicate *predicate = first_predicate(record);
    for (uint32_t i = 0; i < record->count; i++, predicate = next_predicate(predicate)) {
        int kind = columns[predicate->column].kind;
        if (kind != TEXT && kind != BYTES) continue;
        Interval *interval = (Interval *)intervals_of(predicate);
        for (uint32_t j = 0; j < predicate->intervals; j++) {
            if (interval[j].low[1] != OPEN) interval[j].low[1] += (int64_t)by << 32;
            if (interval[j].high[1] != OPEN) interval[j].high[1] += (int64_t)by << 32;
        }
    }
}

/* Nothing is added if it fails: ValueError if a constant has no place. */
int records_add(Records *records, const Column *columns, uint32_t number, int32_t residual,
                const Asked *asked, uint32_t count) {
    Records texts = {0};
    size_t begun = records->size;
    Record header = {0, number, residual, count};
    int result = append(records, &header, sizeof header);
    if (result) PyErr_NoMemory();
    for (uint32_t i = 0; i < count && result == 0; i++)
        result = put_predicate(records, columns, asked + i, &texts);
    if (result == 0) {
        size_t by = records->size - begun, padding = -texts.size & 7;
        result = append(records, texts.data, texts.size) || append(records, "\0\0\0\0\0\0\0", padding);
        if (result)
            PyErr_NoMemory();
        else {
            Record *record = (Record *)(records->data + begun);
            record->size = (uint32_t)(records->size - begun);
            move_texts(record, columns, by);
            records->count++;
        }
    }
    if (result) records->size = begun;
    free(texts.data);
    return result ? -1 : 0;
}

/* -- asking -------------------------------------------------------------------------------------- */

static int text_within(const Record *record, const Interval *interval, const Value *value) {
    Py_ssize_t size;
    const char *data;
    if (interval->low[1] != OPEN) {
        data = cut_text(record, interval->low[1], &size);
        if (text_order(value, interval->low[0], data, size) < 0) return 0;
    }
    if (interval->high[1] == OPEN) return 1;
    data = cut_text(record, interval->high[1], &size);
    return text_order(value, interval->high[0], data, size) < 0;
}

static int within_any(const Record *record, const Predicate *predicate, const Value *value) {
    const Interval *interval = intervals_of(predicate);
    if (value->kind > V_TEXT) return 0;
    for (uint32_t i = 0; i < predicate->intervals; i++, interval++) {
        if (value->kind == V_TEXT) {
            if (text_within(record, interval, value)) return 1;
        } else if (interval->low[value->kind] <= value->key &&
                   value->key < interval->high[value->kind])
            return 1;
    }
    return 0;
}

static int is_true(const Column *column, const Value *value) {
    switch (value->kind) {
    case V_TEXT:
        return value->size > 0;
    case V_NAN:
        return 1;
    case V_NONE:
        return 0;
    case V_INT:
        if (column->kind == MEMBER || column->kind == DATE || column->kind == TIME) return 1;
    }
    return value->key != 0;
}

static int holds(const Record *record, const Predicate *predicate, const Column *column,
                 const Value *value) {
    if (value->kind == V_ABSENT) return 0;
    switch (predicate->form) {
    case F_IN:
        return within_any(record, predicate, value) || (predicate->nan_too && value->kind == V_NAN);
    case F_NOT_IN:
        return !within_any(record, predicate, value) &&
               !(predicate->strict && value->kind > V_NAN);
    case F_NONE:
        return value->kind == V_NONE;
    case F_NOT_NONE:
        return value->kind != V_NONE;
    case F_TRUE:
        return is_true(column, value);
    default:
        return !is_true(column, value);
    }
}

int record_check(const Record *record, const Column *columns, const Value *values, uint32_t odd) {
    const Predicate *predicate = first_predicate(record);
    int verdict = YES;
    for (uint32_t i = 0; i < record->count; i++, predicate = next_predicate(predicate)) {
        int column = predicate->column;
        if (odd >> column & 1)
            verdict = DEPENDS;
        else if (!holds(record, predicate, columns + column, values + column))
            return NO;
    }
    return verdict;
}
