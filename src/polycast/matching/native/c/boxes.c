/* Conjunctions as boxes of bytes, and which of their predicates leads to them. */
#include "kernel.h"
#include <stdlib.h>
#include <string.h>

#define PRIOR 16.0   /* the constants count as much as so many events */
#define MOST_BOXES 8 /* of one conjunction and one span of its anchor */

/* -- how often a predicate is true ----------------------------------------------------------------- */

void count_sample(Build *build, const Value *sample) {
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

static int order_of_spans(const void *one, const void *other) {
    return ((const Span *)one)->low - ((const Span *)other)->low;
}

/* The spans of codes that a predicate allows, in order: no two touch the same code. */
static int spans_of(const Segment *segment, const Record *record, const Predicate *predicate,
                    Span *spans) {
    const Cuts *cuts = &segment->lanes[predicate->column].cuts;
    int count = 0, kept = 0, span[2], certain[2];
    for (uint32_t i = 0; i < predicate->intervals; i++) {
        cuts_span(cuts, record, intervals_of(predicate) + i, span, certain);
        if (span[0] > span[1]) continue; /* nothing is in it */
        spans[count++] = (Span){(uint8_t)span[0], (uint8_t)span[1],
                                (uint8_t)((certain[0] ? 0 : 1) | (certain[1] ? 0 : 2))};
    }
    qsort(spans, (size_t)count, sizeof *spans, order_of_spans);
    for (int i = 0; i < count; i++) {
        if (kept && spans[i].low <= spans[kept - 1].high) {
            if (spans[i].high > spans[kept - 1].high) spans[kept - 1].high = spans[i].high;
            spans[kept - 1].doubtful = 4;
        } else
            spans[kept++] = spans[i];
    }
    return kept;
}

/* The same for any form; what a box does not tell has to be asked. */
static int allowed(const Segment *segment, const Record *record, const Predicate *predicate,
                   Span *spans) {
    switch (predicate->form) {
    case F_NONE:
        spans[0] = (Span){C_NONE, C_NONE, 0};
        return 1;
    case F_NOT_NONE:
        spans[0] = (Span){C_OTHER, C_NAN, 0};
        return 1;
    case F_IN:
        if (!predicate->nan_too) return spans_of(segment, record, predicate, spans);
    }
    spans[0] = (Span){C_OTHER, C_NONE, 4};
    return 1;
}

/* So many spans that they would be too many boxes: one around them. */
static void enclose(Span *spans, int *count) {
    spans[0].high = spans[*count - 1].high;
    spans[0].doubtful = 4;
    *count = 1;
}

static Entry *new_entry(Build *build) {
    if (build->count == build->room) {
        size_t room = build->room + build->room / 2 + 64;
        Entry *entries = PyMem_RawRealloc(build->entries, room * sizeof *entries);
        if (entries == NULL) return NULL;
        build->entries = entries;
        build->room = room;
    }
    return build->entries + build->count++;
}

static int put_box(Build *build, const Shape *shape, const int chosen[SLOTS]) {
    Entry *entry = new_entry(build);
    if (entry == NULL) return -1;
    *entry = shape->common;
    for (int slot = 0; slot < SLOTS; slot++) {
        int used = slot < shape->slots;
        Span span = used ? shape->spans[slot][chosen[slot]] : (Span){0, 255, 0};
        entry->column[slot] = used ? shape->predicate[slot]->column : 0;
        entry->low[slot] = span.low;
        entry->high[slot] = span.high;
        entry->doubtful |= (span.doubtful & 1) << slot | (span.doubtful >> 1 & 1) << (SLOTS + slot);
        if (span.doubtful & 4) entry->doubtful |= MUST_ASK;
    }
    return 0;
}

/* A box for each choice of spans: for no event more than one of them is true. */
static int put_boxes(Build *build, const Shape *shape) {
    int chosen[SLOTS] = {0};
    for (int slot = 0; slot < shape->slots; slot++)
        if (shape->counts[slot] == 0) return 0; /* never true, unless a value is odd */
    while (1) {
        int slot = 0;
        if (put_box(build, shape, chosen)) return -1;
        while (slot < shape->slots && ++chosen[slot] == shape->counts[slot]) chosen[slot++] = 0;
        if (slot == shape->slots) return 0;
    }
}

/* -- anchors ---------------------------------------------------------------------------------------- */

/* The most selective predicates of a conjunction, in order. */
static void rank_predicates(const Build *build, const Record *record, Shape *shape) {
    const Predicate *predicate = first_predicate(record);
    double shares[SLOTS];
    shape->slots = 0;
    for (uint32_t i = 0; i < record->count; i++, predicate = next_predicate(predicate)) {
        double share = share_of(build, record, predicate);
        int place = shape->slots < SLOTS ? shape->slots++ : SLOTS;
        for (; place > 0 && share < shares[place - 1]; place--)
            if (place < SLOTS) {
                shares[place] = shares[place - 1];
                shape->predicate[place] = shape->predicate[place - 1];
            }
        if (place < SLOTS) {
            shares[place] = share;
            shape->predicate[place] = predicate;
        }
    }
}

/* The anchor stands second: where lists are long, the next predicate tells more than it. */
static void choose_anchor(Shape *shape) {
    const Predicate *best = shape->predicate[0];
    shape->common.anchor = NOWHERE;
    if (shape->slots == 0) return;
    if (shape->slots > 1) {
        shape->predicate[0] = shape->predicate[1];
        shape->predicate[1] = best;
        shape->common.anchor_slot = 1;
    }
    if (best->form == F_IN && !best->nan_too) shape->common.anchor = best->column;
}

/* A conjunction as boxes. */
int describe(Build *build, uint32_t at, int anchored) {
    Segment *segment = build->segment;
    const Record *record = record_at(segment, at);
    Shape *shape = &build->shape;
    int boxes = 1;
    memset(&shape->common, 0, sizeof shape->common);
    shape->common.record = at;
    rank_predicates(build, record, shape);
    choose_anchor(shape);
    if (record->count > SLOTS || record->residual >= 0) shape->common.doubtful = MUST_ASK;
    for (int slot = 0; slot < shape->slots; slot++) {
        int *count = shape->counts + slot;
        *count = allowed(segment, record, shape->predicate[slot], shape->spans[slot]);
        int is_anchor = shape->common.anchor != NOWHERE && slot == shape->common.anchor_slot;
        if (*count > 1 && (!anchored || !is_anchor) && boxes * *count > MOST_BOXES)
            enclose(shape->spans[slot], count);
        if (!is_anchor) boxes *= *count;
    }
    if (!anchored) shape->common.anchor = NOWHERE;
    build->anchor_of[build->described++] = shape->common.anchor;
    return put_boxes(build, shape);
}
