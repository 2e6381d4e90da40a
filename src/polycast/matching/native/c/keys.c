/* Who wants what passes a filter: keys by the number of the filter. */
#include "kernel.h"
#include <string.h>

static void drop_key(PyObject *key) {
    if (key != NULL) Py_DECREF(SEVERAL(key));
}

static int room_for(Kernel *kernel, size_t number) {
    if (number < kernel->numbers) return 0;
    size_t room = number + number / 4 + 64;
    PyObject **keys = realloc(kernel->keys, room * sizeof *keys);
    if (keys != NULL) kernel->keys = keys;
    int64_t *ids = realloc(kernel->ids, room * sizeof *ids);
    if (ids != NULL) kernel->ids = ids;
    if (keys == NULL || ids == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (; kernel->numbers < room; kernel->numbers++) {
        keys[kernel->numbers] = NULL;
        ids[kernel->numbers] = NOT_ONE;
    }
    return 0;
}

static int64_t id_of(PyObject *key) {
    int overflow = 0;
    if (key == NULL || IS_SEVERAL(key) || !PyLong_CheckExact(key)) return NOT_ONE;
    int64_t id = PyLong_AsLongLongAndOverflow(key, &overflow);
    return overflow ? NOT_ONE : id;
}

/* set_key(number, key, several): a key; a container of several of them; or None of them. */
static PyObject *set_key(Kernel *kernel, PyObject *arguments) {
    Py_ssize_t number;
    PyObject *key;
    int several;
    if (!PyArg_ParseTuple(arguments, "nOi", &number, &key, &several)) return NULL;
    if (number < 0 || number > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "more filters than there are numbers");
        return NULL;
    }
    if (room_for(kernel, (size_t)number)) return NULL;
    PyObject *old = kernel->keys[number];
    if (several < 0)
        kernel->keys[number] = NULL;
    else
        kernel->keys[number] = (PyObject *)((uintptr_t)Py_NewRef(key) | (several ? 1 : 0));
    kernel->ids[number] = id_of(kernel->keys[number]);
    drop_key(old);
    Py_RETURN_NONE;
}

static int append_keys(const Kernel *kernel, const uint32_t *numbers, size_t count,
                       PyObject *into) {
    for (size_t i = 0; i < count; i++) {
        PyObject *key = numbers[i] < kernel->numbers ? kernel->keys[numbers[i]] : NULL;
        if (key == NULL) continue;
        if (!IS_SEVERAL(key)) {
            if (PyList_Append(into, key)) return -1;
            continue;
        }
        key = Py_NewRef(SEVERAL(key));
        PyObject *several = PySequence_List(key);
        Py_DECREF(key);
        if (several == NULL) return -1;
        int result = PyList_SetSlice(into, PY_SSIZE_T_MAX, PY_SSIZE_T_MAX, several);
        Py_DECREF(several);
        if (result) return -1;
    }
    return 0;
}

/* In one step: nothing of it runs in Python, so no key changes meanwhile. */
static PyObject *list_of_keys(const Kernel *kernel, const uint32_t *numbers, size_t count) {
    PyObject *list = PyList_New((Py_ssize_t)count);
    if (list == NULL) return NULL;
    for (size_t i = 0; i < count; i++)
        if (numbers[i] < kernel->numbers) FETCH(kernel->keys + numbers[i]);
    for (size_t i = 0; i < count; i++)
        if (numbers[i] < kernel->numbers) FETCH(kernel->keys[numbers[i]]);
    for (size_t i = 0; i < count; i++) {
        PyObject *key = numbers[i] < kernel->numbers ? kernel->keys[numbers[i]] : NULL;
        if (key == NULL || IS_SEVERAL(key)) {
            Py_DECREF(list);
            list = PyList_New(0);
            if (list != NULL && append_keys(kernel, numbers, count, list)) Py_CLEAR(list);
            return list;
        }
        PyList_SET_ITEM(list, (Py_ssize_t)i, Py_NewRef(key));
    }
    return list;
}
