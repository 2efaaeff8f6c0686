/* This host's time as the prober tells it: the raw clock plus one constant, so that it looks like epoch ns.

   The kernel stamps packets by the realtime clock, which other daemons steer. Both clocks are read together at each
   wake-up, ten times a second at the least; a stamp is brought to the raw clock between the two readings around it, so
   what is estimated is the oscillator and nobody's servo.

       kernel stamp (realtime) --clock_raw--> raw --clock_host--> raw + base [+ injected] = host time

   The injected clock is for tests only: one function at this boundary, the same for all stamps of the process. */
#ifndef LEADLINE_CLOCK_H
#define LEADLINE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

enum { CLOCK_READINGS = 64, CLOCK_STEPS = 64 };

struct injected {
    int64_t offset_ns;
    double rate_ppb;
    double walk_ppb; /* of the frequency, per square root of a second */
    double sine_ppb, sine_s;
    uint64_t seed;
    int64_t since_raw_ns; /* it runs from there on, whenever a prober starts; 0: from its start */
    int64_t base_ns;      /* and with this base instead of the prober's own, so that all that share both are comparable */
};

struct clock {
    struct {
        int64_t real, raw;
    } readings[CLOCK_READINGS]; /* a ring; those before the oldest are forgotten */
    uint64_t count;
    int64_t base_ns;   /* host time less raw, constant in the life of a process */
    bool is_injected;
    struct injected injected;
    struct {
        int64_t raw;
        double ns, ppb; /* gained up to here beside the constant offset, and the rate from here on */
    } steps[CLOCK_STEPS];
    uint64_t step_count;
    uint64_t random;
    double walked_ppb;
};

int64_t clock_monotonic(void);
int64_t clock_raw_now(void);

void clock_start(struct clock *clock);
void clock_inject(struct clock *clock, struct injected injected);

/* Read both clocks together. Call it before stamps are converted. */
void clock_read(struct clock *clock);

/* A realtime stamp on the raw clock. False: the realtime clock was stepped around it, or it is too old to know. */
bool clock_raw(const struct clock *clock, int64_t real_ns, int64_t *raw_ns);

/* Host time of a raw time up to about now; later raw times are never earlier. */
int64_t clock_host(struct clock *clock, int64_t raw_ns);

#endif
