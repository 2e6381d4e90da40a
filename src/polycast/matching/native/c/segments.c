/* Many conjunctions, built once: each stands on the lists of its most selective predicate.
 *
 * Building needs no interpreter. A segment is never changed; whoever asks one holds a reference.
 */
#include "kernel.h"
#include <stdlib.h>
#include <string.h>

#define WIDE 12       /* lists of the fine level that one may stand on; else on those of the coarse */
#define COARSE 3      /* eight lists of the fine level are one of the coarse level */
#define FULL 12       /* entries that a list should have */
#define PRIOR 16.0    /* the constants count as much as so many events */
#define NOWHERE 0xff

typedef struct {
    uint8_t column[SLOTS], low[SLOTS], high[SLOTS];
    uint16_t doubtful;
    uint8_t anchor_slot, anchor; /* its column, or NOWHERE */
    uint8_t level;
    uint32_t record;
    const Predicate *predicate; /* the anchor */
} Entry;

typedef struct {
    Segment *segment;
    Entry *entries;
    uint32_t seen[MOST_COLUMNS][257]; /* sampled events with a lower code */
    int sampled;
    uint32_t *cursors[MOST_COLUMNS][2], always;
} Build;

/* -- how often a predicate is true ----------------------------------------------------------------- */

static void count_sample(Build *build, const Value *sample) {
    for (int column = 0; column < build->segment->columns; column++) {
        uint32_t *seen = build->seen[column];
        for (int i = 0; i < build->sampled; i++)
            seen[1 + cuts_code(&build->segment->lanes[column].cuts,
                               sample + i * MOST_COLUMNS + column)]++;
        for (int code = 0; code < 256; code++) seen[code + 1] += seen[code];
    }
}

/* Which part of the constants between two cuts lies in an interval. */
static double part(const Cuts *cuts, int code, size_t low, size_t high) {
    int at = code - C_FIRST;
    size_t begin = at == 0 ? 0 : cuts->rank[at - 1];
    size_t end = at == cuts->count ? cuts->many : cuts->rank[at];
    if (end <= begin) return 1.0;
    size_t from = low > begin ? low : begin, to = high < end ? high : end;
    return to > from ? (double)(to - from) / (double)(end - begin) : 0.5 / (double)(end - begin);
}

static double share_of_interval(const Build *build, int column, const Record *record,
                                const Interval *interval) {
    const Cuts *cuts = &build->segment->lanes[column].cuts;
    const uint32_t *seen = build->seen[column];
    int span[2], certain[2];
    size_t low = cuts_rank(cuts, record, interval, 0), high = cuts_rank(cuts, record, interval, 1);
    double prior = ((double)(high > low ? high - low : 0) + 1) / ((double)cuts->many + 2);
    cuts_span(cuts, record, interval, span, certain);
    if (span[0] > span[1]) return 0.0;
    double count = seen[span[1] + 1] - seen[span[0]];
    double first = seen[span[0] + 1] - seen[span[0]], last = seen[span[1] + 1] - seen[span[1]];
    if (!certain[0] || !certain[1]) {
        count -= first * (1 - part(cuts, span[0], low, high));
        if (span[1] > span[0]) count -= last * (1 - part(cuts, span[1], low, high));
    }
    return (count + PRIOR * prior) / (build->sampled + PRIOR);
}

static double share_of(const Build *build, const Record *record, const Predicate *predicate) {
    double share = 0;
    if (predicate->form == F_NONE) {
        const uint32_t *seen = build->seen[predicate->column];
        return (seen[C_NONE + 1] - seen[C_NONE] + 1.0) / (build->sampled + 2.0);
    }
    if (predicate->form != F_IN || predicate->nan_too) return 1.0;
    for (uint32_t i = 0; i < predicate->intervals; i++)
        share += share_of_interval(build, predicate->column, record, intervals_of(predicate) + i);
    return share < 1.0 ? share : 1.0;
}

/* -- boxes ------------------------------------------------------------------------------------------ */

static void put_slot(Entry *entry, int slot, int column, int low, int high) {
    entry->column[slot] = (uint8_t)column;
    entry->low[slot] = (uint8_t)low;
    entry->high[slot] = (uint8_t)high;
}

/* The box around all intervals of a predicate; what it does not tell has to be asked. */
static void box(const Segment *segment, const Record *record, const Predicate *predicate,
                Entry *entry, int slot) {
    int column = predicate->column, low = 256, high = 0, span[2], certain[2] = {1, 1};
    if (predicate->form == F_NONE || predicate->form == F_NOT_NONE) {
        int none = predicate->form == F_NONE;
        put_slot(entry, slot, column, none ? C_NONE : C_OTHER, none ? C_NONE : C_NAN);
        return;
    }
    if (predicate->form != F_IN) {
        put_slot(entry, slot, column, C_OTHER, C_NONE);
        entry->doubtful |= MUST_ASK;
        return;
    }
    for (uint32_t i = 0; i < predicate->intervals; i++) {
        cuts_span(&segment->lanes[column].cuts, record, intervals_of(predicate) + i, span, certain);
        if (span[0] < low) low = span[0];
        if (span[1] > high) high = span[1];
    }
    if (predicate->intervals != 1 || predicate->nan_too) entry->doubtful |= MUST_ASK;
    if (!certain[0]) entry->doubtful |= (uint16_t)(1 << slot);
    if (!certain[1]) entry->doubtful |= (uint16_t)(1 << (SLOTS + slot));
    if (low > high) low = 1, high = 0;
    put_slot(entry, slot, column, low, predicate->nan_too ? C_NAN : high);
}

/* The most selective predicate is the anchor, and stands second; the next are the other slots. */
static void describe(const Build *build, Entry *entry, uint32_t at) {
    const Record *record = record_at(build->segment, at);
    const Predicate *best[SLOTS], *predicate = first_predicate(record);
    double shares[SLOTS];
    uint32_t many = 0;
    memset(entry, 0, sizeof *entry);
    entry->record = at;
    entry->anchor = NOWHERE;
    for (uint32_t i = 0; i < record->count; i++, predicate = next_predicate(predicate)) {
        double share = share_of(build, record, predicate);
        uint32_t place = many < SLOTS ? many++ : SLOTS;
        for (; place > 0 && share < shares[place - 1]; place--)
            if (place < SLOTS) shares[place] = shares[place - 1], best[place] = best[place - 1];
        if (place < SLOTS) shares[place] = share, best[place] = predicate;
    }
    if (many > 1) {
        predicate = best[0], best[0] = best[1], best[1] = predicate;
    }
    if (record->count > SLOTS || record->residual >= 0) entry->doubtful |= MUST_ASK;
    for (uint32_t slot = 0; slot < SLOTS; slot++) put_slot(entry, (int)slot, 0, 0, 255);
    for (uint32_t slot = 0; slot < many; slot++)
        box(build->segment, record, best[slot], entry, (int)slot);
    if (many == 0) return; /* true of every event */
    entry->anchor_slot = many > 1;
    predicate = best[entry->anchor_slot];
    if (predicate->form == F_IN && !predicate->nan_too) {
        entry->anchor = predicate->column;
        entry->predicate = predicate;
    }
}

/* -- lists ------------------------------------------------------------------------------------------ */

/* The list entry with the anchor as narrow as it is there: one of several values is certain. */
static void narrow(const Segment *segment, const Entry *entry, int shift, int list, Entry *here) {
    const Record *record = record_at(segment, entry->record);
    int span[2], certain[2], slot = entry->anchor_slot, meets = 0;
    *here = *entry;
    if (entry->predicate->intervals == 1) return;
    for (uint32_t i = 0; i < entry->predicate->intervals; i++) {
        cuts_span(&segment->lanes[entry->anchor].cuts, record, intervals_of(entry->predicate) + i,
                  span, certain);
        if ((span[0] - C_FIRST) >> shift > list || (span[1] - C_FIRST) >> shift < list) continue;
        if (meets++) {
            *here = *entry;
            return;
        }
        here->low[slot] = (uint8_t)span[0];
        here->high[slot] = (uint8_t)span[1];
        here->doubtful = (uint16_t)((!certain[0]) << slot | (!certain[1]) << (SLOTS + slot));
    }
    int others = entry->doubtful & ~(0x11 << slot) & 0xff;
    here->doubtful |= (uint16_t)others;
    if (record->count > SLOTS || record->residual >= 0) here->doubtful |= MUST_ASK;
    const Predicate *predicate = first_predicate(record);
    for (uint32_t i = 0; i < record->count; i++, predicate = next_predicate(predicate))
        if (predicate != entry->predicate && predicate->form != F_NONE &&
            predicate->form != F_NOT_NONE &&
            (predicate->form != F_IN || predicate->intervals != 1 || predicate->nan_too))
            here->doubtful |= MUST_ASK;
}

static int visit_level(const Segment *segment, const Entry *entry, int shift, uint8_t met[256]) {
    const Record *record = record_at(segment, entry->record);
    int span[2], certain[2], lists = 0;
    memset(met, 0, 256);
    for (uint32_t i = 0; i < entry->predicate->intervals; i++) {
        cuts_span(&segment->lanes[entry->anchor].cuts, record, intervals_of(entry->predicate) + i,
                  span, certain);
        for (int code = span[0]; code <= span[1]; code++) {
            int list = (code - C_FIRST) >> shift;
            lists += !met[list];
            met[list] = 1;
        }
    }
    return lists;
}

static int make_levels(Build *build) {
    Segment *segment = build->segment;
    uint64_t touched[MOST_COLUMNS] = {0}, anchors[MOST_COLUMNS] = {0};
    uint8_t met[256];
    for (size_t i = 0; i < segment->records.count; i++) {
        Entry *entry = build->entries + i;
        if (entry->anchor == NOWHERE) continue;
        int lists = visit_level(segment, entry, 0, met);
        touched[entry->anchor] += (uint64_t)(lists < WIDE ? lists : WIDE);
        anchors[entry->anchor]++;
    }
    for (int column = 0; column < segment->columns; column++) {
        Lane *lane = segment->lanes + column;
        uint64_t codes = (uint64_t)lane->cuts.count + 1, many = anchors[column];
        int shift = 0;
        if (many == 0) continue;
        while (codes >> shift > 1 &&
               (codes >> shift) * FULL > many + ((touched[column] - many) >> shift))
            shift++;
        for (int level = 0; level < 2; level++) {
            lane->levels[level].shift = shift + level * COARSE;
            lane->levels[level].lists = (lane->cuts.count >> lane->levels[level].shift) + 1;
            size_t room = (size_t)lane->levels[level].lists + 1;
            lane->levels[level].first = PyMem_RawCalloc(room, sizeof(uint32_t));
            build->cursors[column][level] = PyMem_RawCalloc(room, sizeof(uint32_t));
            if (!lane->levels[level].first || !build->cursors[column][level]) return -1;
        }
        lane->anchored = PyMem_RawMalloc(many * sizeof(uint32_t));
        if (lane->anchored == NULL) return -1;
    }
    return 0;
}

static void count_entries(Build *build) {
    Segment *segment = build->segment;
    uint8_t met[256];
    for (size_t i = 0; i < segment->records.count; i++) {
        Entry *entry = build->entries + i;
        if (entry->anchor == NOWHERE) {
            build->always++;
            continue;
        }
        Lane *lane = segment->lanes + entry->anchor;
        lane->anchored[lane->anchors++] = entry->record;
        if (visit_level(segment, entry, lane->levels[0].shift, met) > WIDE) {
            entry->level = 1;
            visit_level(segment, entry, lane->levels[1].shift, met);
            lane->count = 2;
        }
        if (lane->count == 0) lane->count = 1;
        for (int list = 0; list < lane->levels[entry->level].lists; list++)
            build->cursors[entry->anchor][entry->level][list] += met[list];
    }
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
        }
    segment->always = blocks;
    segment->entries += build->always;
    segment->blocks = blocks + (build->always + BLOCK - 1) / BLOCK;
    build->always = blocks * BLOCK;
    segment->boxes = aligned_alloc(64, (segment->blocks + 1) * sizeof(Boxes));
    segment->tags = PyMem_RawCalloc(segment->blocks + 1, sizeof(Tags));
    if (segment->boxes == NULL || segment->tags == NULL) return -1;
    memset(segment->boxes, 0, (segment->blocks + 1) * sizeof(Boxes));
    for (size_t block = 0; block < segment->blocks; block++) {
        memset(segment->boxes[block].low, 1, sizeof segment->boxes[block].low); /* none fits */
        for (int i = 0; i < BLOCK; i++) segment->tags[block].doubtful[i] = NOBODY;
    }
    return 0;
}

static void put_entry(Segment *segment, const Entry *entry, uint32_t at) {
    Boxes *boxes = segment->boxes + at / BLOCK;
    Tags *tags = segment->tags + at / BLOCK;
    int i = at % BLOCK;
    for (int slot = 0; slot < SLOTS; slot++) {
        boxes->column[slot][i] = entry->column[slot];
        boxes->low[slot][i] = entry->low[slot];
        boxes->high[slot][i] = entry->high[slot];
    }
    tags->doubtful[i] = entry->doubtful;
    tags->number[i] = record_at(segment, entry->record)->number;
    tags->record[i] = entry->record;
}

static void fill_blocks(Build *build) {
    Segment *segment = build->segment;
    uint8_t met[256];
    Entry here;
    for (size_t i = 0; i < segment->records.count; i++) {
        const Entry *entry = build->entries + i;
        if (entry->anchor == NOWHERE) {
            put_entry(segment, entry, build->always++);
            continue;
        }
        const Level *lists = segment->lanes[entry->anchor].levels + entry->level;
        visit_level(segment, entry, lists->shift, met);
        for (int list = 0; list < lists->lists; list++) {
            if (!met[list]) continue;
            narrow(segment, entry, lists->shift, list, &here);
            put_entry(segment, &here, build->cursors[entry->anchor][entry->level][list]++);
        }
    }
}

/* The blocks that an event of the sample meets, by the column that leads to them. */
static void expect(const Build *build) {
    Segment *segment = build->segment;
    segment->loads[MOST_COLUMNS - 1] = (double)(segment->blocks - segment->always);
    for (int column = 0; column < segment->columns && build->sampled; column++)
        for (int level = 0; level < segment->lanes[column].count; level++) {
            const Level *lists = segment->lanes[column].levels + level;
            for (int code = C_FIRST; code <= C_FIRST + segment->lanes[column].cuts.count; code++) {
                int list = (code - C_FIRST) >> lists->shift;
                double often = build->seen[column][code + 1] - build->seen[column][code];
                segment->loads[column] +=
                    often / build->sampled * (lists->first[list + 1] - lists->first[list]);
            }
        }
}

/* -- building ---------------------------------------------------------------------------------------- */

static int make_cuts(Segment *segment, const Value *sample, int sampled, int most) {
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
        if (cuts_make(&segment->lanes[column].cuts, sample + column, sampled, most)) return -1;
    return 0;
}

static int build_lists(Build *build, const Value *sample, size_t few) {
    Segment *segment = build->segment;
    size_t at = 0;
    count_sample(build, sample);
    for (size_t i = 0; i < segment->records.count; i++) {
        Entry *entry = build->entries + i;
        describe(build, entry, (uint32_t)(at / 8));
        if (segment->records.count <= few) entry->anchor = NOWHERE;
        at += record_at(segment, entry->record)->size;
    }
    if (make_levels(build)) return -1;
    count_entries(build);
    if (make_blocks(build)) return -1;
    fill_blocks(build);
    expect(build);
    return 0;
}

/* From the records that it has: without the interpreter, so nothing of Python's is touched here. */
int segment_build(Segment *segment, const uint8_t *kinds, int columns, const Value *sample,
                  int sampled, Limits limits) {
    Build *build = PyMem_RawCalloc(1, sizeof *build);
    int result = -1;
    segment->columns = columns;
    segment->sampled = sampled;
    segment->lanes = PyMem_RawCalloc(MOST_COLUMNS, sizeof *segment->lanes);
    if (build == NULL || segment->lanes == NULL) goto end;
    for (int column = 0; column < columns; column++)
        segment->lanes[column].cuts.kind = kinds[column];
    build->segment = segment;
    build->sampled = sampled;
    build->entries = PyMem_RawMalloc((segment->records.count + 1) * sizeof *build->entries);
    if (build->entries == NULL || make_cuts(segment, sample, sampled, limits.cuts))
        goto end;
    result = build_lists(build, sample, (size_t)limits.few);
end:
    for (int column = 0; build != NULL && column < columns; column++) {
        PyMem_RawFree(build->cursors[column][0]);
        PyMem_RawFree(build->cursors[column][1]);
        if (segment->lanes != NULL) cuts_forget(&segment->lanes[column].cuts);
    }
    if (build != NULL) PyMem_RawFree(build->entries);
    PyMem_RawFree(build);
    return result;
}

size_t segment_bytes(const Segment *segment) {
    size_t bytes = segment->records.room + segment->blocks * (sizeof(Boxes) + sizeof(Tags));
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
        PyMem_RawFree(lane->levels[0].first);
        PyMem_RawFree(lane->levels[1].first);
        PyMem_RawFree(lane->anchored);
    }
    PyMem_RawFree(segment->lanes);
    free(segment->boxes);
    PyMem_RawFree(segment->tags);
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
