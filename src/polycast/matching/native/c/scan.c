/* Sixteen boxes at once: one shuffle and two subtractions for each pair of slots.
 *
 * A value below the low end, or above the high one, leaves something of a saturating subtraction.
 */
#include "kernel.h"
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define WITH_AVX2
#include <immintrin.h>
#endif

static uint32_t scan_block(const Boxes *boxes, uint32_t block, const uint8_t *codes,
                           uint32_t *hits) {
    uint8_t bad[BLOCK] = {0};
    uint32_t found = 0;
    boxes += block;
    for (int slot = 0; slot < SLOTS; slot++)
        for (int i = 0; i < BLOCK; i++) {
            uint8_t code = codes[boxes->column[slot][i]];
            bad[i] |= (code < boxes->low[slot][i]) | (code > boxes->high[slot][i]);
        }
    for (uint32_t i = 0; i < BLOCK; i++)
        if (!bad[i]) hits[found++] = block * BLOCK + i;
    return found;
}

static void scan_plainly(const Boxes *boxes, Range *ranges, int count, const uint8_t *codes,
                         int wide, uint32_t *hits) {
    (void)wide;
    uint32_t found = 0;
    for (Range *range = ranges; range < ranges + count; range++) {
        for (uint32_t block = range->from; block < range->to; block++)
            found += scan_block(boxes, block, codes, hits + found);
        range->end = found;
    }
}

#ifdef WITH_AVX2
typedef struct {
    __m256i first, second; /* the codes of columns 0 to 15 and of 16 to 31, twice each */
} Codes;

__attribute__((target("avx2"))) static inline __m256i pair(const Boxes *boxes, int slot,
                                                           Codes codes, int wide) {
    __m256i column = _mm256_load_si256((const __m256i *)boxes->column[slot]);
    __m256i low = _mm256_load_si256((const __m256i *)boxes->low[slot]);
    __m256i high = _mm256_load_si256((const __m256i *)boxes->high[slot]);
    __m256i value;
    if (wide) { /* an index with its highest bit set gives zero */
        __m256i below = _mm256_adds_epu8(column, _mm256_set1_epi8(0x70));
        __m256i above = _mm256_sub_epi8(column, _mm256_set1_epi8(16));
        value = _mm256_or_si256(_mm256_shuffle_epi8(codes.first, below),
                                _mm256_shuffle_epi8(codes.second, above));
    } else
        value = _mm256_shuffle_epi8(codes.first, column);
    return _mm256_or_si256(_mm256_subs_epu8(low, value), _mm256_subs_epu8(value, high));
}

__attribute__((target("avx2"))) static inline void scan_pairs(const Boxes *boxes, Range *ranges,
                                                              int count, const uint8_t *codes,
                                                              uint32_t *hits, int wide) {
    const __m256i zero = _mm256_setzero_si256();
    Codes both = {_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)codes)),
                  _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(codes + 16)))};
    uint32_t found = 0;
    for (Range *range = ranges; range < ranges + count; range++) {
        for (uint32_t block = range->from; block < range->to; block++) {
            const Boxes *these = boxes + block;
            __m256i bad =
                _mm256_or_si256(pair(these, 0, both, wide), pair(these, 2, both, wide));
            uint32_t good = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(bad, zero));
            good &= good >> 16;
            for (int i = 0; i < 2; i++) { /* mostly it is none, one or two: without a branch */
                hits[found] = block * BLOCK + (uint32_t)__builtin_ctz(good | 1u << BLOCK);
                found += good != 0;
                good &= good - 1;
            }
            for (; good; good &= good - 1)
                hits[found++] = block * BLOCK + (uint32_t)__builtin_ctz(good);
        }
        range->end = found;
    }
}

__attribute__((target("avx2"))) static void scan_avx2(const Boxes *boxes, Range *ranges, int count,
                                                      const uint8_t *codes, int wide,
                                                      uint32_t *hits) {
    if (wide)
        scan_pairs(boxes, ranges, count, codes, hits, 1);
    else
        scan_pairs(boxes, ranges, count, codes, hits, 0);
}

static int has_avx2(void) { return __builtin_cpu_supports("avx2"); }
#else
static int has_avx2(void) { return 0; }
#define scan_avx2 scan_plainly
#endif

void (*scan)(const Boxes *, Range *, int, const uint8_t *, int, uint32_t *) = scan_plainly;

/* "" changes nothing. */
int choose_scan(const char *name) {
    if (*name == 0) return 0;
    int best = strcmp(name, "best") == 0;
    if (strcmp(name, "scalar") == 0 || (best && !has_avx2()))
        scan = scan_plainly;
    else if ((strcmp(name, "avx2") == 0 || best) && has_avx2())
        scan = scan_avx2;
    else
        return -1;
    return 0;
}

const char *scan_name(void) { return scan == scan_plainly ? "scalar" : "avx2"; }
