/* The values of a column in places, cut where many constants of filters lie; and places in codes.
 *
 * A cut lies between values: it is somewhere among the floats and somewhere among the integers, and
 * cuts are in the same order in both. What lies on the same side of all cuts has the same place.
 */
#include "kernel.h"
#include <math.h>
#include <string.h>

#define MOST_CELLS 32768
#define FEW_CUTS 1023
#define AT_A_GLANCE 4
#define MANY 2048 /* ends of intervals that are sorted without comparing them */

/* -- order ---------------------------------------------------------------------------------------- */

static int order_of_numbers(int64_t a, int64_t b) { return (a > b) - (a < b); }

static int order_by_floats(const void *one, const void *other) {
    const Cut *a = one, *b = other;
    int order = order_of_numbers(a->at[0], b->at[0]);
    return order ? order : order_of_numbers(a->at[1], b->at[1]);
}

static int order_by_integers(const void *one, const void *other) {
    const Cut *a = one, *b = other;
    return order_of_numbers(a->at[1], b->at[1]);
}

static int order_by_texts(const void *one, const void *other) {
    const Cut *a = one, *b = other;
    Value value = {.key = a->at[0], .data = a->data, .size = a->size};
    return text_order(&value, b->at[0], b->data, b->size);
}

typedef int (*Order)(const void *, const void *);

static Order order_of(const Cuts *cuts) {
    if (is_textual(cuts->kind)) return order_by_texts;
    return cuts->integral ? order_by_integers : order_by_floats;
}

/* The cut at an end of an interval that is not open there. */
static void cut_at(int kind, const Record *record, const Interval *interval, int high, Cut *cut) {
    const int64_t *at = high ? interval->high : interval->low;
    memset(cut, 0, sizeof *cut);
    cut->at[0] = at[0];
    cut->at[1] = at[1];
    if (is_textual(kind)) cut->data = cut_text(record, at[1], &cut->size);
}

static int is_open(int kind, const Interval *interval, int high) {
    const int64_t *at = high ? interval->high : interval->low;
    if (is_textual(kind)) return at[1] == OPEN;
    int64_t end = high ? INT64_MAX : INT64_MIN;
    return at[1] == end && (kind != NUMBER || at[0] == end);
}

int cuts_collect(Cuts *cuts, const Record *record, const Predicate *predicate) {
    const Interval *interval = intervals_of(predicate);
    size_t needed = cuts->many + 2 * (size_t)predicate->intervals;
    if (needed > cuts->room) {
        size_t room = needed + cuts->room / 2 + 64;
        Cut *all = realloc(cuts->all, room * sizeof *all);
        if (all == NULL) return -1;
        cuts->all = all;
        cuts->room = room;
    }
    for (uint32_t i = 0; i < predicate->intervals; i++, interval++)
        for (int high = 0; high < 2; high++)
            if (!is_open(cuts->kind, interval, high))
                cut_at(cuts->kind, record, interval, high, &cuts->all[cuts->many++]);
    return 0;
}

static int is_integral(const Cuts *cuts, const Value *sample, int sampled) {
    int integers = 0;
    if (cuts->kind != NUMBER) return !is_textual(cuts->kind);
    for (int i = 0; i < sampled; i++) {
        if (sample[i].kind == V_FLOAT) return 0;
        integers += sample[i].kind == V_INT;
    }
    if (integers) return 1;
    for (size_t i = 0; i < cuts->many; i++) { /* are the constants integers? */
        const int64_t *at = cuts->all[i].at;
        if (at[1] == INT64_MAX || at[1] == INT64_MIN) return 0;
        if (at[0] != float_key((double)at[1]) && at[0] != float_key((double)(at[1] - 1)) + 1)
            return 0;
    }
    return 1;
}

/* -- sorting -------------------------------------------------------------------------------------- */

typedef struct {
    int64_t at[2];
} Pair;

/* One byte of a key after the other, the least first; bytes that are all alike are passed over. */
static Pair *sort_by(Pair *from, Pair *to, size_t many, int which) {
    static const uint64_t SIGN = (uint64_t)1 << 63;
    size_t counts[8][256] = {0};
    for (size_t i = 0; i < many; i++)
        for (int byte = 0; byte < 8; byte++)
            counts[byte][((uint64_t)from[i].at[which] ^ SIGN) >> 8 * byte & 255]++;
    for (int byte = 0; byte < 8; byte++) {
        size_t *next = counts[byte], before = 0;
        if (next[((uint64_t)from[0].at[which] ^ SIGN) >> 8 * byte & 255] == many) continue;
        for (int value = 0; value < 256; value++) {
            size_t here = next[value];
            next[value] = before;
            before += here;
        }
        for (size_t i = 0; i < many; i++)
            to[next[((uint64_t)from[i].at[which] ^ SIGN) >> 8 * byte & 255]++] = from[i];
        Pair *sorted = to;
        to = from;
        from = sorted;
    }
    return from;
}

/* As their order has it: numbers without comparing, if they are many. */
static int sort_cuts(Cuts *cuts, Order order) {
    if (cuts->many < MANY || is_textual(cuts->kind)) {
        if (cuts->many) qsort(cuts->all, cuts->many, sizeof *cuts->all, order);
        return 0;
    }
    Pair *pairs = malloc(2 * cuts->many * sizeof *pairs), *other, *sorted;
    if (pairs == NULL) return -1;
    for (size_t i = 0; i < cuts->many; i++) memcpy(pairs[i].at, cuts->all[i].at, sizeof pairs->at);
    other = pairs + cuts->many;
    sorted = sort_by(pairs, other, cuts->many, 1);
    if (order == order_by_floats)
        sorted = sort_by(sorted, sorted == pairs ? other : pairs, cuts->many, 0);
    for (size_t i = 0; i < cuts->many; i++) memcpy(cuts->all[i].at, sorted[i].at, sizeof pairs->at);
    free(pairs);
    return 0;
}

/* -- choosing ------------------------------------------------------------------------------------- */

/* How many of some cuts come before a cut; `after`: or lie at it. */
static size_t count_before(const Cut *of, size_t many, const Cut *cut, int after, Order order) {
    size_t from = 0, to = many;
    while (from < to) {
        size_t middle = (from + to) / 2;
        if (order(of + middle, cut) < after)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static void choose(Cuts *cuts, Order order, size_t most) {
    size_t distinct = 0;
    for (size_t i = 0; i < cuts->many; i++)
        distinct += i == 0 || order(&cuts->all[i - 1], &cuts->all[i]) != 0;
    int few = distinct <= most;
    size_t steps = few ? cuts->many : most;
    for (size_t i = 0; i < steps; i++) {
        const Cut *cut = cuts->all + (few ? i : (i + 1) * cuts->many / (most + 1));
        if (cuts->count && order(&cuts->cuts[cuts->count - 1], cut) == 0) continue;
        cuts->cuts[cuts->count++] = *cut;
    }
}

/* Codes of about as many constants each, or of one place if that is enough for all. */
static void give_codes(Cuts *cuts, Order order, int most) {
    size_t rank = 0;
    int code = C_FIRST;
    cuts->code_of[0] = (uint8_t)code;
    for (int i = 0; i < cuts->count; i++) {
        while (rank < cuts->many && order(&cuts->all[rank], &cuts->cuts[i]) < 0) rank++;
        cuts->before[i] = (uint32_t)rank;
        size_t due = cuts->many * (size_t)(code - C_FIRST + 1) / (size_t)most;
        if (cuts->count < most || (rank >= due && code < most)) {
            cuts->rank[code - C_FIRST] = (uint32_t)rank;
            code++;
        }
        cuts->code_of[i + 1] = (uint8_t)code;
    }
    cuts->before[cuts->count] = (uint32_t)cuts->many;
    cuts->last_code = code;
}

/* How many steps are not above a key, of which those up to `to` decide. A few are counted without a
 * branch; the steps end with as many that are above every key. */
static inline int place_among(const int64_t *steps, int from, int to, int64_t key) {
    while (to - from > AT_A_GLANCE) {
        int middle = (from + to) / 2;
        if (steps[middle] <= key)
            from = middle + 1;
        else
            to = middle;
    }
    int place = from;
    for (int i = 0; i < AT_A_GLANCE; i++) place += steps[from + i] <= key;
    return place;
}

/* How many steps are not above a key; `before`: how many are below it. */
static int place_by_search(const int64_t *steps, int from, int to, int64_t key, int before) {
    while (from < to) {
        int middle = (from + to) / 2;
        if (before ? steps[middle] < key : steps[middle] <= key)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* -- grids ---------------------------------------------------------------------------------------- */

static uint64_t integer_cell(const Cuts *cuts, int64_t key) {
    return ((uint64_t)key - (uint64_t)cuts->least) >> cuts->shift;
}

static int float_cell(const Cuts *cuts, double number) {
    return (int)((number - cuts->floor) * cuts->scale);
}

static void fill_integers(Cuts *cuts, const int64_t *steps) {
    int next = 0;
    for (uint64_t cell = 0; cell <= (uint64_t)cuts->cells; cell++) {
        while (next < cuts->count && integer_cell(cuts, steps[next]) < cell) next++;
        cuts->of_integers[cell] = (uint16_t)next;
    }
}

static void fill_floats(Cuts *cuts) {
    int next = 0;
    for (int cell = 0; cell <= cuts->cells; cell++) {
        while (next < cuts->count && float_cell(cuts, float_of_key(cuts->steps[0][next])) < cell)
            next++;
        cuts->of_floats[cell] = (uint16_t)next;
    }
}

static int make_grids(Cuts *cuts) {
    const int64_t *floats = cuts->steps[0], *integers = cuts->steps[!is_textual(cuts->kind)];
    int last = cuts->count - 1;
    cuts->cells = 64;
    while (cuts->cells < 2 * cuts->count && cuts->cells < MOST_CELLS) cuts->cells *= 2;
    cuts->least = integers[0];
    cuts->last = integers[last];
    while (integer_cell(cuts, cuts->last) >= (uint64_t)cuts->cells) cuts->shift++;
    if ((cuts->of_integers = malloc(((size_t)cuts->cells + 1) * sizeof(uint16_t))) == NULL) return -1;
    fill_integers(cuts, integers);
    if (cuts->kind != NUMBER || cuts->integral) return 0;
    cuts->floor = float_of_key(floats[0]);
    cuts->ceiling = float_of_key(floats[last]);
    double reach = cuts->ceiling - cuts->floor;
    if (!(reach > 0) || !isfinite(reach) || !isfinite(cuts->cells / reach)) return 0;
    cuts->scale = (cuts->cells - 1) / reach;
    if ((cuts->of_floats = malloc(((size_t)cuts->cells + 1) * sizeof(uint16_t))) == NULL) return -1;
    fill_floats(cuts);
    return 0;
}

/* -- texts ---------------------------------------------------------------------------------------- */

/* What is common to the first and the last of them is common to all. */
static Py_ssize_t shared_bytes(const Cut *first, const Cut *last) {
    Py_ssize_t shared = 0;
    while (shared < first->size && shared < last->size && first->data[shared] == last->data[shared])
        shared++;
    return shared;
}

static void make_text_steps(Cuts *cuts) {
    cuts->shared = shared_bytes(cuts->cuts, cuts->cuts + cuts->count - 1);
    for (int i = 0; i < cuts->count; i++) {
        const Cut *cut = cuts->cuts + i;
        cuts->steps[0][i] = text_key(cut->data + cuts->shared, cut->size - cuts->shared);
    }
}

/* -- made of records, and a sample ---------------------------------------------------------------- */

/* More cuts make a value's place slower to find; they are worth it where there are many lists. */
static size_t enough_for(size_t ends) { return ends < 8 * FEW_CUTS ? FEW_CUTS : ends / 8; }

int cuts_make(Cuts *cuts, const Value *sample, int sampled, int most, int codes) {
    cuts->integral = (uint8_t)is_integral(cuts, sample, sampled);
    Order order = order_of(cuts);
    if ((size_t)most > enough_for(cuts->many)) most = (int)enough_for(cuts->many);
    size_t room = cuts->many < (size_t)most ? cuts->many : (size_t)most;
    if (sort_cuts(cuts, order)) return -1;
    cuts->cuts = malloc((room + 1) * sizeof *cuts->cuts);
    cuts->code_of = malloc(room + 1);
    cuts->rank = malloc((MOST_CODES + 1) * sizeof *cuts->rank);
    cuts->steps[0] = malloc(2 * (room + AT_A_GLANCE) * sizeof(int64_t));
    cuts->before = malloc((room + 1) * sizeof *cuts->before);
    if (!cuts->cuts || !cuts->code_of || !cuts->rank || !cuts->before || !cuts->steps[0]) return -1;
    cuts->steps[1] = cuts->steps[0] + room + AT_A_GLANCE;
    choose(cuts, order, (size_t)most);
    give_codes(cuts, order, codes);
    for (int i = 0; i < cuts->count + AT_A_GLANCE; i++) {
        cuts->steps[0][i] = i < cuts->count ? cuts->cuts[i].at[0] : INT64_MAX;
        cuts->steps[1][i] = i < cuts->count ? cuts->cuts[i].at[1] : INT64_MAX;
    }
    if (cuts->count == 0) return 0;
    if (is_textual(cuts->kind)) make_text_steps(cuts);
    return make_grids(cuts);
}

void cuts_forget(Cuts *cuts) {
    free(cuts->all);
    free(cuts->rank);
    free(cuts->before);
    cuts->all = NULL;
    cuts->rank = cuts->before = NULL;
}

void cuts_free(Cuts *cuts) {
    cuts_forget(cuts);
    free(cuts->cuts);
    free(cuts->code_of);
    free(cuts->steps[0]);
    free(cuts->of_integers);
    free(cuts->of_floats);
}

size_t cuts_bytes(const Cuts *cuts) {
    size_t bytes = (size_t)cuts->count * (sizeof(Cut) + 2 * sizeof(int64_t) + 1);
    bytes += (size_t)cuts->cells * ((cuts->of_integers != NULL) + (cuts->of_floats != NULL)) *
             sizeof(uint16_t);
    return bytes;
}

/* -- asking ---------------------------------------------------------------------------------------- */

static inline int integer_place(const Cuts *cuts, const int64_t *steps, int64_t key) {
    if (cuts->count == 0 || key < cuts->least) return 0;
    if (key >= cuts->last) return cuts->count;
    uint64_t cell = integer_cell(cuts, key);
    int from = cuts->of_integers[cell], to = cuts->of_integers[cell + 1];
    return place_among(steps, from, to, key);
}

static inline int float_place(const Cuts *cuts, int64_t key) {
    int from = 0, to = cuts->count;
    double number = float_of_key(key);
    if (cuts->of_floats != NULL && number >= cuts->floor && number <= cuts->ceiling) {
        int cell = float_cell(cuts, number);
        from = cuts->of_floats[cell];
        to = cuts->of_floats[cell + 1];
    }
    return place_among(cuts->steps[0], from, to, key);
}

/* Cuts that differ only after eight bytes, or in their length, are compared whole. */
static int place_among_texts(const Cuts *cuts, const Value *value, int from, int to) {
    while (from < to) {
        int middle = (from + to) / 2;
        const Cut *cut = cuts->cuts + middle;
        if (text_order(value, cut->at[0], cut->data, cut->size) >= 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

ASIDE static int text_place(const Cuts *cuts, const Value *value) {
    Py_ssize_t shared = cuts->shared;
    int64_t key = value->key;
    if (shared) {
        const Cut *any = cuts->cuts;
        if (value->size < shared || memcmp(value->data, any->data, (size_t)shared) != 0)
            return text_order(value, any->at[0], any->data, any->size) < 0 ? 0 : cuts->count;
        key = text_key(value->data + shared, value->size - shared);
    }
    const int64_t *steps = cuts->steps[0];
    int to = integer_place(cuts, steps, key);
    if (to == 0 || steps[to - 1] != key) return to;
    int from = to > 1 && steps[to - 2] == key ? place_by_search(steps, 0, to, key, 1) : to - 1;
    return place_among_texts(cuts, value, from, to);
}

static const uint8_t APART[] = {
    [V_FLOAT] = C_APART, [V_NAN] = C_NAN,       [V_NONE] = C_NONE,
    [V_OTHER] = C_OTHER, [V_ABSENT] = C_ABSENT, [V_ODD] = C_ABSENT,
};

INLINE int cuts_place(const Cuts *cuts, const Value *value, uint8_t *code) {
    int place;
    if (value->kind == V_FLOAT && !cuts->integral)
        place = float_place(cuts, value->key);
    else if (value->kind == V_INT)
        place = integer_place(cuts, cuts->steps[1], value->key);
    else if (value->kind == V_TEXT)
        place = text_place(cuts, value);
    else {
        *code = APART[value->kind];
        return NO_PLACE;
    }
    *code = cuts->code_of[place];
    return place;
}

/* How many steps are below a key [0], and how many are not above it [1]. */
static void places_around(const Cuts *cuts, const Cut *cut, int which, int places[2]) {
    int64_t key = cut->at[which];
    for (int above = 0; above < 2; above++) {
        int64_t to = above ? key : key - 1;
        places[above] = !above && key == INT64_MIN ? 0
                        : which                    ? integer_place(cuts, cuts->steps[1], to)
                                                   : float_place(cuts, to);
    }
}

/* How many cuts come before a cut [0], and how many are not after it [1]. */
static void cuts_around(const Cuts *cuts, const Cut *cut, int places[2]) {
    if (!is_textual(cuts->kind)) {
        places_around(cuts, cut, cuts->integral, places);
        return;
    }
    places[0] = (int)count_before(cuts->cuts, (size_t)cuts->count, cut, 0, order_by_texts);
    places[1] = places[0] < cuts->count && order_by_texts(cuts->cuts + places[0], cut) == 0
                    ? places[0] + 1
                    : places[0];
}

/* How many ends of intervals come before a cut that lies among some of the chosen ones. */
static size_t rank_of(const Cuts *cuts, const Cut *cut, const int places[2]) {
    Order order = order_of(cuts);
    if (places[0] < places[1] && order(cuts->cuts + places[0], cut) == 0)
        return cuts->before[places[0]];
    size_t from = places[0] ? cuts->before[places[0] - 1] : 0, to = cuts->before[places[1]];
    return from + count_before(cuts->all + from, to - from, cut, 0, order);
}

/* Where floats and integers may both come, an interval has to be wide enough for both. */
static int span_end(const Cuts *cuts, const Cut *cut, int high, const int places[2]) {
    int place = places[!high], others[2];
    if (is_textual(cuts->kind) || cuts->integral) return place;
    places_around(cuts, cut, 1, others);
    return (place < others[!high]) == high ? others[!high] : place;
}

void cuts_span(const Cuts *cuts, const Record *record, const Interval *interval, Ends *ends) {
    for (int high = 0; high < 2; high++) {
        Cut cut;
        int places[2];
        ends->span[high] = high ? cuts->count : 0;
        ends->certain[high] = 1;
        ends->rank[high] = high ? cuts->many : 0;
        if (is_open(cuts->kind, interval, high)) continue;
        cut_at(cuts->kind, record, interval, high, &cut);
        cuts_around(cuts, &cut, places);
        int end = span_end(cuts, &cut, high, places), at = high ? end : end - 1;
        ends->span[high] = end;
        ends->certain[high] = at >= 0 && at < cuts->count && order_of(cuts)(cuts->cuts + at, &cut) == 0;
        ends->rank[high] = rank_of(cuts, &cut, places);
    }
}
