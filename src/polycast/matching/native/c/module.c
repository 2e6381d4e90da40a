/* polycast.matching.native._kernel: all of the kernel is one unit, so that it is inlined as one. */
#include "values.c"

#include "records.c"

#include "cuts.c"

#include "scan.c"

#include "boxes.c"

#include "segments.c"

#include "found.c"

#include "reading.c"

#include "keys.c"

#include "building.c"

#include "trees.c"

#include "kernel.c"

#include "columns.c"

#include "dispatch.c"

static PyObject *use_scan(PyObject *module, PyObject *name) {
    const char *text = PyUnicode_AsUTF8(name);
    if (text == NULL) return NULL;
    if (choose_scan(text)) {
        PyErr_Format(PyExc_ValueError, "%R is no way to scan here; best, scalar or avx2 is", name);
        return NULL;
    }
    return PyUnicode_FromString(scan_name());
}

static PyObject *set_absent(PyObject *module, PyObject *arguments) {
    PyObject *missing, *open;
    if (!PyArg_ParseTuple(arguments, "OO", &missing, &open)) return NULL;
    Py_XSETREF(absent, Py_NewRef(missing));
    Py_XSETREF(unset, Py_NewRef(open));
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"use", use_scan, METH_O, "Choose how boxes are scanned: best, scalar, avx2."},
    {"set_nodes", set_nodes, METH_VARARGS, "What the trees of filters are made of."},
    {"hash_tree", hash_tree, METH_O, "The hash of a tree, or None if Python has to find it."},
    {"set_absent", set_absent, METH_VARARGS, "What stands for a value that is missing; or may."},
    {NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "polycast.matching.native._kernel",
    .m_doc = "Many filters at once, in C.",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__kernel(void) {
    if (values_ready() || PyType_Ready(&SegmentType) || PyType_Ready(&KernelType) ||
        PyType_Ready(&DispatchType))
        return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL) return NULL;
    choose_scan("best");
    if (PyModule_AddObjectRef(module, "Kernel", (PyObject *)&KernelType) ||
        PyModule_AddObjectRef(module, "Segment", (PyObject *)&SegmentType) ||
        PyModule_AddObjectRef(module, "Dispatch", (PyObject *)&DispatchType) ||
        PyModule_AddIntConstant(module, "MOST_COLUMNS", MOST_COLUMNS) ||
        PyModule_AddIntConstant(module, "MOST_CUTS", MOST_CUTS) ||
        PyModule_AddIntConstant(module, "MOST_CODES", MOST_CODES))
        Py_CLEAR(module);
    return module;
}
