/* The clock of a NIC that stamps packets itself, brought to the raw clock. Nothing of the NIC is changed: its stamps must
   be on already (`hwstamp_ctl -i NIC -t 1 -r 1`, or a PTP daemon that did so).

   Not yet run on such a NIC: none was at hand. */
#ifndef LEADLINE_PHC_H
#define LEADLINE_PHC_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"

struct phc {
    int fd; /* -1: not open */
    struct clock clock; /* its readings are of the NIC's clock in place of the realtime one */
    int64_t read_ns;    /* raw */
};

/* Errors: a sentence in `why`. */
bool phc_open(struct phc *phc, const char *nic, char why[200]);

/* Read it together with the system's clock, twenty times a second at most: each reading crosses the bus. */
void phc_read(struct phc *phc, const struct clock *system, int64_t now_raw_ns);

#endif
