/* A histogram of nanoseconds in constant space.
 *
 * Every power of two is cut into 64 equal cells, so a quantile is right to 1.6 percent at any
 * size; a sample costs one count of leading zeros and one increment.
 */
#ifndef LEVERET_BENCH_LATENCY_H
#define LEVERET_BENCH_LATENCY_H

#include <stdint.h>

enum { CELL_BITS = 6, CELLS = 1 << CELL_BITS };

struct latency {
    uint64_t samples, longest_ns;
    uint32_t cells[(64 - CELL_BITS) * CELLS + CELLS];
};

static inline void latency_record(struct latency *seen, uint64_t ns)
{
    int shift = 63 - __builtin_clzll(ns | CELLS) - CELL_BITS;
    seen->cells[(uint64_t)shift * CELLS + (ns >> shift)]++;
    seen->samples++;
    seen->longest_ns = ns > seen->longest_ns ? ns : seen->longest_ns;
}

/* The quantile in microseconds: the middle of the cell in which it lies. */
static double latency_quantile(const struct latency *seen, double quantile)
{
    uint64_t rank = (uint64_t)(quantile * (double)seen->samples), below = 0;
    for (int cell = 0; cell < (64 - CELL_BITS) * CELLS + CELLS; cell++) {
        below += seen->cells[cell];
        if (below <= rank)
            continue;
        int shift = cell < CELLS ? 0 : cell / CELLS - 1;
        uint64_t mantissa = (uint64_t)(cell - shift * CELLS);
        return (double)(mantissa << shift) / 1e3 + (double)(1ull << shift) / 2e3;
    }
    return 0;
}

#endif
