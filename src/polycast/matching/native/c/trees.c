/* Filters that need no Python: one `and` of comparisons of attributes of the event with numbers or
 * ASCII texts, as most are. They become records straight from the tree, with the same predicates
 * that Python would make of them. Python takes all others.
 *
 * Nothing here runs Python code or makes an object that the collector tracks.
 */
#include "kernel.h"
#include <string.h>

#define MOST_PARTS 16
#define LONGEST_TEXT 100000
#define MOST_EXACT ((long long)1 << 53) /* beyond, a float may lie between two integers */

/* A class of nodes, and where the slots that are read here lie. */
typedef struct {
    PyTypeObject *type;
    int32_t at[3];
} Class;

static Class and_class, compare_class, call_class, constant_class, attribute_class, event_class;

/* What a tree asks, before its attributes are columns. */
typedef struct {
    Asked asked[MOST_PARTS];
    PyObject *names[MOST_PARTS]; /* of the attributes */
    int kinds[MOST_PARTS];       /* of the constants */
    int count;
    uint64_t hash[4];
} Plain;

/* -- a hash that senders of constants cannot foresee: SipHash-1-3 ------------------------------------ */

static uint64_t hash_keys[2];

static inline uint64_t rotated(uint64_t word, int by) { return word << by | word >> (64 - by); }

static inline void hash_round(uint64_t v[4]) {
    v[0] += v[1], v[1] = rotated(v[1], 13) ^ v[0], v[0] = rotated(v[0], 32);
    v[2] += v[3], v[3] = rotated(v[3], 16) ^ v[2];
    v[0] += v[3], v[3] = rotated(v[3], 21) ^ v[0];
    v[2] += v[1], v[1] = rotated(v[1], 17) ^ v[2], v[2] = rotated(v[2], 32);
}

static inline void hash_begin(uint64_t v[4]) {
    v[0] = hash_keys[0] ^ 0x736f6d6570736575u, v[1] = hash_keys[1] ^ 0x646f72616e646f6du;
    v[2] = hash_keys[0] ^ 0x6c7967656e657261u, v[3] = hash_keys[1] ^ 0x7465646279746573u;
}

static inline void hash_put(uint64_t v[4], uint64_t word) {
    v[3] ^= word;
    hash_round(v);
    v[0] ^= word;
}

static inline uint64_t hash_end(uint64_t v[4]) {
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++) hash_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* -- parts of a tree: -1 is a tree for Python ------------------------------------------------------- */

static inline PyObject *slot_of(PyObject *node, const Class *class, int slot) {
    return Py_TYPE(node) == class->type ? *(PyObject **)((char *)node + class->at[slot]) : NULL;
}

static int hash_number(Plain *plain, char kind, uint64_t bits) {
    hash_put(plain->hash, (uint64_t)kind);
    hash_put(plain->hash, bits);
    return NUMBER;
}

/* The kind of a constant, whose type counts too: 1, 1.0 and True are three constants. */
static int read_value(Plain *plain, PyObject *value) {
    if (PyUnicode_CheckExact(value)) {
        if (!PyUnicode_IS_ASCII(value) || PyUnicode_GET_LENGTH(value) > LONGEST_TEXT) return -1;
        hash_number(plain, 't', (uint64_t)PyObject_Hash(value));
        return TEXT;
    }
    if (PyFloat_CheckExact(value)) {
        uint64_t bits;
        double number = PyFloat_AS_DOUBLE(value);
        memcpy(&bits, &number, sizeof bits);
        return number != number ? -1 : hash_number(plain, 'f', bits);
    }
    if (PyLong_CheckExact(value)) {
        int overflow;
        long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
        int exact = !overflow && number <= MOST_EXACT && number >= -MOST_EXACT;
        return exact ? hash_number(plain, 'i', (uint64_t)number) : -1;
    }
    return PyBool_Check(value) ? hash_number(plain, 'b', value == Py_True) : -1;
}

static int read_values(Plain *plain, PyObject *values) {
    int kind = -1;
    Py_ssize_t size = PyTuple_CheckExact(values) ? PyTuple_GET_SIZE(values) : 0;
    if (size > MOST_PARTS) return -1;
    hash_put(plain->hash, (uint64_t)size);
    for (Py_ssize_t i = 0; i < size; i++) {
        int other = read_value(plain, PyTuple_GET_ITEM(values, i));
        if (other < 0 || (i > 0 && other != kind)) return -1;
        kind = other;
    }
    return kind;
}

/* The name of an attribute of the event itself. */
static PyObject *read_name(Plain *plain, PyObject *node) {
    PyObject *of = slot_of(node, &attribute_class, 0), *name = slot_of(node, &attribute_class, 1);
    if (of == NULL || Py_TYPE(of) != event_class.type) return NULL;
    if (name == NULL || !PyUnicode_CheckExact(name)) return NULL;
    hash_put(plain->hash, (uint64_t)PyObject_Hash(name));
    return name;
}

enum { IS_LESS = 1, IS_MORE = 2, OR_EQUAL = 4, EQUALS = 8, DIFFERS = 16, AMONG = 32 };

static int read_sign(Plain *plain, PyObject *sign) {
    if (!PyUnicode_CheckExact(sign) || !PyUnicode_IS_ASCII(sign)) return 0;
    const char *text = (const char *)PyUnicode_1BYTE_DATA(sign);
    int found = strcmp(text, "in") == 0 ? AMONG
                : text[0] == '<'        ? IS_LESS
                : text[0] == '>'        ? IS_MORE
                : text[0] == '='        ? EQUALS
                : text[0] == '!'        ? DIFFERS
                                        : 0;
    if (found <= IS_MORE && found && text[1] == '=') found |= OR_EQUAL;
    hash_put(plain->hash, (uint64_t)found);
    return found;
}

/* The sign and the right side of the link of a comparison. */
static PyObject *read_link(Plain *plain, PyObject *rest, Py_ssize_t number, int *sign) {
    PyObject *link = PyTuple_GET_ITEM(rest, number);
    if (!PyTuple_CheckExact(link) || PyTuple_GET_SIZE(link) != 2) return NULL;
    *sign = read_sign(plain, PyTuple_GET_ITEM(link, 0));
    return *sign ? PyTuple_GET_ITEM(link, 1) : NULL;
}

static int put_bound(Asked *asked, int sign, PyObject *value) {
    if (sign & IS_LESS) {
        asked->high = value;
        asked->flags |= sign & OR_EQUAL ? HIGH_AFTER : 0;
    } else {
        asked->low = value;
        asked->flags |= sign & OR_EQUAL ? 0 : LOW_AFTER;
    }
    return 0;
}

/* `name sign value` */
static int put_comparison(Plain *plain, PyObject *name, int sign, PyObject *value) {
    Asked *asked = plain->asked + plain->count;
    int kind = sign == AMONG ? read_values(plain, value) : read_value(plain, value);
    if (name == NULL || kind < 0) return -1;
    *asked = (Asked){.form = sign == DIFFERS ? F_NOT_IN : F_IN};
    plain->names[plain->count] = name;
    plain->kinds[plain->count++] = kind;
    if (sign < EQUALS) return put_bound(asked, sign, value);
    if (sign == AMONG)
        asked->values = value;
    else
        asked->low = asked->high = value, asked->flags = HIGH_AFTER;
    return 0;
}

/* `value sign name`, which is read the other way round. */
static int mirrored(int sign) { return sign & (IS_LESS | IS_MORE) ? sign ^ (IS_LESS | IS_MORE) : sign; }

/* `first sign name other last`: both signs point the same way. */
static int put_enclosed(Plain *plain, PyObject *first, PyObject *rest) {
    int sign, other, place = plain->count;
    PyObject *middle = read_link(plain, rest, 0, &sign);
    PyObject *name = middle == NULL ? NULL : read_name(plain, middle);
    if (name == NULL || put_comparison(plain, name, mirrored(sign), first)) return -1;
    PyObject *last = read_link(plain, rest, 1, &other);
    PyObject *value = last == NULL ? NULL : slot_of(last, &constant_class, 0);
    if (value == NULL || sign >= EQUALS || (sign ^ other) & ~OR_EQUAL) return -1;
    if (read_value(plain, value) != plain->kinds[place]) return -1;
    return put_bound(plain->asked + place, other, value);
}

static int read_compare(Plain *plain, PyObject *node) {
    PyObject *first = slot_of(node, &compare_class, 0), *rest = slot_of(node, &compare_class, 1);
    int sign;
    if (first == NULL || rest == NULL || !PyTuple_CheckExact(rest)) return -1;
    PyObject *known = slot_of(first, &constant_class, 0);
    hash_put(plain->hash, (uint64_t)PyTuple_GET_SIZE(rest) << 1 | (known != NULL));
    if (PyTuple_GET_SIZE(rest) == 2) return known == NULL ? -1 : put_enclosed(plain, known, rest);
    if (PyTuple_GET_SIZE(rest) != 1) return -1;
    PyObject *right = read_link(plain, rest, 0, &sign);
    if (right == NULL) return -1;
    if (known != NULL)
        return sign == AMONG ? -1
                             : put_comparison(plain, read_name(plain, right), mirrored(sign), known);
    PyObject *value = slot_of(right, &constant_class, 0);
    return value == NULL ? -1 : put_comparison(plain, read_name(plain, first), sign, value);
}

/* `name.startswith(prefix)`: texts with a prefix lie between it and its successor. */
static int read_call(Plain *plain, PyObject *node) {
    PyObject *of = slot_of(node, &call_class, 0), *method = slot_of(node, &call_class, 1);
    PyObject *arguments = slot_of(node, &call_class, 2);
    if (of == NULL || method == NULL || arguments == NULL) return -1;
    if (!PyUnicode_CheckExact(method) || PyUnicode_CompareWithASCIIString(method, "startswith"))
        return -1;
    if (!PyTuple_CheckExact(arguments) || PyTuple_GET_SIZE(arguments) != 1) return -1;
    PyObject *prefix = slot_of(PyTuple_GET_ITEM(arguments, 0), &constant_class, 0);
    hash_put(plain->hash, 'p');
    int place = plain->count;
    if (prefix == NULL || put_comparison(plain, read_name(plain, of), EQUALS, prefix)) return -1;
    Py_ssize_t size = plain->kinds[place] == TEXT ? PyUnicode_GET_LENGTH(prefix) : 0;
    if (size == 0 || PyUnicode_1BYTE_DATA(prefix)[size - 1] >= 0x7f) return -1;
    plain->asked[place].flags = HIGH_FOLLOWS;
    return 0;
}

static int read_part(Plain *plain, PyObject *node) {
    if (Py_TYPE(node) == compare_class.type) return read_compare(plain, node);
    return Py_TYPE(node) == call_class.type ? read_call(plain, node) : -1;
}

static int read_tree(Plain *plain, PyObject *tree) {
    plain->count = 0;
    hash_begin(plain->hash);
    PyObject *parts = slot_of(tree, &and_class, 0);
    if (parts == NULL) return read_part(plain, tree);
    if (!PyTuple_CheckExact(parts) || PyTuple_GET_SIZE(parts) > MOST_PARTS) return -1;
    hash_put(plain->hash, (uint64_t)PyTuple_GET_SIZE(parts));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts); i++)
        if (read_part(plain, PyTuple_GET_ITEM(parts, i))) return -1;
    return 0;
}

/* -- a tree as a record ------------------------------------------------------------------------------ */

static int plain_column(const Kernel *kernel, PyObject *name, int kind) {
    for (int i = 0; i < kernel->count; i++) {
        const Column *column = kernel->columns + i;
        if (!column->plain || column->kind != kind) continue;
        if (column->name == name || PyUnicode_Compare(column->name, name) == 0) return i;
    }
    return -1;
}

static int is_bound(const Asked *asked) {
    return asked->form == F_IN && asked->values == NULL &&
           (asked->low == NULL) != (asked->high == NULL);
}

/* Two bounds of one column are one interval. */
static int joins(Asked *known, const Asked *asked) {
    if (!is_bound(known) || !is_bound(asked) || known->column != asked->column) return 0;
    if ((known->low == NULL) == (asked->low == NULL)) return 0;
    if (known->low == NULL)
        known->low = asked->low;
    else
        known->high = asked->high;
    known->flags |= asked->flags;
    return 1;
}

static int repeats(PyObject *values) {
    for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(values); i++)
        for (Py_ssize_t j = 0; j < i; j++) {
            PyObject *one = PyTuple_GET_ITEM(values, j), *other = PyTuple_GET_ITEM(values, i);
            if (PyObject_RichCompareBool(one, other, Py_EQ)) return 1;
        }
    return 0;
}

/* The columns of all parts; -1 if one is not there yet, or a value is there twice: that is for
 * Python to see to. */
static int find_columns(const Kernel *kernel, Plain *plain) {
    int kept = 0;
    for (int i = 0; i < plain->count; i++) {
        Asked asked = plain->asked[i];
        int joined = 0;
        asked.column = plain_column(kernel, plain->names[i], plain->kinds[i]);
        if (asked.column < 0 || (asked.values != NULL && repeats(asked.values))) return -1;
        for (int known = 0; known < kept && !joined; known++)
            joined = joins(plain->asked + known, &asked);
        if (!joined) plain->asked[kept++] = asked;
    }
    plain->count = kept;
    return 0;
}

/* take(number, tree): whether it was taken, as the one conjunction of that filter. */
static PyObject *take_tree(Kernel *kernel, PyObject *const *arguments, Py_ssize_t count) {
    Plain plain;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "a number and a tree are needed");
        return NULL;
    }
    Py_ssize_t number = PyLong_AsSsize_t(arguments[0]);
    if (number == -1 && PyErr_Occurred()) return NULL;
    if (read_tree(&plain, arguments[1]) || find_columns(kernel, &plain)) Py_RETURN_FALSE;
    if (put_record(kernel, number, NO_RESIDUAL, plain.asked, (uint32_t)plain.count)) return NULL;
    Py_RETURN_TRUE;
}

/* hash_tree(tree): equal for equal trees; None for a tree that is not read here. */
static PyObject *hash_tree(PyObject *module, PyObject *tree) {
    Plain plain;
    if (read_tree(&plain, tree)) Py_RETURN_NONE;
    return PyLong_FromSsize_t((Py_ssize_t)(hash_end(plain.hash) >> 1));
}

static int know(Class *class, PyObject *type, const char *const *names) {
    if (!PyType_Check(type)) {
        PyErr_SetString(PyExc_TypeError, "a class of nodes is needed");
        return -1;
    }
    class->type = NULL;
    for (int i = 0; i < 3 && names[i] != NULL; i++) {
        PyObject *name = PyUnicode_InternFromString(names[i]);
        if (name == NULL) return -1;
        class->at[i] = offset_of((PyTypeObject *)type, name);
        Py_DECREF(name);
        if (class->at[i] < AT_OFFSET) return 0; /* no such tree is read here */
    }
    class->type = (PyTypeObject *)Py_NewRef(type);
    return 0;
}

/* set_nodes(And, Compare, Call, Constant, Attribute, Event, key, key): what trees are made of. */
static PyObject *set_nodes(PyObject *module, PyObject *arguments) {
    static Class *const classes[] = {&and_class,      &compare_class,   &call_class,
                                     &constant_class, &attribute_class, &event_class};
    static const char *const names[][3] = {{"parts"}, {"first", "rest"}, {"of", "method", "arguments"},
                                           {"value"}, {"of", "name"},    {NULL}};
    PyObject *types[6];
    unsigned long long one, two;
    if (!PyArg_ParseTuple(arguments, "OOOOOOKK", types, types + 1, types + 2, types + 3, types + 4,
                          types + 5, &one, &two))
        return NULL;
    for (int i = 0; i < 6; i++)
        if (know(classes[i], types[i], names[i])) return NULL;
    hash_keys[0] = one;
    hash_keys[1] = two;
    Py_RETURN_NONE;
}
