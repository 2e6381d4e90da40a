/* What an event has in a column: a key that is ordered as Python orders the values.
 *
 * Only values of exact built-in classes get one. For all others a domain decides in Python; what it
 * does not decide is odd, and the filters themselves are asked.
 */
#include "kernel.h"
#include <datetime.h>
#include <string.h>

PyObject *absent, *unset, *any_name;

int values_ready(void) {
    PyDateTime_IMPORT;
    any_name = PyUnicode_InternFromString("__class__");
    return PyDateTimeAPI == NULL || any_name == NULL ? -1 : 0;
}

/* Integers that are ordered like the floats; -0.0 is 0.0, and NaN has none. */
int64_t float_key(double number) {
    int64_t bits;
    number += 0.0;
    memcpy(&bits, &number, sizeof bits);
    if (bits == INT64_MIN) bits = 0;
    return bits ^ ((bits >> 63) & INT64_MAX);
}

double float_of_key(int64_t key) {
    int64_t bits = key ^ ((key >> 63) & INT64_MAX);
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* The first eight bytes, as a number that is ordered like them. */
int64_t text_key(const char *data, Py_ssize_t size) {
    unsigned char first[8] = {0};
    uint64_t key = 0;
    memcpy(first, data, size < 8 ? (size_t)size : 8);
    for (int i = 0; i < 8; i++) key = key << 8 | first[i];
    return (int64_t)(key ^ (uint64_t)1 << 63);
}

int text_order(const Value *value, int64_t key, const char *data, Py_ssize_t size) {
    if (value->key != key) return value->key < key ? -1 : 1;
    Py_ssize_t shorter = value->size < size ? value->size : size;
    int order = shorter > 8 ? memcmp(value->data + 8, data + 8, (size_t)shorter - 8) : 0;
    if (order) return order;
    return (value->size > size) - (value->size < size);
}

static void put_text(Value *found, PyObject *owner, const char *data, Py_ssize_t size) {
    found->kind = V_TEXT;
    found->key = text_key(data, size);
    found->data = data;
    found->size = size;
    found->owner = Py_NewRef(owner);
}

static void put_integer(Value *found, int64_t key) {
    found->kind = key == INT64_MAX ? V_ODD : V_INT; /* half-open intervals have no end for it */
    found->key = key;
}

static void place_integer(PyObject *value, Value *found) {
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow)
        found->kind = V_ODD;
    else
        put_integer(found, number);
}

static void place_float(double number, Value *found) {
    found->kind = number != number ? V_NAN : V_FLOAT;
    found->key = number != number ? 0 : float_key(number);
}

/* UTF-8 is ordered as the code points are; lone surrogates have none. */
static void place_text(PyObject *value, Value *found) {
    Py_ssize_t size;
    const char *data = PyUnicode_AsUTF8AndSize(value, &size);
    if (data == NULL) {
        PyErr_Clear();
        found->kind = V_ODD;
    } else
        put_text(found, value, data, size);
}

static int64_t packed_date(PyObject *value) {
    return ((int64_t)PyDateTime_GET_YEAR(value) * 16 + PyDateTime_GET_MONTH(value)) * 32 +
           PyDateTime_GET_DAY(value);
}

static int64_t packed_time(PyObject *value) {
    int64_t key = packed_date(value) * 32 + PyDateTime_DATE_GET_HOUR(value);
    key = (key * 64 + PyDateTime_DATE_GET_MINUTE(value)) * 64 + PyDateTime_DATE_GET_SECOND(value);
    return key * 1048576 + PyDateTime_DATE_GET_MICROSECOND(value);
}

static int place_duration(PyObject *value, Value *found) {
    int64_t days = PyDateTime_DELTA_GET_DAYS(value);
    if (days > 100000000 || days < -100000000) {
        found->kind = V_ODD;
        return 1;
    }
    int64_t seconds = days * 86400 + PyDateTime_DELTA_GET_SECONDS(value);
    put_integer(found, seconds * 1000000 + PyDateTime_DELTA_GET_MICROSECONDS(value));
    return 1;
}

/* The place of a value among those of a kind; 0 if its class is another one. */
int place_of(int kind, PyObject *value, Value *found) {
    switch (kind) {
    case NUMBER:
        if (PyFloat_CheckExact(value))
            place_float(PyFloat_AS_DOUBLE(value), found);
        else if (PyLong_CheckExact(value))
            place_integer(value, found);
        else if (PyBool_Check(value))
            put_integer(found, value == Py_True);
        else
            return 0;
        return 1;
    case TEXT:
        if (!PyUnicode_CheckExact(value)) return 0;
        place_text(value, found);
        return 1;
    case BYTES:
        if (!PyBytes_CheckExact(value)) return 0;
        put_text(found, value, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value));
        return 1;
    case DATE:
        if (!PyDate_CheckExact(value)) return 0;
        put_integer(found, packed_date(value));
        return 1;
    case TIME: /* only without a zone */
        if (!PyDateTime_CheckExact(value) || ((PyDateTime_DateTime *)value)->hastzinfo) return 0;
        put_integer(found, packed_time(value));
        return 1;
    case DURATION:
        return PyDelta_CheckExact(value) ? place_duration(value, found) : 0;
    case BOOLEAN:
        if (!PyBool_Check(value)) return 0;
        put_integer(found, value == Py_True);
        return 1;
    }
    return 0;
}

static int place_in(const Column *column, PyObject *value, Value *found) {
    if (column->kind != MEMBER) return place_of(column->kind, value, found);
    if ((PyObject *)Py_TYPE(value) != column->of) return 0;
    put_integer(found, (int64_t)(uintptr_t)value);
    return 1;
}

/* As polycast.errors.failures says for this thread: all but what is for the program, as Ctrl-C. */
static int is_failure(void) {
    static PyObject *failures_here = NULL;
    if (PyErr_ExceptionMatches(PyExc_Exception)) return 1;
    PyObject *kind, *value, *trace, *failures = NULL;
    PyErr_Fetch(&kind, &value, &trace);
    if (failures_here == NULL) {
        PyObject *module = PyImport_ImportModule("polycast.errors.failures");
        if (module != NULL) failures_here = PyObject_GetAttrString(module, "failures_here");
        Py_XDECREF(module);
    }
    if (failures_here != NULL) failures = PyObject_CallNoArgs(failures_here);
    int matches = failures != NULL && PyErr_GivenExceptionMatches(kind, failures);
    Py_XDECREF(failures);
    PyErr_Restore(kind, value, trace); /* without the module, it is the program that ends */
    return matches;
}

/* What was raised makes a value odd, unless it is to stop the program. */
static int make_odd(Value *found) {
    if (!is_failure()) return -1;
    PyErr_Clear();
    found->kind = V_ODD;
    return 0;
}

static int put_other(PyObject *value, Value *found) {
    int truth = PyObject_IsTrue(value);
    if (truth < 0) return make_odd(found);
    found->kind = V_OTHER;
    found->key = truth;
    return 0;
}

static int put_foreign(const Column *column, PyObject *value, Value *found) {
    PyObject *plain = NULL, *loose = NULL;
    int result;
    if (column->asks_loosely && (loose = PyObject_CallOneArg(column->loose, value)) == NULL)
        return make_odd(found);
    plain = PyObject_CallOneArg(column->coerce, value);
    if (plain == NULL)
        result = make_odd(found);
    else if (plain == absent) { /* `!=` of a signalling NaN fails */
        found->kind = loose == NULL ? V_OTHER : V_ODD;
        found->key = 1;
        result = 0;
    } else {
        result = 0;
        if (!place_in(column, plain, found)) found->kind = V_ODD;
    }
    Py_XDECREF(plain);
    Py_XDECREF(loose);
    return result;
}

/* Never keeps more of a value than the text it points into; -1 with an exception to pass on. */
int classify(const Column *column, PyObject *value, Value *found) {
    found->owner = NULL;
    if (place_in(column, value, found)) return 0;
    if (value == Py_None) {
        found->kind = V_NONE;
        return 0;
    }
    if (value == absent) {
        found->kind = V_ABSENT;
        return 0;
    }
    int never = PySet_Contains(column->never, (PyObject *)Py_TYPE(value));
    if (never < 0) return make_odd(found);
    return never ? put_other(value, found) : put_foreign(column, value, found);
}
