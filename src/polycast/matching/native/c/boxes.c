/* Conjunctions as boxes of bytes, and which of their predicates leads to them. */
#include "kernel.h"
#include <string.h>

#define PRIOR 16.0   /* the constants count as much as so many events */
#define WHOLLY 4
#define BY_PLACE 8
#define MOST_BOXES 8 /* of one conjunction and one span of its anchor */
#define ASKING 64.0  /* asking a record takes as long as asking so many boxes */

/* -- how often a predicate is true ----------------------------------------------------------------- */

void count_sample(Build *build, const Value *sample) {
    for (int column = 0; column < build->segment->columns; column++) {
        uint32_t *seen = build->seen[column];
        const Cuts *cuts = &build->segment->lanes[column].cuts;
        for (int i = 0; i < build->sampled; i++) {
            uint8_t code;
            cuts_place(cuts, sample + column * SAMPLE + i, &code);
            seen[1 + code]++;
        }
        for (int code = 0; code < 256; code++) seen[code + 1] += seen[code];
    }
}

/* Which part of the constants of a code lies in an interval. */
static double part(const Cuts *cuts, int code, size_t low, size_t high) {
    size_t begin = code == C_FIRST ? 0 : cuts->rank[code - C_FIRST - 1];
    size_t end = code == cuts->last_code ? cuts->many : cuts->rank[code - C_FIRST];
    if (end <= begin) return 1.0;
    size_t from = low > begin ? low : begin, to = high < end ? high : end;
    return to > from ? (double)(to - from) / (double)(end - begin) : 0.5 / (double)(end - begin);
}

static double share_of_interval(const Build *build, int column, const Record *record,
                                const Interval *interval) {
    const Cuts *cuts = &build->segment->lanes[column].cuts;
    const uint32_t *seen = build->seen[column];
    Ends ends;
    cuts_span(cuts, record, interval, &ends);
    size_t low = ends.rank[0], high = ends.rank[1];
    double prior = ((double)(high > low ? high - low : 0) + 1) / ((double)cuts->many + 2);
    if (ends.span[0] > ends.span[1]) return 0.0;
    int first = cuts->code_of[ends.span[0]], last = cuts->code_of[ends.span[1]];
    double count = seen[last + 1] - seen[first];
    count -= (seen[first + 1] - seen[first]) * (1 - part(cuts, first, low, high));
    if (last > first) count -= (seen[last + 1] - seen[last]) * (1 - part(cuts, last, low, high));
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
    return ((const Span *)one)->first - ((const Span *)other)->first;
}

/* A span of places, in codes: an end is doubtful if it is so by place, or if the code has more. */
static Span span_between(const Cuts *cuts, const Ends *ends) {
    const int *span = ends->span, *certain = ends->certain;
    Span made = {(uint16_t)span[0], (uint16_t)span[1], cuts->code_of[span[0]],
                 cuts->code_of[span[1]], 0};
    int whole[2] = {span[0] == 0 || cuts->code_of[span[0] - 1] != made.low,
                    span[1] == cuts->count || cuts->code_of[span[1] + 1] != made.high};
    for (int end = 0; end < 2; end++) {
        if (!certain[end]) made.doubtful |= (uint8_t)(BY_PLACE << end);
        if (!certain[end] || !whole[end]) made.doubtful |= (uint8_t)(1 << end);
    }
    return made;
}

/* The spans that a predicate allows, in order: no two touch the same place, or `by_code` code. */
static int spans_of(const Segment *segment, const Record *record, const Predicate *predicate,
                    Span *spans, int by_code) {
    const Cuts *cuts = &segment->lanes[predicate->column].cuts;
    int count = 0, kept = 0;
    Ends ends;
    for (uint32_t i = 0; i < predicate->intervals; i++) {
        cuts_span(cuts, record, intervals_of(predicate) + i, &ends);
        if (ends.span[0] <= ends.span[1]) spans[count++] = span_between(cuts, &ends);
    }
    qsort(spans, (size_t)count, sizeof *spans, order_of_spans);
    for (int i = 0; i < count; i++) {
        Span *last = spans + kept - 1;
        if (kept && (by_code ? spans[i].low <= last->high : spans[i].first <= last->last)) {
            if (spans[i].last > last->last) last->last = spans[i].last, last->high = spans[i].high;
            last->doubtful = WHOLLY | WHOLLY * BY_PLACE;
        } else
            spans[kept++] = spans[i];
    }
    return kept;
}

/* The same for any form; what a box does not tell has to be asked. */
static int allowed(const Segment *segment, const Record *record, const Predicate *predicate,
                   Span *spans, int by_code) {
    switch (predicate->form) {
    case F_NONE:
        spans[0] = (Span){0, 0, C_NONE, C_NONE, 0};
        return 1;
    case F_NOT_NONE:
        spans[0] = (Span){0, 0, C_OTHER, C_NAN, 0};
        return 1;
    case F_IN:
        if (!predicate->nan_too) return spans_of(segment, record, predicate, spans, by_code);
    }
    spans[0] = (Span){0, 0, C_OTHER, C_NONE, WHOLLY};
    return 1;
}

/* So many spans that they would be too many boxes: one around them. */
static void enclose(Span *spans, int *count) {
    spans[0].high = spans[*count - 1].high;
    spans[0].last = spans[*count - 1].last;
    spans[0].doubtful = WHOLLY | WHOLLY * BY_PLACE;
    *count = 1;
}

static Entry *new_entry(Build *build) {
    if (build->count == build->room) {
        size_t room = build->room + build->room / 2 + 64;
        Entry *entries = realloc(build->entries, room * sizeof *entries);
        if (entries == NULL) return NULL;
        build->entries = entries;
        build->room = room;
    }
    return build->entries + build->count++;
}

/* What leads to the box is known by place, which is finer than a code. */
static void anchor(Entry *entry, Span span) {
    int doubtful = span.doubtful / BY_PLACE;
    entry->first = span.first;
    entry->last = span.last;
    if (doubtful & 1) entry->doubtful |= AT_FIRST;
    if (doubtful & 2) entry->doubtful |= AT_LAST;
    if (doubtful & WHOLLY) entry->doubtful |= MUST_ASK;
}

static int put_box(Build *build, const Shape *shape, const int chosen[SLOTS]) {
    Entry *entry = new_entry(build);
    if (entry == NULL) return -1;
    *entry = shape->common;
    for (int slot = 0; slot < SLOTS; slot++) {
        int used = slot < shape->slots;
        Span span = used ? shape->spans[slot][chosen[slot]] : (Span){0, 0, 0, 255, 0};
        entry->column[slot] = used ? shape->predicate[slot]->column : 0;
        entry->low[slot] = span.low;
        entry->high[slot] = span.high;
        if (slot == entry->anchor_slot && entry->anchor != NOWHERE)
            anchor(entry, span);
        else {
            uint32_t ends = (span.doubtful & 1) | (span.doubtful >> 1 & 1) << SLOTS;
            entry->doubtful |= ends << slot | (span.doubtful & WHOLLY ? MUST_ASK : 0);
        }
    }
    return 0;
}

/* A box for each choice of spans: for no event more than one of them is true. */
static int put_boxes(Build *build, const Shape *shape) {
    int chosen[SLOTS] = {0};
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
    double *shares = shape->shares;
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
        double share = shape->shares[0];
        shape->predicate[0] = shape->predicate[1];
        shape->predicate[1] = best;
        shape->shares[0] = shape->shares[1];
        shape->shares[1] = share;
        shape->common.anchor_slot = 1;
    }
    if (best->form == F_IN && !best->nan_too) shape->common.anchor = best->column;
}

/* How often a value has one of the codes from the first span to the last. */
static double share_around(const Build *build, int column, const Span *spans, int count) {
    const uint32_t *seen = build->seen[column];
    int low = spans[0].low, high = spans[count - 1].high;
    double prior = (double)(high - low + 1) / build->segment->lanes[column].cuts.last_code;
    return (seen[high + 1] - seen[low] + PRIOR * prior) / (build->sampled + PRIOR);
}

/* Whether several boxes cost less than one around them, whose record has to be asked. */
static int is_worth_splitting(const Build *build, Shape *shape, int slot, int boxes) {
    int count = shape->counts[slot];
    double reached = share_around(build, shape->predicate[slot]->column, shape->spans[slot], count);
    for (int other = 0; other < shape->slots; other++)
        if (other != slot && other != shape->common.anchor_slot) reached *= shape->shares[other];
    return boxes * count <= MOST_BOXES && boxes * (count - 1) < ASKING * reached;
}

/* The column of a predicate that no place satisfies, such as `0 < x < 1` where only integers are
 * expected; NOWHERE if there is none. */
static int barren_column(const Shape *shape) {
    for (int slot = 0; slot < shape->slots; slot++)
        if (shape->counts[slot] == 0) return shape->predicate[slot]->column;
    return NOWHERE;
}

/* A conjunction as boxes. One that no place satisfies has none, but values without a place may
 * satisfy it, floats among integers and odd ones: they ask all that is anchored on their column. */
int describe(Build *build, uint32_t at, int anchored) {
    Segment *segment = build->segment;
    const Record *record = record_at(segment, at);
    Shape *shape = &build->shape;
    int boxes = 1;
    memset(&shape->common, 0, sizeof shape->common);
    shape->common.record = at;
    rank_predicates(build, record, shape);
    choose_anchor(shape);
    if (!anchored) shape->common.anchor = NOWHERE;
    if (record->count > SLOTS || record->residual >= 0) shape->common.doubtful = MUST_ASK;
    for (int slot = 0; slot < shape->slots; slot++) {
        int *count = shape->counts + slot;
        int is_anchor = shape->common.anchor != NOWHERE && slot == shape->common.anchor_slot;
        *count = allowed(segment, record, shape->predicate[slot], shape->spans[slot], !is_anchor);
        if (*count > 1 && !is_anchor && !is_worth_splitting(build, shape, slot, boxes)) {
            shape->shares[slot] = share_around(build, shape->predicate[slot]->column,
                                               shape->spans[slot], *count);
            enclose(shape->spans[slot], count);
        }
        if (!is_anchor) boxes *= *count;
    }
    int barren = barren_column(shape);
    build->anchor_of[build->described++] =
        barren == NOWHERE ? shape->common.anchor : (uint8_t)barren;
    return barren == NOWHERE ? put_boxes(build, shape) : 0;
}
