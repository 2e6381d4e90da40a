/* Reading an event: each column once, as getattr would, and a sample of what was read. */
#include "kernel.h"
#include <string.h>
#include <structmember.h>

#define LONGEST 100 /* bytes of a text to learn from */

#if PY_VERSION_HEX >= 0x030d0000
#define look_up PyObject_GetOptionalAttr
#else
#define look_up _PyObject_LookupAttr
#endif

/* A number that no other class has, nor this one after a change; 0 if there is none. */
unsigned int version_of(PyTypeObject *type) {
#if PY_VERSION_HEX < 0x030c0000
    if (!PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG)) return 0;
#endif
    return type->tp_version_tag;
}

/* -- ways: how events of a class are read ---------------------------------------------------------- */

/* Where a slot is in the objects of a class; less than AT_OFFSET unless getattr just reads it there. */
static int32_t offset_of(PyTypeObject *type, PyObject *name) {
    PyObject *found = _PyType_Lookup(type, name);
    if (found == NULL || !Py_IS_TYPE(found, &PyMemberDescr_Type)) return AS_TOLD;
    const PyMemberDescrObject *slot = (PyMemberDescrObject *)found;
    if (type->tp_getattro != PyObject_GenericGetAttr || slot->d_member->type != T_OBJECT_EX ||
        slot->d_member->flags & READ_RESTRICTED || !PyType_IsSubtype(type, PyDescr_TYPE(slot)))
        return AS_TOLD;
    return (int32_t)slot->d_member->offset;
}

/* The number of a name, which is kept for good; -1 if it is no text, or there are too many. */
static int name_number(Kernel *kernel, PyObject *name) {
    if (!PyUnicode_CheckExact(name)) return -1;
    for (int i = 0; i < kernel->named; i++)
        if (PyUnicode_Compare(kernel->names[i], name) == 0) return i;
    if (kernel->named == MOST_NAMES) return -1;
    PyObject *kept = Py_NewRef(name);
    PyUnicode_InternInPlace(&kept);
    kernel->names[kernel->named] = kept;
    return kernel->named++;
}

static int source_number(Plan *plan, int name) {
    for (int i = 0; i < plan->count; i++)
        if (plan->sources[i] == name) return i;
    if (name < 0 || plan->count == MOST_SOURCES) return -1;
    plan->sources[plan->count] = (uint8_t)name;
    return plan->count++;
}

/* A tuple of a key and up to two attributes that are asked for it; without any, the event is. */
static Way way_by_key(Kernel *kernel, Plan *plan, PyObject *seat) {
    Way way = {BY_KEY, 0, {ITSELF, NOWHERE_ELSE}}, as_told = {AS_TOLD};
    Py_ssize_t size = PyTuple_GET_SIZE(seat);
    int key = size < 1 || size > 3 ? -1 : name_number(kernel, PyTuple_GET_ITEM(seat, 0));
    if (key < 0) return as_told;
    way.name = (uint8_t)key;
    for (Py_ssize_t i = 1; i < size; i++) {
        int source = source_number(plan, name_number(kernel, PyTuple_GET_ITEM(seat, i)));
        if (source < 0) return as_told;
        way.sources[i - 1] = (uint8_t)source;
    }
    return way;
}

static Way way_by_attribute(Kernel *kernel, const Plan *plan, PyObject *seat) {
    int name = name_number(kernel, seat);
    if (name < 0) return (Way){AS_TOLD};
    int32_t offset = offset_of(plan->type, kernel->names[name]);
    return (Way){offset < AT_OFFSET ? BY_ATTRIBUTE : offset, (uint8_t)name};
}

/* What `seat` says of a class: an attribute, the way to a key, or None. */
static int seated(Kernel *kernel, Plan *plan, const Column *column, Way *way) {
    PyObject *seat = PyObject_CallOneArg(column->seat, (PyObject *)plan->type);
    if (seat == NULL) {
        if (!is_failure()) return -1;
        PyErr_Clear(); /* whatever the reader says will do */
        return 0;
    }
    if (PyTuple_CheckExact(seat))
        *way = way_by_key(kernel, plan, seat);
    else if (seat != Py_None)
        *way = way_by_attribute(kernel, plan, seat);
    Py_DECREF(seat);
    return 0;
}

/* Asking for seats runs Python, which may use another plan or change the class meanwhile. */
static ASIDE int make_plan(Kernel *kernel, PyTypeObject *type, int place, Plan *plan) {
    if (version_of(type) == 0) _PyType_Lookup(type, any_name); /* that gives it one */
    *plan = (Plan){.type = type, .version = version_of(type)};
    int count = kernel->count;
    for (int i = 0; i < MOST_COLUMNS; i++) {
        const Column *column = kernel->columns + i;
        plan->ways[i].offset = AS_TOLD;
        if (i >= count) continue;
        if (column->name != NULL)
            plan->ways[i].offset = offset_of(type, column->name);
        else if (column->seat != Py_None && plan->version != 0 &&
                 seated(kernel, plan, column, plan->ways + i))
            return -1;
    }
    if (kernel->count == count && plan->version == version_of(type)) kernel->plans[place] = *plan;
    return 0;
}

static inline int plan_for(Kernel *kernel, PyTypeObject *type, Plan *plan) {
    int place = ((uintptr_t)type >> 6) % PLANS;
    unsigned int version = version_of(type);
    *plan = kernel->plans[place];
    if (plan->type == type && plan->version == version && version != 0) return 0;
    return make_plan(kernel, type, place, plan);
}

/* -- reading --------------------------------------------------------------------------------------- */

/* A value that was read, or what went wrong: then it is absent. Takes the reference. */
static int put_read(const Column *column, PyObject *value, Value *found) {
    if (value == NULL) {
        found->owner = NULL;
        found->kind = V_ABSENT;
        if (!PyErr_Occurred()) return 0;
        if (!is_failure()) return -1;
        PyErr_Clear();
        return 0;
    }
    int result = classify(column, value, found); /* what decides about it may change the event */
    Py_DECREF(value);
    return result;
}

static int read_as_told(const Column *column, PyObject *event, Value *found) {
    PyObject *value = NULL;
    if (column->name != NULL)
        look_up(event, column->name, &value);
    else
        value = PyObject_CallOneArg(column->reader, event);
    return put_read(column, value, found);
}

static inline int read_slot(const Column *column, PyObject *event, int32_t offset, Value *found) {
    PyObject *value = *(PyObject **)((char *)event + offset);
    if (value != NULL && column->kind == NUMBER && PyFloat_CheckExact(value)) {
        double number = PyFloat_AS_DOUBLE(value);
        found->owner = NULL;
        found->kind = number != number ? V_NAN : V_FLOAT;
        found->key = number != number ? 0 : float_key(number);
        return 0;
    }
    if (value == unset && column->name == NULL) return read_as_told(column, event, found);
    return put_read(column, Py_XNewRef(value), found);
}

static int read_attribute(const Column *column, PyObject *event, PyObject *name, Value *found) {
    PyObject *value = NULL;
    look_up(event, name, &value);
    if (value != unset) return put_read(column, value, found);
    Py_DECREF(value);
    return read_as_told(column, event, found);
}

/* An attribute that is a dictionary, read once for all columns: borrowed. */
static PyObject *source_of(const Kernel *kernel, const Plan *plan, PyObject *event, int source,
                           PyObject **held) {
    if (source == ITSELF) return event;
    if (held[source] == NULL) {
        look_up(event, kernel->names[plan->sources[source]], held + source);
        if (held[source] == NULL) return NULL;
    }
    return held[source];
}

static int read_by_key(const Kernel *kernel, const Plan *plan, int number, PyObject *event,
                       PyObject **held, Value *found) {
    const Column *column = kernel->columns + number;
    const Way *way = plan->ways + number;
    PyObject *value = NULL;
    for (int i = 0; i < 2 && value == NULL && way->sources[i] != NOWHERE_ELSE; i++) {
        PyObject *source = source_of(kernel, plan, event, way->sources[i], held);
        if (source == NULL && PyErr_Occurred()) break; /* so it is for the reader */
        if (source == NULL || !PyDict_CheckExact(source))
            return read_as_told(column, event, found);
        Py_INCREF(source); /* comparing keys may change the event */
        value = Py_XNewRef(PyDict_GetItemWithError(source, kernel->names[way->name]));
        Py_DECREF(source);
        if (value == NULL && PyErr_Occurred()) break;
    }
    if (value != unset) return put_read(column, value, found);
    Py_DECREF(value);
    return read_as_told(column, event, found);
}

void release_values(Value *values, int count) {
    for (int i = 0; i < count; i++) Py_CLEAR(values[i].owner);
}

static inline int read_column(const Kernel *kernel, const Plan *plan, int number, PyObject *event,
                              PyObject **held, Value *found) {
    const Column *column = kernel->columns + number;
    const Way *way = plan->ways + number;
    if (plan->type != Py_TYPE(event)) return read_as_told(column, event, found); /* since then */
    if (way->offset >= AT_OFFSET) return read_slot(column, event, way->offset, found);
    if (way->offset == BY_KEY) return read_by_key(kernel, plan, number, event, held, found);
    if (way->offset == BY_ATTRIBUTE)
        return read_attribute(column, event, kernel->names[way->name], found);
    return read_as_told(column, event, found);
}

/* All columns of an event; `odd` has a bit for each that cannot be decided here. */
int kernel_read(Kernel *kernel, PyObject *event, Value *values, uint32_t *odd) {
    Plan plan; /* a copy: readers may use another one meanwhile */
    PyObject *held[MOST_SOURCES] = {NULL};
    if (plan_for(kernel, Py_TYPE(event), &plan)) return -1;
    int count = kernel->count, done = 0;
    *odd = 0;
    while (done < count && read_column(kernel, &plan, done, event, held, values + done) == 0) {
        *odd |= (uint32_t)(values[done].kind == V_ODD) << done;
        done++;
    }
    for (int i = 0; i < plan.count; i++) Py_XDECREF(held[i]);
    if (done == count) return count;
    release_values(values, done);
    return -1;
}

/* -- a sample ------------------------------------------------------------------------------------- */

static void keep(Value *kept, const Value *value) {
    free((char *)kept->data);
    *kept = *value;
    kept->owner = NULL;
    kept->data = NULL;
    if (value->kind != V_TEXT) return;
    kept->size = value->size < LONGEST ? value->size : LONGEST;
    char *copy = malloc((size_t)kept->size + 1);
    if (copy == NULL)
        kept->kind = V_ABSENT;
    else
        memcpy(copy, value->data, (size_t)kept->size);
    kept->data = copy;
}

/* The first events, and then one in so many, since the first ones may be alike: a counter, a time.
 * Columns that come later are absent in it. */
void kernel_watch(Kernel *kernel, const Value *values, int count) {
    if (kernel->sample == NULL) return;
    Value *row = kernel->sample + kernel->next;
    for (int column = 0; column < count; column++) keep(row + column * SAMPLE, values + column);
    kernel->next = (kernel->next + 1) % SAMPLE;
    if (kernel->sampled < SAMPLE) kernel->sampled++;
    if (kernel->next == 0 || kernel->sampled == LEARNT) {
        kernel->every = kernel->next ? 16 : 64;
        kernel->attention = 1;
    }
    kernel->until = kernel->every;
}
