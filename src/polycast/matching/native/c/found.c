/* What an event finds in a segment: numbers of filters, and what has to be asked in Python. */
#include "kernel.h"
#include <string.h>

#define AT_ONCE 64 /* blocks that are scanned before their hits are looked at */

void found_begin(Found *found) {
    found->numbers = found->local;
    found->room = sizeof found->local / sizeof *found->local;
    found->count = 0;
    found->asked = NULL;
    found->asks = found->asks_room = 0;
}

void found_end(Found *found) {
    if (found->numbers != found->local) PyMem_RawFree(found->numbers);
    PyMem_RawFree(found->asked);
}

static int grow(Found *found) {
    size_t room = found->room * 2;
    uint32_t *old = found->numbers == found->local ? NULL : found->numbers;
    uint32_t *numbers = PyMem_RawRealloc(old, room * sizeof *numbers);
    if (numbers == NULL) return -1;
    if (old == NULL) memcpy(numbers, found->local, found->count * sizeof *numbers);
    found->numbers = numbers;
    found->room = room;
    return 0;
}

static inline int put(Found *found, uint32_t number) {
    if (found->count == found->room && grow(found)) return -1;
    found->numbers[found->count++] = number;
    return 0;
}

int found_put(Found *found, uint32_t number) { return put(found, number); }

int found_ask(Found *found, uint32_t number, uint32_t what) {
    if (found->asks == found->asks_room) {
        size_t room = found->asks_room * 2 + 16;
        uint32_t *asked = PyMem_RawRealloc(found->asked, 2 * room * sizeof *asked);
        if (asked == NULL) return -1;
        found->asked = asked;
        found->asks_room = room;
    }
    found->asked[2 * found->asks] = number;
    found->asked[2 * found->asks++ + 1] = what;
    return 0;
}

typedef struct {
    const Segment *segment;
    const Column *columns;
    const Value *values;
    Found *found;
    int16_t places[MOST_COLUMNS + 1]; /* the last: of what has no anchor */
    uint8_t codes[MOST_COLUMNS];
} Search;

/* Whether a value lies in a code that is not wholly in its interval. */
static inline int is_doubtful(const Search *search, uint32_t at, uint32_t doubtful) {
    const Boxes *boxes = search->segment->boxes + at / BLOCK;
    int i = at % BLOCK;
    for (int slot = 0; slot < SLOTS; slot++) {
        uint8_t code = search->codes[boxes->column[slot][i]];
        if ((doubtful >> slot & 1 && code == boxes->low[slot][i]) ||
            (doubtful >> (SLOTS + slot) & 1 && code == boxes->high[slot][i]))
            return 1;
    }
    return 0;
}

/* Whether the anchor of a box leads to it from a place. */
static inline int is_there(uint32_t doubtful, int place) {
    int first = doubtful >> FIRST_PLACE & 1023, last = doubtful >> LAST_PLACE & 1023;
    return first <= place && place <= last;
}

/* NO, YES, or DEPENDS on what the record says. */
static inline int judge(const Search *search, uint32_t at, uint32_t doubtful, int column) {
    int place = search->places[column];
    int first = doubtful >> FIRST_PLACE & 1023, last = doubtful >> LAST_PLACE & 1023;
    if (!is_there(doubtful, place)) return NO;
    if (doubtful & MUST_ASK) return DEPENDS;
    if ((doubtful & AT_FIRST && place == first) || (doubtful & AT_LAST && place == last))
        return DEPENDS;
    if (doubtful & (LOW_ENDS | HIGH_ENDS)) return is_doubtful(search, at, doubtful) ? DEPENDS : YES;
    return YES;
}

static int ask_record(const Search *search, uint32_t at) {
    const Record *record = record_at(search->segment, at);
    if (record_check(record, search->columns, search->values, 0) == NO) return 0;
    if (record->residual >= 0)
        return found_ask(search->found, record->number, (uint32_t)record->residual);
    return put(search->found, record->number);
}

typedef struct {
    uint32_t at[AT_ONCE * BLOCK];
    uint8_t column[AT_ONCE * BLOCK]; /* that led there */
    size_t count;
} Hits;

/* All that is far in memory is called for before any of it is looked at. */
static int look_at(const Search *search, Hits *hits) {
    size_t doubts = 0;
    const Tag *tags = search->segment->tags;
    for (size_t i = 0; i < hits->count; i++) FETCH(tags + hits->at[i]);
    for (size_t i = 0; i < hits->count; i++) {
        const Tag *tag = tags + hits->at[i];
        int verdict = judge(search, hits->at[i], tag->doubtful, hits->column[i]);
        if (verdict == DEPENDS) {
            const char *record = (const char *)record_at(search->segment, tag->record);
            FETCH(record);
            FETCH(record + 64);
            FETCH(record + 128);
            hits->at[doubts++] = tag->record;
        } else if (verdict == YES && put(search->found, tag->number))
            return -1;
    }
    hits->count = 0;
    for (size_t i = 0; i < doubts; i++)
        if (ask_record(search, hits->at[i])) return -1;
    return 0;
}

typedef struct {
    uint32_t from, to;
    uint8_t column;
} Range;

static int search_ranges(const Search *search, const Range *ranges, int count) {
    Hits hits;
    int wide = search->segment->columns > 16;
    hits.count = 0;
    for (int i = 0; i < count; i++)
        for (uint32_t from = ranges[i].from; from < ranges[i].to;) {
            uint32_t room = (uint32_t)(AT_ONCE - (hits.count + BLOCK - 1) / BLOCK);
            uint32_t blocks = ranges[i].to - from < room ? ranges[i].to - from : room;
            if (blocks == 0) {
                if (look_at(search, &hits)) return -1;
                continue;
            }
            size_t found = scan(search->segment->boxes + from, blocks, search->codes, wide,
                                from * BLOCK, hits.at + hits.count);
            memset(hits.column + hits.count, ranges[i].column, found);
            hits.count += found;
            from += blocks;
        }
    return look_at(search, &hits);
}

/* Records one by one: what is anchored on an odd or unexpected value, and where the others lead.
 * `unknown` values decide nothing; what depends on them is unsure. */
static int check_record(const Search *search, uint32_t at, uint32_t unknown, Found *unsure) {
    const Record *record = record_at(search->segment, at);
    int verdict = record_check(record, search->columns, search->values, unknown);
    if (verdict == NO) return 0;
    if (verdict == DEPENDS) return put(unsure, record->number);
    if (record->residual < 0) return put(search->found, record->number);
    if (unknown) return put(unsure, record->number);
    return found_ask(search->found, record->number, (uint32_t)record->residual);
}

/* A record may have several boxes in a list, one after the other: it is asked once. */
static int check_blocks(const Search *search, size_t from, size_t to, int column, uint32_t unknown,
                        Found *unsure) {
    int place = search->places[column];
    const Tag *tag = search->segment->tags + from * BLOCK, *end = search->segment->tags + to * BLOCK;
    for (uint32_t last = UINT32_MAX; tag < end; tag++) {
        if (tag->doubtful & NOBODY || tag->record == last || !is_there(tag->doubtful, place))
            continue;
        last = tag->record;
        if (check_record(search, last, unknown, unsure)) return -1;
    }
    return 0;
}

static int check_lane(const Search *search, int column, uint32_t unknown, Found *unsure) {
    const Lane *lane = search->segment->lanes + column;
    for (int level = 0; level < lane->count; level++) {
        const Level *lists = lane->levels + level;
        int list = search->places[column] >> lists->shift;
        if (check_blocks(search, lists->first[list], lists->first[list + 1], column, unknown,
                         unsure))
            return -1;
    }
    return 0;
}

static int check_all(const Search *search, uint32_t walk, uint32_t unknown, Found *unsure) {
    const Segment *segment = search->segment;
    for (int column = 0; column < segment->columns; column++) {
        const Lane *lane = segment->lanes + column;
        if (walk >> column & 1) {
            for (size_t i = 0; i < lane->anchors; i++)
                if (check_record(search, lane->anchored[i], unknown, unsure)) return -1;
        } else if (search->places[column] != NO_PLACE) {
            if (check_lane(search, column, unknown, unsure)) return -1;
        }
    }
    return check_blocks(search, segment->always, segment->blocks, MOST_COLUMNS, unknown, unsure);
}

/* Codes of all values; the columns where a float came and integers were expected. */
static uint32_t encode(Search *search) {
    const Segment *segment = search->segment;
    uint32_t apart = 0;
    memset(search->codes, C_ABSENT, sizeof search->codes);
    search->places[MOST_COLUMNS] = 0;
    for (int column = 0; column < segment->columns; column++) {
        search->places[column] = NO_PLACE;
        if (!(segment->used >> column & 1)) continue;
        search->places[column] = (int16_t)cuts_place(
            &segment->lanes[column].cuts, search->values + column, search->codes + column);
        apart |= (uint32_t)(search->codes[column] == C_APART) << column;
    }
    return apart;
}

/* `anchors`: only what is anchored on these columns; what has no anchor goes with column 31. */
int segment_find(const Segment *segment, const Column *columns, const Value *values, Found *found,
                 uint32_t anchors, size_t *asked) {
    Search search = {.segment = segment, .columns = columns, .values = values, .found = found};
    uint32_t apart = encode(&search);
    if (apart) {
        if (anchors == UINT32_MAX) return check_all(&search, apart, 0, NULL);
        return anchors & 1 ? check_all(&search, apart, 0, NULL) : 0; /* one of several does it */
    }
    Range ranges[LEVELS * MOST_COLUMNS + 1];
    int count = 0;
    for (int column = 0; column < segment->columns; column++) {
        const Lane *lane = segment->lanes + column;
        int place = search.places[column];
        if (lane->count == 0 || place == NO_PLACE || !(anchors >> column & 1)) continue;
        for (int level = 0; level < lane->count; level++) {
            const Level *lists = lane->levels + level;
            const uint32_t *first = lists->first + (place >> lists->shift);
            if (first[0] == first[1]) continue;
            FETCH(segment->boxes + first[0]);
            FETCH((const char *)(segment->boxes + first[0]) + 64);
            FETCH((const char *)(segment->boxes + first[0]) + 128);
            ranges[count++] = (Range){first[0], first[1], (uint8_t)column};
        }
    }
    if (anchors >> 31 & 1 && segment->always < segment->blocks)
        ranges[count++] =
            (Range){(uint32_t)segment->always, (uint32_t)segment->blocks, MOST_COLUMNS};
    for (int i = 0; i < count; i++) *asked += ranges[i].to - ranges[i].from;
    return search_ranges(&search, ranges, count);
}

int segment_find_odd(const Segment *segment, const Column *columns, const Value *values,
                     uint32_t odd, Found *sure, Found *unsure) {
    Search search = {.segment = segment, .columns = columns, .values = values, .found = sure};
    uint32_t apart = encode(&search);
    return check_all(&search, apart | odd, odd, unsure);
}
