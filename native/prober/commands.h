/* The lines on standard input: what is wanted of the prober.

     set name HOST          set id HEX            set key 32 HEX DIGITS     set boot HEX (tests)
     set address ADDRESS    set port PORT         set ports COUNT           set dscp 0..63
     set rate PAIRS/S       set report_ms MS      set window_ms MS          set soft SHARE     set points all|second
     set silent_ms MS       set batch_ms MS       set stamps hardware|kernel|user
     set record FILE        set nic NAME (whose stamps, if hardware)
     clock OFFSET_NS RATE_PPB WALK_PPB SINE_PPB SINE_S SEED [SINCE_RAW_NS BASE_NS]       (tests and labs: an injected clock)
     start                  what is set holds from here on
     add ID NAME ADDRESS PORT owned|answers
     remove ID
     trace ID LABEL HOPS    tell the routers on the way of a label, up to so many hops; a line of kind trace in half a second
     stop

   A line that cannot be followed is answered by one of kind "refused" and changes nothing. */
#ifndef LEADLINE_COMMANDS_H
#define LEADLINE_COMMANDS_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"
#include "edge.h"
#include "wire.h"

enum { WORD_BYTES = 256, LINE_BYTES = 1024 };

struct options {
    char name[NAME_BYTES], address[64], record[WORD_BYTES], nic[16];
    uint64_t id;
    uint8_t key[WIRE_KEY_BYTES];
    bool has_key, has_clock, second_only;
    uint32_t boot;
    uint16_t port;
    int ports, dscp;
    double rate, soft;
    int64_t report_ns, window_ns, silent_ns, batch_ns;
    enum stamp_kind stamps;
    struct injected clock;
};

enum command_kind { COMMAND_NONE, COMMAND_SET, COMMAND_START, COMMAND_ADD, COMMAND_REMOVE, COMMAND_TRACE, COMMAND_STOP, COMMAND_BAD };

struct command {
    enum command_kind kind;
    uint64_t id;
    char name[NAME_BYTES];
    struct address address;
    bool is_owned;
    int label, hops;
    const char *why; /* of COMMAND_BAD: what was expected */
};

struct options options_default(void);

/* One line, without its end; options change only where all of it is understood. */
struct command command_parse(const char *line, struct options *options);

/* What is still missing before a start; NULL: nothing. */
const char *options_missing(const struct options *options);

#endif
