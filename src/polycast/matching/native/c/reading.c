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

/* Where a slot is in the objects of a class; BY_NAME unless getattr would just read it there. */
static int32_t offset_of(PyTypeObject *type, PyObject *name) {
    PyObject *found = name == NULL ? NULL : _PyType_Lookup(type, name);
    if (found == NULL || !Py_IS_TYPE(found, &PyMemberDescr_Type)) return BY_NAME;
    const PyMemberDescrObject *slot = (PyMemberDescrObject *)found;
    if (type->tp_getattro != PyObject_GenericGetAttr || slot->d_member->type != T_OBJECT_EX ||
        slot->d_member->flags & READ_RESTRICTED || !PyType_IsSubtype(type, PyDescr_TYPE(slot)))
        return BY_NAME;
    return (int32_t)slot->d_member->offset;
}

static const Plan *plan_for(Kernel *kernel, PyTypeObject *type) {
    Plan *plan = kernel->plans + ((uintptr_t)type >> 6) % PLANS;
    unsigned int version = version_of(type);
    if (plan->type == type && plan->version == version && version != 0) return plan;
    for (int i = 0; i < MOST_COLUMNS; i++)
        plan->offsets[i] = i < kernel->count ? offset_of(type, kernel->columns[i].name) : BY_NAME;
    plan->type = type;
    plan->version = version_of(type); /* looking up may have given it one */
    return plan;
}

static int read_by_name(const Column *column, PyObject *event, Value *found) {
    PyObject *value = NULL;
    if (column->name != NULL)
        look_up(event, column->name, &value);
    else
        value = PyObject_CallOneArg(column->reader, event);
    if (value == NULL) {
        found->owner = NULL;
        found->kind = V_ABSENT;
        if (!PyErr_Occurred()) return 0;
        if (!PyErr_ExceptionMatches(PyExc_Exception)) return -1;
        PyErr_Clear();
        return 0;
    }
    int result = classify(column, value, found);
    Py_DECREF(value);
    return result;
}

static inline int read_slot(const Column *column, PyObject *value, Value *found) {
    found->owner = NULL;
    if (value == NULL) {
        found->kind = V_ABSENT;
        return 0;
    }
    if (column->kind == NUMBER && PyFloat_CheckExact(value)) {
        double number = PyFloat_AS_DOUBLE(value);
        found->kind = number != number ? V_NAN : V_FLOAT;
        found->key = number != number ? 0 : float_key(number);
        return 0;
    }
    Py_INCREF(value); /* what decides about it may change the event */
    int result = classify(column, value, found);
    Py_DECREF(value);
    return result;
}

void release_values(Value *values, int count) {
    for (int i = 0; i < count; i++) Py_CLEAR(values[i].owner);
}

/* All columns of an event; `odd` has a bit for each that cannot be decided here. */
int kernel_read(Kernel *kernel, PyObject *event, Value *values, uint32_t *odd) {
    const Plan plan = *plan_for(kernel, Py_TYPE(event)); /* readers may use another one meanwhile */
    int count = kernel->count;
    *odd = 0;
    for (int i = 0; i < count; i++) {
        const Column *column = kernel->columns + i;
        int result;
        if (plan.offsets[i] >= 0 && plan.type == Py_TYPE(event))
            result = read_slot(column, *(PyObject **)((char *)event + plan.offsets[i]), values + i);
        else
            result = read_by_name(column, event, values + i);
        if (result < 0) {
            release_values(values, i);
            return -1;
        }
        *odd |= (uint32_t)(values[i].kind == V_ODD) << i;
    }
    return count;
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
