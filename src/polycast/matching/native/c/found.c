/* What an event finds in a segment: numbers of filters, and what has to be asked in Python. */
#include "kernel.h"
#include <string.h>

void found_begin(Found *found) {
    found->numbers = found->local;
    found->room = sizeof found->local / sizeof *found->local;
    found->count = 0;
    found->asked = NULL;
    found->asks = found->asks_room = 0;
}

void found_end(Found *found) {
    if (found->numbers != found->local) free(found->numbers);
    free(found->asked);
}

static int grow(Found *found) {
    size_t room = found->room * 2;
    uint32_t *old = found->numbers == found->local ? NULL : found->numbers;
    uint32_t *numbers = realloc(old, room * sizeof *numbers);
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
        uint32_t *asked = realloc(found->asked, 2 * room * sizeof *asked);
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
    Event event;
    const Encoded *encoded;
    Found *found;
} Search;

static const Value *values_of(const Search *search) {
    return search->event.values(search->event.of);
}

/* Whether a value lies in a code that is not wholly in its interval. */
static inline int is_doubtful(const Search *search, uint32_t at, uint32_t doubtful) {
    const Boxes *boxes = search->segment->boxes + at / BLOCK;
    int i = at % BLOCK;
    uint32_t at_ends = 0;
    for (int slot = 0; slot < SLOTS; slot++) {
        uint8_t code = search->encoded->codes[boxes->column[slot][i]];
        at_ends |= (uint32_t)(code == boxes->low[slot][i]) << slot |
                   (uint32_t)(code == boxes->high[slot][i]) << (SLOTS + slot);
    }
    return (at_ends & doubtful) != 0;
}

/* Whether the anchor of a box leads to it from a place. */
static inline int is_there(const Tag *tag, int place) {
    return tag->first <= place && place <= tag->last;
}

/* NO, YES, or DEPENDS on what the record says. */
static inline int judge(const Search *search, uint32_t at, const Tag *tag, int column) {
    int place = search->encoded->places[column];
    uint32_t doubtful = tag->doubtful;
    if (!is_there(tag, place)) return NO;
    if (doubtful & MUST_ASK) return DEPENDS;
    if ((doubtful & AT_FIRST && place == tag->first) || (doubtful & AT_LAST && place == tag->last))
        return DEPENDS;
    if (doubtful & (LOW_ENDS | HIGH_ENDS)) return is_doubtful(search, at, doubtful) ? DEPENDS : YES;
    return YES;
}

static int ask_record(const Search *search, uint32_t at) {
    const Record *record = record_at(search->segment, at);
    if (record_check(record, search->columns, values_of(search), 0) == NO) return 0;
    if (record->residual >= 0)
        return found_ask(search->found, record->number, (uint32_t)record->residual);
    return put(search->found, record->number);
}

/* Blocks that wait to be scanned together. */
typedef struct {
    Range ranges[AT_ONCE];
    int count;
    uint32_t blocks;
    uint32_t hits[MOST_HITS];
} Group;

/* All that is far in memory is called for before any of it is looked at. */
static int look_at(const Search *search, Group *group) {
    const Tag *tags = search->segment->tags;
    uint32_t *hits = group->hits;
    uint32_t at = 0, doubts = 0, all = group->count ? group->ranges[group->count - 1].end : 0;
    for (uint32_t i = 0; i < all; i++) FETCH(tags + hits[i]);
    for (const Range *range = group->ranges; at < all; range++)
        for (; at < range->end; at++) {
            const Tag *tag = tags + hits[at];
            int verdict = judge(search, hits[at], tag, range->column);
            if (verdict == DEPENDS) {
                const char *record = (const char *)record_at(search->segment, tag->record);
                FETCH(record);
                FETCH(record + 64);
                FETCH(record + 128);
                hits[doubts++] = tag->record;
            } else if (verdict == YES && put(search->found, tag->number))
                return -1;
        }
    for (uint32_t i = 0; i < doubts; i++)
        if (ask_record(search, hits[i])) return -1;
    return 0;
}

static int scan_group(const Search *search, Group *group) {
    const Segment *segment = search->segment;
    scan(segment->boxes, group->ranges, group->count, search->encoded->codes,
         segment->columns > 16, group->hits);
    int result = look_at(search, group);
    group->count = 0;
    group->blocks = 0;
    return result;
}

static inline int lead_to(const Search *search, Group *group, uint32_t from, uint32_t to,
                          int column) {
    while (from < to) {
        uint32_t room = AT_ONCE - group->blocks;
        uint32_t end = to - from < room ? to : from + room;
        group->ranges[group->count++] = (Range){from, end, 0, (uint8_t)column};
        group->blocks += end - from;
        from = end;
        if (group->blocks == AT_ONCE && scan_group(search, group)) return -1;
    }
    return 0;
}

/* Records one by one: what is anchored on an odd or unexpected value, and where the others lead.
 * `unknown` values decide nothing; what depends on them is unsure. */
static int check_record(const Search *search, uint32_t at, uint32_t unknown, Found *unsure) {
    const Record *record = record_at(search->segment, at);
    int verdict = record_check(record, search->columns, values_of(search), unknown);
    if (verdict == NO) return 0;
    if (verdict == DEPENDS) return put(unsure, record->number);
    if (record->residual < 0) return put(search->found, record->number);
    if (unknown) return put(unsure, record->number);
    return found_ask(search->found, record->number, (uint32_t)record->residual);
}

/* A record may have several boxes in a list, one after the other: it is asked once. */
static int check_blocks(const Search *search, size_t from, size_t to, int column, uint32_t unknown,
                        Found *unsure) {
    int place = search->encoded->places[column];
    const Tag *tag = search->segment->tags + from * BLOCK, *end = search->segment->tags + to * BLOCK;
    for (uint32_t last = UINT32_MAX; tag < end; tag++) {
        if (tag->doubtful & NOBODY || tag->record == last || !is_there(tag, place))
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
        int list = search->encoded->places[column] >> lists->shift;
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
        } else if (search->encoded->places[column] != NO_PLACE) {
            if (check_lane(search, column, unknown, unsure)) return -1;
        }
    }
    return check_blocks(search, segment->always, segment->blocks, MOST_COLUMNS, unknown, unsure);
}

static inline void encode_none(Encoded *encoded) {
    memset(encoded->places, NO_PLACE, sizeof encoded->places);
    memset(encoded->codes, C_ABSENT, sizeof encoded->codes);
    encoded->places[MOST_COLUMNS] = 0;
    encoded->apart = 0;
}

static inline void encode_value(const Segment *segment, int column, const Value *value,
                                Encoded *encoded) {
    uint8_t code;
    encoded->places[column] = (int16_t)cuts_place(&segment->lanes[column].cuts, value, &code);
    encoded->codes[column] = code;
    encoded->apart |= (uint32_t)(code == C_APART) << column;
}

void encode(const Segment *segment, const Value *values, Encoded *encoded) {
    encode_none(encoded);
    for (int column = 0; column < segment->columns; column++)
        if (segment->used >> column & 1)
            encode_value(segment, column, values + column, encoded);
}

/* `anchors`: only what is anchored on these columns; what has no anchor goes with column 31. */
int segment_find(const Segment *segment, const Column *columns, Event event,
                 const Encoded *encoded, Found *found, uint32_t anchors, size_t *asked) {
    Search search = {segment, columns, event, encoded, found};
    if (encoded->apart) {
        if (anchors != UINT32_MAX && !(anchors & 1)) return 0; /* one of several does it */
        return check_all(&search, encoded->apart, 0, NULL);
    }
    Group group;
    group.count = 0;
    group.blocks = 0;
    for (const Door *door = segment->doors; door < segment->doors + segment->entrances; door++) {
        int place = encoded->places[door->column];
        if (place == NO_PLACE || !(anchors >> door->column & 1)) continue;
        uint32_t from = door->first[place >> door->shift], to = door->first[(place >> door->shift) + 1];
        FETCH(segment->boxes + from);
        FETCH((const char *)(segment->boxes + from) + 64);
        FETCH((const char *)(segment->boxes + from) + 128);
        *asked += to - from;
        if (lead_to(&search, &group, from, to, door->column)) return -1;
    }
    if (anchors >> 31 & 1) {
        *asked += segment->blocks - segment->always;
        if (lead_to(&search, &group, (uint32_t)segment->always, (uint32_t)segment->blocks,
                    MOST_COLUMNS))
            return -1;
    }
    return scan_group(&search, &group);
}

static const Value *as_read(void *of) { return of; }

int segment_find_odd(const Segment *segment, const Column *columns, const Value *values,
                     uint32_t odd, Found *sure, Found *unsure) {
    Encoded encoded;
    encode(segment, values, &encoded);
    Search search = {segment, columns, {as_read, (void *)values}, &encoded, sure};
    return check_all(&search, encoded.apart | odd, odd, unsure);
}
