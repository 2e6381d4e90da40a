/* Many conjunctions, built once: each stands on the lists of its most selective predicate.
 *
 * Building needs no interpreter. A segment is never changed; whoever asks one holds a reference.
 */
#include "kernel.h"
#include <string.h>

#define WIDE 12       /* lists of the fine level that one may stand on; else on those of the coarse */
#define COARSE 3      /* eight lists of the fine level are one of the coarse level */
#define FULL 16       /* entries that a list should have */
/* -- lists ------------------------------------------------------------------------------------------ */

static int first_list(const Entry *entry, int shift) {
    return entry->first >> shift;
}

static int last_list(const Entry *entry, int shift) {
    return entry->last >> shift;
}

static int lists_of(const Entry *entry, int shift) {
    return last_list(entry, shift) - first_list(entry, shift) + 1;
}

static int make_level(Build *build, int column, int level, int shift) {
    Lane *lane = build->segment->lanes + column;
    Level *made = lane->levels + level;
    made->shift = shift;
    made->lists = (lane->cuts.count >> shift) + 1;
    size_t room = (size_t)made->lists + 1;
    made->first = calloc(room, sizeof(uint32_t));
    build->cursors[column][level] = calloc(room, sizeof(uint32_t));
    return made->first == NULL || build->cursors[column][level] == NULL ? -1 : 0;
}

/* Lists so coarse that they are not nearly empty. */
static int make_levels(Build *build) {
    Segment *segment = build->segment;
    uint64_t touched[MOST_COLUMNS] = {0}, many[MOST_COLUMNS] = {0};
    for (size_t i = 0; i < build->count; i++) {
        const Entry *entry = build->entries + i;
        if (entry->anchor == NOWHERE) continue;
        int lists = lists_of(entry, 0);
        touched[entry->anchor] += (uint64_t)(lists < WIDE ? lists : WIDE);
        many[entry->anchor]++;
    }
    for (int column = 0; column < segment->columns; column++) {
        uint64_t codes = (uint64_t)segment->lanes[column].cuts.count + 1;
        int shift = 0;
        if (many[column] == 0) continue;
        while (codes >> shift > 1 && (codes >> shift) * FULL >
                                         many[column] + ((touched[column] - many[column]) >> shift))
            shift++;
        for (int level = 0; level < LEVELS; level++)
            if (make_level(build, column, level, shift + level * COARSE)) return -1;
    }
    return 0;
}

static void count_entries(Build *build) {
    Segment *segment = build->segment;
    for (size_t i = 0; i < build->count; i++) {
        Entry *entry = build->entries + i;
        if (entry->anchor == NOWHERE) {
            build->always++;
            continue;
        }
        Lane *lane = segment->lanes + entry->anchor;
        while (entry->level < LEVELS - 1 &&
               lists_of(entry, lane->levels[entry->level].shift) > WIDE)
            entry->level++;
        if (lane->count <= entry->level) lane->count = entry->level + 1;
        int shift = lane->levels[entry->level].shift;
        uint32_t *cursors = build->cursors[entry->anchor][entry->level];
        for (int list = first_list(entry, shift); list <= last_list(entry, shift); list++)
            cursors[list]++;
    }
}

/* All records that are anchored on a column, for values that have no place in it. */
static int list_anchored(Build *build) {
    Segment *segment = build->segment;
    size_t many[MOST_COLUMNS] = {0}, at = 0;
    for (size_t i = 0; i < build->described; i++)
        if (build->anchor_of[i] != NOWHERE) many[build->anchor_of[i]]++;
    for (int column = 0; column < segment->columns; column++)
        if (many[column] && (segment->lanes[column].anchored = malloc(
                                 many[column] * sizeof(uint32_t))) == NULL)
            return -1;
    for (size_t i = 0; i < build->described; i++) {
        uint32_t record = (uint32_t)(at / 8);
        if (build->anchor_of[i] != NOWHERE) {
            Lane *lane = segment->lanes + build->anchor_of[i];
            lane->anchored[lane->anchors++] = record;
        }
        at += record_at(segment, record)->size;
    }
    return 0;
}

static int make_blocks(Build *build) {
    Segment *segment = build->segment;
    uint32_t blocks = 0;
    for (int column = 0; column < segment->columns; column++)
        for (int level = 0; level < segment->lanes[column].count; level++) {
            Level *lists = segment->lanes[column].levels + level;
            for (int list = 0; list < lists->lists; list++) {
                uint32_t *cursor = build->cursors[column][level] + list;
                lists->first[list] = blocks;
                segment->entries += *cursor;
                blocks += (*cursor + BLOCK - 1) / BLOCK;
                *cursor = lists->first[list] * BLOCK;
            }
            lists->first[lists->lists] = blocks;
            segment->doors[segment->entrances++] =
                (Door){lists->first, (uint8_t)column, (uint8_t)lists->shift};
        }
    segment->always = blocks;
    segment->entries += build->always;
    segment->blocks = blocks + (build->always + BLOCK - 1) / BLOCK;
    build->always = blocks * BLOCK;
    segment->boxes = aligned_alloc(64, (segment->blocks + 1) * sizeof(Boxes));
    segment->tags = aligned_alloc(64, (segment->blocks + 1) * BLOCK * sizeof(Tag));
    if (segment->boxes == NULL || segment->tags == NULL) return -1;
    memset(segment->boxes, 0, (segment->blocks + 1) * sizeof(Boxes));
    for (size_t block = 0; block < segment->blocks; block++)
        memset(segment->boxes[block].low, 1, sizeof segment->boxes[block].low); /* none fits */
    for (size_t i = 0; i < segment->blocks * BLOCK; i++) segment->tags[i] = (Tag){0, 0, NOBODY, 0, 0};
    return 0;
}

static void put_entry(Segment *segment, const Entry *entry, uint32_t at) {
    Boxes *boxes = segment->boxes + at / BLOCK;
    int i = at % BLOCK;
    for (int slot = 0; slot < SLOTS; slot++) {
        boxes->column[slot][i] = entry->column[slot];
        boxes->low[slot][i] = entry->low[slot];
        boxes->high[slot][i] = entry->high[slot];
    }
    uint32_t number = record_at(segment, entry->record)->number;
    segment->tags[at] =
        (Tag){number, entry->record, entry->doubtful, entry->first, entry->last};
}

static void fill_blocks(Build *build) {
    Segment *segment = build->segment;
    for (size_t i = 0; i < build->count; i++) {
        const Entry *entry = build->entries + i;
        if (entry->anchor == NOWHERE) {
            put_entry(segment, entry, build->always++);
            continue;
        }
        int shift = segment->lanes[entry->anchor].levels[entry->level].shift;
        uint32_t *cursors = build->cursors[entry->anchor][entry->level];
        for (int list = first_list(entry, shift); list <= last_list(entry, shift); list++)
            put_entry(segment, entry, cursors[list]++);
    }
}

/* The blocks that an event of the sample meets, by the column that leads to them. */
static void expect(const Build *build, const Value *sample) {
    Segment *segment = build->segment;
    segment->loads[MOST_COLUMNS - 1] = (double)(segment->blocks - segment->always);
    for (int column = 0; column < segment->columns; column++)
        for (int level = 0; level < segment->lanes[column].count; level++) {
            const Cuts *cuts = &segment->lanes[column].cuts;
            const Level *lists = segment->lanes[column].levels + level;
            for (int i = 0; i < build->sampled; i++) {
                uint8_t code;
                int place = cuts_place(cuts, sample + column * SAMPLE + i, &code);
                if (place == NO_PLACE) continue;
                const uint32_t *first = lists->first + (place >> lists->shift);
                segment->loads[column] += (double)(first[1] - first[0]) / build->sampled;
            }
        }
}

/* -- building ---------------------------------------------------------------------------------------- */

static int make_cuts(Segment *segment, const Value *sample, int sampled, Limits limits) {
    const char *at = segment->records.data;
    for (size_t i = 0; i < segment->records.count; i++) {
        const Record *record = (const Record *)at;
        const Predicate *predicate = first_predicate(record);
        for (uint32_t j = 0; j < record->count; j++, predicate = next_predicate(predicate)) {
            segment->used |= (uint32_t)1 << predicate->column;
            if (cuts_collect(&segment->lanes[predicate->column].cuts, record, predicate)) return -1;
        }
        at += record->size;
    }
    for (int column = 0; column < segment->columns; column++)
        if (cuts_make(&segment->lanes[column].cuts, sample + column * SAMPLE, sampled, limits.cuts,
                      limits.codes))
            return -1;
    return 0;
}

static int build_lists(Build *build, const Value *sample, size_t few) {
    Segment *segment = build->segment;
    size_t at = 0;
    count_sample(build, sample);
    for (size_t i = 0; i < segment->records.count; i++) {
        uint32_t record = (uint32_t)(at / 8);
        if (describe(build, record, segment->records.count > few)) return -1;
        at += record_at(segment, record)->size;
    }
    if (list_anchored(build) || make_levels(build)) return -1;
    count_entries(build);
    if (make_blocks(build)) return -1;
    fill_blocks(build);
    expect(build, sample);
    return 0;
}

/* From the records that it has: without the interpreter, so nothing of Python's is touched here. */
int segment_build(Segment *segment, const uint8_t *kinds, int columns, const Value *sample,
                  int sampled, Limits limits) {
    Build *build = calloc(1, sizeof *build);
    int result = -1;
    segment->columns = columns;
    segment->sampled = sampled;
    segment->lanes = calloc(MOST_COLUMNS, sizeof *segment->lanes);
    if (build == NULL || segment->lanes == NULL) goto end;
    for (int column = 0; column < columns; column++)
        segment->lanes[column].cuts.kind = kinds[column];
    build->segment = segment;
    build->sampled = sampled;
    build->anchor_of = malloc(segment->records.count + 1);
    if (build->anchor_of == NULL || make_cuts(segment, sample, sampled, limits))
        goto end;
    result = build_lists(build, sample, (size_t)limits.few);
end:
    for (int column = 0; build != NULL && column < columns; column++) {
        for (int level = 0; level < LEVELS; level++) free(build->cursors[column][level]);
        if (segment->lanes != NULL) cuts_forget(&segment->lanes[column].cuts);
    }
    if (build != NULL) free(build->entries), free(build->anchor_of);
    free(build);
    return result;
}

size_t segment_bytes(const Segment *segment) {
    size_t bytes = segment->records.room + segment->blocks * (sizeof(Boxes) + BLOCK * sizeof(Tag));
    for (int column = 0; column < segment->columns; column++) {
        const Lane *lane = segment->lanes + column;
        bytes += cuts_bytes(&lane->cuts) + lane->anchors * sizeof(uint32_t);
        for (int level = 0; level < lane->count; level++)
            bytes += (size_t)lane->levels[level].lists * sizeof(uint32_t);
    }
    return bytes;
}

static void segment_dealloc(Segment *segment) {
    for (int column = 0; segment->lanes != NULL && column < segment->columns; column++) {
        Lane *lane = segment->lanes + column;
        cuts_free(&lane->cuts);
        for (int level = 0; level < LEVELS; level++) free(lane->levels[level].first);
        free(lane->anchored);
    }
    free(segment->lanes);
    free(segment->boxes);
    free(segment->tags);
    records_free(&segment->records);
    PyObject_Free(segment);
}

static PyObject *segment_facts(Segment *segment, void *closure) {
    return Py_BuildValue("{snsnsnsi}", "conjunctions", (Py_ssize_t)segment->records.count,
                         "entries", (Py_ssize_t)segment->entries, "bytes",
                         (Py_ssize_t)segment_bytes(segment), "sampled", segment->sampled);
}

static PyObject *segment_loads(Segment *segment, void *closure) {
    PyObject *loads = PyTuple_New(MOST_COLUMNS);
    for (int i = 0; loads != NULL && i < MOST_COLUMNS; i++) {
        PyObject *load = PyFloat_FromDouble(segment->loads[i]);
        if (load == NULL)
            Py_CLEAR(loads);
        else
            PyTuple_SET_ITEM(loads, i, load);
    }
    return loads;
}

static Py_ssize_t segment_length(PyObject *self) {
    return (Py_ssize_t)((Segment *)self)->records.count;
}

static PySequenceMethods as_sequence = {.sq_length = segment_length};
static PyGetSetDef getters[] = {
    {"facts", (getter)segment_facts, NULL, "Sizes, and how many events were learnt from.", NULL},
    {"loads", (getter)segment_loads, NULL, "Blocks that an event should meet, by column.", NULL},
    {NULL},
};

PyTypeObject SegmentType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "polycast.matching.native._kernel.Segment",
    .tp_basicsize = sizeof(Segment),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "Conjunctions that are matched together; never changed.",
    .tp_dealloc = (destructor)segment_dealloc,
    .tp_as_sequence = &as_sequence,
    .tp_getset = getters,
};
