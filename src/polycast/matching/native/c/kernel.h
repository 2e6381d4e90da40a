/* The matching kernel: what its files share.
 *
 * An event is read into a Value for each column. A Segment holds conjunctions as records, which
 * answer exactly, and as boxes of bytes, which rule most of them out sixteen at a time.
 *
 * Memory is the C library's: much of it is taken without the interpreter, and tracemalloc takes its
 * lock for each piece of Python's, or ends with the program if it is stopped meanwhile.
 */
#ifndef POLYCAST_KERNEL_H
#define POLYCAST_KERNEL_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>

#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#define ASIDE __attribute__((noinline)) /* so that what is around it stays small */
#else
#define INLINE static inline
#define ASIDE
#endif

#define MOST_COLUMNS 32
#define SLOTS 4       /* predicates of a conjunction that stand in its box */
#define BLOCK 16      /* boxes that are asked at once */
#define MOST_CUTS 16383 /* of one column: between them are the places of its values */
#define MOST_CODES 249 /* some places next to each other have one code, a byte */
#define LEVELS 3

/* -- values.c: what an event has in a column ---------------------------------------------------- */

enum { NUMBER, TEXT, BYTES, MEMBER, DATE, TIME, DURATION, BOOLEAN };       /* kinds of columns */
enum { V_FLOAT, V_INT, V_TEXT, V_NAN, V_NONE, V_OTHER, V_ABSENT, V_ODD }; /* kinds of values */

typedef struct {
    int64_t key; /* in the order of the values: see float_key, text_key */
    const char *data;
    Py_ssize_t size;
    PyObject *owner; /* keeps `data` alive */
    uint8_t kind;
} Value;

typedef struct {
    PyObject *name;   /* of an attribute of the event; or NULL, and */
    PyObject *reader; /* a function of the event; and */
    PyObject *seat;   /* of a class: where that reads, if it only looks it up; see way_of */
    PyObject *never;  /* a frozenset of classes whose values are V_OTHER */
    PyObject *coerce; /* of an instance of another class: a plain value, ABSENT, or it raises */
    PyObject *loose;  /* whether it can be asked for its truth and for `!=` */
    PyObject *of;     /* the class of a MEMBER */
    uint8_t kind;
    uint8_t asks_loosely;
    uint8_t plain; /* an attribute of the event, compared as Python's numbers or texts */
} Column;

int64_t float_key(double number);
double float_of_key(int64_t key);
int64_t text_key(const char *data, Py_ssize_t size);
int text_order(const Value *value, int64_t key, const char *data, Py_ssize_t size);
int place_of(int kind, PyObject *value, Value *found);
int classify(const Column *column, PyObject *value, Value *found);
int values_ready(void);
extern PyObject *absent; /* what a missing attribute is */
extern PyObject *unset;  /* a value that only readers judge */
extern PyObject *any_name;

/* -- records.c: one conjunction, exactly ------------------------------------------------------- */

enum { F_IN, F_NOT_IN, F_NONE, F_NOT_NONE, F_TRUE, F_FALSE }; /* forms of predicates */
enum { NO, YES, DEPENDS };                                    /* on a column that is odd */

/* A half-open interval: of float keys [0] and of integers [1]. Of texts, [0] is the key and [1]
 * tells where in the record the whole text is; OPEN has no bound. */
typedef struct {
    int64_t low[2], high[2];
} Interval;

#define OPEN (-1)

typedef struct {
    uint8_t column, form, nan_too;
    uint8_t strict; /* F_NOT_IN of values of the column's kind only */
    uint32_t intervals; /* that follow */
} Predicate;

typedef struct {
    uint32_t size;     /* of all of it, in bytes; a multiple of 8 */
    uint32_t number;   /* of the filter */
    int32_t residual;  /* what else to ask, by number; -1 is nothing */
    uint32_t count;    /* of predicates, which follow; then the bytes of texts */
} Record;

typedef struct {
    char *data;
    size_t size, room;
    size_t count;
} Records;

/* What a predicate asks of a column: an interval, or one or none of some values. Borrowed. */
typedef struct {
    int column, form, flags;
    PyObject *low, *high; /* NULL is no bound */
    PyObject *values;     /* a tuple, or NULL */
} Asked;

enum { LOW_AFTER = 1, HIGH_AFTER = 2, NAN_TOO = 4, STRICT = 8 };
#define HIGH_FOLLOWS 16 /* the high end is what follows all texts that begin with the low one */
#define NO_RESIDUAL (-1)

int records_add(Records *records, const Column *columns, uint32_t number, int32_t residual,
                const Asked *asked, uint32_t count);
int records_copy(Records *records, const Record *record);
void records_free(Records *records);
int record_check(const Record *record, const Column *columns, const Value *values, uint32_t odd);

static inline const Predicate *first_predicate(const Record *record) {
    return (const Predicate *)(record + 1);
}
static inline const Interval *intervals_of(const Predicate *predicate) {
    return (const Interval *)(predicate + 1);
}
static inline const Predicate *next_predicate(const Predicate *predicate) {
    return (const Predicate *)(intervals_of(predicate) + predicate->intervals);
}
static inline const char *cut_text(const Record *record, int64_t where, Py_ssize_t *size) {
    *size = (Py_ssize_t)(where & 0xffffffff);
    return (const char *)record + (where >> 32);
}

/* -- cuts.c: the values of a column in places and codes ------------------------------------------ */

/* C_APART: a float where integers are expected. */
#define NO_PLACE (-1)
enum { C_OTHER = 0, C_FIRST = 1, C_NAN = 250, C_NONE = 251, C_APART = 254, C_ABSENT = 255 };

typedef struct {
    int64_t at[2];
    const char *data; /* of a text */
    Py_ssize_t size;
} Cut;

typedef struct {
    Cut *cuts; /* in order; texts stand in the records of the segment */
    int64_t *steps[2]; /* the same as bare numbers; of texts only the first, see `shared` */
    int count;
    uint8_t kind;
    uint8_t integral; /* only integers are expected: floats have no code */
    uint8_t *code_of; /* each place */
    int last_code;
    Cut *all; /* every end of an interval, while a segment is built */
    size_t many, room;
    uint32_t *rank; /* how many of all come before each code but the first */
    uint32_t *before; /* how many of all come before each cut; and all */
    /* Where to begin to look: a grid of cells over the integers, or texts, and over the floats. */
    uint16_t *of_integers, *of_floats;
    int64_t least, last;
    int shift, cells;
    double floor, ceiling, scale;
    Py_ssize_t shared; /* bytes that all cuts of texts begin with: steps are of what follows */
} Cuts;

int cuts_collect(Cuts *cuts, const Record *record, const Predicate *predicate);
int cuts_make(Cuts *cuts, const Value *sample, int sampled, int most, int codes);
void cuts_forget(Cuts *cuts); /* what only building needs */
void cuts_free(Cuts *cuts);
size_t cuts_bytes(const Cuts *cuts);
/* The place of a value; or its code, if that is NO_PLACE. */
static inline int cuts_place(const Cuts *cuts, const Value *value, uint8_t *code);
/* The places that an interval touches; whether the first and the last are wholly in it; and how many
 * ends of intervals come before its low and its high end. */
typedef struct {
    int span[2], certain[2];
    size_t rank[2];
} Ends;

void cuts_span(const Cuts *cuts, const Record *record, const Interval *interval, Ends *ends);

static inline int is_textual(int kind) { return kind == TEXT || kind == BYTES; }

/* -- scan.c: sixteen boxes at once -------------------------------------------------------------- */

typedef struct {
    uint8_t column[SLOTS][BLOCK], low[SLOTS][BLOCK], high[SLOTS][BLOCK];
} Boxes;

typedef struct {
    uint32_t number;   /* of the filter */
    uint32_t record;   /* where, in units of 8 bytes */
    uint32_t doubtful; /* see below */
    uint16_t first, last; /* places of its anchor that lead to it */
} Tag;

/* Bits of `doubtful`: at the code of its low end, a predicate may be true or not, by slot; at that
 * of its high end; and the same for the places of the anchor, whose first and last follow. */
#define LOW_ENDS 0x0f
#define HIGH_ENDS 0xf0
#define AT_FIRST 0x40000000
#define AT_LAST 0x80000000

#define MUST_ASK 0x100 /* in any case */
#define NOBODY 0x200 /* an empty place */

/* Blocks that an event was led to by a column. */
typedef struct {
    uint32_t from, to;
    uint32_t end; /* of the hits in them, among all hits */
    uint8_t column;
} Range;

#define AT_ONCE 128 /* blocks that are scanned before their hits are looked at */
#define MOST_HITS (AT_ONCE * BLOCK + 2) /* scanning may write two more than it finds */

/* The boxes that the codes fit into; `wide`: there are more than 16 columns. */
extern void (*scan)(const Boxes *boxes, Range *ranges, int count, const uint8_t *codes, int wide,
                    uint32_t *hits);
int choose_scan(const char *name);
const char *scan_name(void);

/* -- segments.c: many conjunctions, each on the lists of its anchor ----------------------------- */

typedef struct {
    int shift, lists;
    uint32_t *first; /* block of each list, and the end */
} Level;

typedef struct {
    Cuts cuts;
    Level levels[LEVELS];
    int count; /* of levels with anything on them */
    uint32_t *anchored; /* records, for values that are odd or unexpected: they have no place */
    size_t anchors;
} Lane;

/* A level of a lane, where an event goes in. */
typedef struct {
    const uint32_t *first;
    uint8_t column, shift;
} Door;

typedef struct {
    PyObject_HEAD
    Records records;
    Lane *lanes;
    Door doors[MOST_COLUMNS * LEVELS];
    int entrances;
    int columns;
    uint32_t used; /* columns that any predicate asks */
    Boxes *boxes;
    Tag *tags; /* of each box */
    size_t blocks, always; /* the last list: conjunctions without an anchor */
    size_t entries;
    double loads[MOST_COLUMNS]; /* blocks that an event should meet; what always is met is last */
    int sampled;
} Segment;

extern PyTypeObject SegmentType;

#if defined(__GNUC__)
#define FETCH(address) __builtin_prefetch(address)
#else
#define FETCH(address) ((void)(address))
#endif

static inline const Record *record_at(const Segment *segment, uint32_t at) {
    return (const Record *)(segment->records.data + (size_t)at * 8);
}
typedef struct {
    int few;   /* conjunctions that are asked one after the other */
    int cuts;  /* at most, of one column */
    int codes; /* the same */
} Limits;

int segment_build(Segment *segment, const uint8_t *kinds, int columns, const Value *sample,
                  int sampled, Limits limits);
size_t segment_bytes(const Segment *segment);

/* -- boxes.c: conjunctions while a segment is built ---------------------------------------------- */

#define NOWHERE 0xff
#define MOST_INTERVALS 256 /* of one predicate */

typedef struct {
    uint8_t column[SLOTS], low[SLOTS], high[SLOTS];
    uint8_t anchor_slot, anchor; /* its column, or NOWHERE */
    uint8_t level;
    uint32_t doubtful;
    uint16_t first, last;        /* places of the anchor */
    uint32_t record;
} Entry;

typedef struct {
    uint16_t first, last; /* places */
    uint8_t low, high;    /* codes */
    uint8_t doubtful;     /* bits: the low end, the high end, all of it; 3 bits up, by place */
} Span;

typedef struct {
    const Predicate *predicate[SLOTS];
    Span spans[SLOTS][MOST_INTERVALS];
    int counts[SLOTS];
    double shares[SLOTS];
    int slots;
    Entry common;
} Shape;

typedef struct {
    Segment *segment;
    Entry *entries;
    size_t count, room;
    uint8_t *anchor_of; /* each record */
    size_t described;
    uint32_t seen[MOST_COLUMNS][257]; /* sampled events with a lower code */
    int sampled;
    uint32_t *cursors[MOST_COLUMNS][LEVELS], always;
    Shape shape;
} Build;

void count_sample(Build *build, const Value *sample);
int describe(Build *build, uint32_t at, int anchored);

/* -- found.c: what is found for one event -------------------------------------------------------- */

typedef struct {
    uint32_t *numbers;
    size_t count, room;
    uint32_t *asked; /* numbers of filters and what else to ask of them, in pairs */
    size_t asks, asks_room;
    uint32_t local[256];
} Found;

void found_begin(Found *found);
void found_end(Found *found);
int found_put(Found *found, uint32_t number);
int found_ask(Found *found, uint32_t number, uint32_t what);

/* The values of an event in the terms of a segment. */
typedef struct {
    int16_t places[MOST_COLUMNS + 1]; /* the last: of what has no anchor */
    uint8_t codes[MOST_COLUMNS];
    uint32_t apart; /* columns where a float came and integers were expected */
} Encoded;

/* The values themselves, which are needed only where their codes do not tell. */
typedef struct {
    const Value *(*values)(void *of);
    void *of;
} Event;

void encode(const Segment *segment, const Value *values, Encoded *encoded);
int segment_find(const Segment *segment, const Column *columns, Event event,
                 const Encoded *encoded, Found *found, uint32_t anchors, size_t *asked);
int segment_find_odd(const Segment *segment, const Column *columns, const Value *values,
                     uint32_t odd, Found *sure, Found *unsure);

/* -- kernel.c, columns.c, dispatch.c: what Python sees -------------------------------------------- */

/* How a column is read: AT_OFFSET or more is where a slot is. */
enum { AS_TOLD = -3, BY_ATTRIBUTE, BY_KEY, AT_OFFSET };
enum { ITSELF = 254, NOWHERE_ELSE }; /* sources, beside those of a plan */
#define MOST_SOURCES 4
#define MOST_NAMES 128

typedef struct {
    int32_t offset;
    uint8_t name;       /* by number: of an attribute, or the key */
    uint8_t sources[2]; /* BY_KEY: dictionaries to look it up in */
} Way;

typedef struct {
    PyTypeObject *type; /* not owned: no two classes ever have the same version */
    unsigned int version;
    uint8_t sources[MOST_SOURCES], count; /* names of attributes that are dictionaries */
    Way ways[MOST_COLUMNS];
} Plan;

#define PLANS 4
#define SAMPLE 1024 /* events to learn from */
#define LEARNT 256 /* of them are enough to begin with */

typedef struct {
    PyObject_HEAD
    Column columns[MOST_COLUMNS];
    int count;
    PyObject **keys; /* by the number of a filter; tagged, a tuple or dict of several */
    int64_t *ids; /* the same, if it is one, and a number of 64 bits; else NOT_ONE */
    size_t numbers;
    char whole; /* all keys are such numbers */
    PyObject *residuals; /* a list of functions */
    PyObject *elsewhere; /* asked about events with odd values */
    Records pending;
    PyObject *segments; /* a tuple */
    Limits limits;
    Plan plans[PLANS];
    PyObject *names[MOST_NAMES]; /* that plans have the numbers of */
    int named;
    Py_ssize_t readers;
    char direct;    /* nothing has to be asked elsewhere */
    char attention; /* enough has been seen to look at the anchors again */
    Value *sample;  /* SAMPLE values of each column; their texts are copies */
    int sampled, next, every, until;
    uint64_t events, blocks; /* since this was last looked at */
} Kernel;

extern PyTypeObject KernelType, DispatchType;
unsigned int version_of(PyTypeObject *type);
/* How many values were read, -1 with an exception; what is read may add columns meanwhile. */
int kernel_read(Kernel *kernel, PyObject *event, Value *values, uint32_t *odd);
void release_values(Value *values, int count);
void kernel_watch(Kernel *kernel, const Value *values, int count);
PyObject *kernel_match(Kernel *kernel, PyObject *event);
PyObject *kernel_match_many(Kernel *kernel, PyObject *events);
PyObject *kernel_match_columns(Kernel *kernel, PyObject *arguments);
PyObject *kernel_keys_for(Kernel *kernel, PyObject *arguments);

#define NOT_ONE INT64_MIN
#define IS_SEVERAL(key) ((uintptr_t)(key) & 1)
#define SEVERAL(key) ((PyObject *)((uintptr_t)(key) & ~(uintptr_t)1))

#endif
