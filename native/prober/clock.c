#define _GNU_SOURCE
#include "clock.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* Of eight readings the one between the two closest reads of the raw clock: a spread of 1 to 3 ns, where a single one is
   off by 5 us once in a hundred times (virtual machine, clock source tsc). */
enum { TRIES = 8, STEP_FLOOR_NS = 1000, AHEAD_NS = 100000000 };
static const double SLEW_MAX = 1e-3; /* what adjtime does is 500 ppm at most; more is a step */
static const int64_t STEP_NS = 100000000; /* the injected frequency changes ten times a second */

static int64_t read_clock(clockid_t id) {
    struct timespec now;
    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t clock_monotonic(void) { return read_clock(CLOCK_MONOTONIC); }

int64_t clock_raw_now(void) { return read_clock(CLOCK_MONOTONIC_RAW); }

void clock_read(struct clock *clock) {
    int64_t closest = INT64_MAX, real = 0, raw = 0;
    for (int i = 0; i < TRIES; i++) {
        int64_t before = clock_raw_now(), between = read_clock(CLOCK_REALTIME), after = clock_raw_now();
        if (after - before >= closest) continue;
        closest = after - before;
        real = between;
        raw = before + closest / 2;
    }
    if (clock->count && raw <= clock->readings[(clock->count - 1) % CLOCK_READINGS].raw) return;
    clock->readings[clock->count % CLOCK_READINGS].real = real;
    clock->readings[clock->count++ % CLOCK_READINGS].raw = raw;
}

void clock_start(struct clock *clock) {
    memset(clock, 0, sizeof *clock);
    clock_read(clock);
    clock->base_ns = clock->readings[0].real - clock->readings[0].raw;
}

bool clock_raw(const struct clock *clock, int64_t real_ns, int64_t *raw_ns) {
    uint64_t kept = clock->count < CLOCK_READINGS ? clock->count : CLOCK_READINGS;
    for (uint64_t back = 1; back < kept; back++) {
        uint64_t at = clock->count - back;
        int64_t real_a = clock->readings[(at - 1) % CLOCK_READINGS].real, raw_a = clock->readings[(at - 1) % CLOCK_READINGS].raw;
        int64_t real_b = clock->readings[at % CLOCK_READINGS].real, raw_b = clock->readings[at % CLOCK_READINGS].raw;
        if (real_ns < real_a) continue;
        int64_t passed = raw_b - raw_a, more = (real_b - real_a) - passed;
        if ((more < 0 ? -more : more) > STEP_FLOOR_NS + (int64_t)(SLEW_MAX * (double)passed)) return false;
        if (back > 1 && real_ns > real_b) return false; /* only where it was stepped back */
        double share = (double)(real_ns - real_a) / (double)(real_b - real_a);
        if (real_ns - real_b > AHEAD_NS) return false;
        *raw_ns = raw_a + (real_ns - real_a) - (int64_t)llrint(share * (double)more);
        return true;
    }
    return false;
}

/* Splitmix64, and from it a normal variate (Box and Muller). */
static double uniform(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return ((double)(z >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(uint64_t *state) {
    double radius = sqrt(-2 * log(uniform(state)));
    return radius * cos(2 * M_PI * uniform(state));
}

static double injected_ppb(const struct clock *clock, double seconds) {
    const struct injected *in = &clock->injected;
    double phase = (double)(in->seed % 1000) / 1000;
    double sine = in->sine_s > 0 ? in->sine_ppb * sin(2 * M_PI * (seconds / in->sine_s + phase)) : 0;
    return in->rate_ppb + clock->walked_ppb + sine;
}

void clock_inject(struct clock *clock, struct injected injected) {
    clock->is_injected = true;
    clock->injected = injected;
    clock->random = injected.seed;
    clock->walked_ppb = 0;
    clock->step_count = 1;
    clock->steps[0].raw = injected.since_raw_ns ? injected.since_raw_ns : clock_raw_now();
    if (injected.since_raw_ns) clock->base_ns = injected.base_ns;
    clock->steps[0].ns = 0;
    clock->steps[0].ppb = injected_ppb(clock, 0);
}

static void step_injected(struct clock *clock) {
    uint64_t last = (clock->step_count - 1) % CLOCK_STEPS, next = clock->step_count % CLOCK_STEPS;
    clock->walked_ppb += clock->injected.walk_ppb * sqrt((double)STEP_NS / 1e9) * normal(&clock->random);
    clock->steps[next].raw = clock->steps[last].raw + STEP_NS;
    clock->steps[next].ns = clock->steps[last].ns + clock->steps[last].ppb * (double)STEP_NS / 1e9;
    clock->steps[next].ppb = injected_ppb(clock, (double)clock->step_count * (double)STEP_NS / 1e9);
    clock->step_count++;
}

int64_t clock_host(struct clock *clock, int64_t raw_ns) {
    int64_t host = raw_ns + clock->base_ns;
    if (!clock->is_injected) return host;
    while (raw_ns - clock->steps[(clock->step_count - 1) % CLOCK_STEPS].raw >= STEP_NS) step_injected(clock);
    uint64_t kept = clock->step_count < CLOCK_STEPS ? clock->step_count : CLOCK_STEPS, back = 1;
    while (back < kept && clock->steps[(clock->step_count - back) % CLOCK_STEPS].raw > raw_ns) back++;
    uint64_t at = (clock->step_count - back) % CLOCK_STEPS;
    double gained = clock->steps[at].ns + clock->steps[at].ppb * (double)(raw_ns - clock->steps[at].raw) / 1e9;
    return host + clock->injected.offset_ns + (int64_t)llrint(gained);
}
