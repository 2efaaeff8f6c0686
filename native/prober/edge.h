/* What is known of the peers, by label: packets sent and received, the points of the fit, delays, losses, silence. No
   system call is made here; times come as arguments. */
#ifndef LEADLINE_EDGE_H
#define LEADLINE_EDGE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "clock.h"
#include "fit.h"
#include "net.h"
#include "wire.h"

enum {
    EDGE_RING = 256,      /* packets remembered each way: 2.5 s at 50 pairs/s */
    EDGE_FRESH = 512,     /* delays of one report: 2 s at 125 pairs/s */
    EDGE_MINIMA = 30,     /* the smallest delay is of the last five minutes, in tens of seconds */
    PEERS_MAX = 64,
    NAME_BYTES = 128,
    OLD_BOOTS = 8
};

/* One packet sent or received. */
struct seen {
    uint64_t number;
    int64_t host_ns, raw_ns;
    uint8_t kind;
    bool is_known;  /* has its stamp */
    bool is_paired; /* has met the stamp of the other end */
};

struct points {
    struct fit_point at[FIT_POINTS_MAX];
    int32_t count;
};

struct way {
    struct points points;               /* of the window */
    struct fit_point fresh[EDGE_FRESH]; /* since the last report */
    int32_t fresh_count;
    int64_t minima[EDGE_MINIMA]; /* of each ten seconds; INT64_MAX: none */
    int64_t minima_at;           /* number of the newest ten seconds */
    uint64_t newest, received;   /* number of the newest packet that arrived, and how many did */
    uint64_t told_newest, told_received;
    bool has_any;
};

struct lane {
    struct seen sent[EDGE_RING], received[EDGE_RING];
    struct way there, back; /* from us, to us */
    uint64_t next_seq;
    int64_t heard_raw_ns; /* kernel stamp of the newest packet, or when the lane began */
    bool was_heard, is_silent;
    uint8_t kind; /* the least exact stamp of this report's points */
    int64_t late[EDGE_FRESH];
    int32_t late_count;
};

struct peer {
    uint32_t life; /* 0: the slot is free */
    uint64_t id;
    char name[NAME_BYTES];
    struct address address;
    bool is_owned;
    uint32_t boot, old_boots[OLD_BOOTS], old_count;
    int64_t heard_raw_ns;
    struct lane *lanes;
    int next_label;
    int64_t nominal_raw_ns, due_raw_ns;
};

struct peers {
    struct peer at[PEERS_MAX];
    int used; /* slots in use are below */
    uint32_t lives;
    int labels;
    uint32_t own_boot;
    uint64_t own;
    uint8_t key[WIRE_KEY_BYTES];
    int traffic_class;
    int64_t window_ns;
    double soft;
    bool second_only; /* the fit takes the second packet of each pair only */
    uint64_t accepted, hellos, refused[REFUSALS];
    FILE *record;
};

bool peers_add(struct peers *peers, uint64_t id, const char *name, struct address address, bool is_owned, int64_t now_raw_ns);
bool peers_remove(struct peers *peers, uint64_t id);
struct peer *peers_find(struct peers *peers, uint64_t id);

/* The next packet to a peer; `position` 0 opens a pair, 1 completes it. */
void lane_next(struct peers *peers, struct peer *peer, int label, int position, int64_t host_ns, enum stamp_kind kind,
               uint8_t out[WIRE_BYTES], struct sent_ref *ref);
void peers_sent(struct peers *peers, const struct sent_ref *ref, int64_t raw_ns, int64_t host_ns, enum stamp_kind kind);

/* A packet from outside. `late_ns`: how much later user space saw it than it wanted to. */
enum refusal peers_received(struct peers *peers, const uint8_t *data, size_t bytes, int64_t raw_ns, int64_t host_ns,
                            enum stamp_kind kind, int64_t late_ns);

/* One line of JSON about a lane; returns its length. Ends what was gathered for the report. */
int lane_report(struct peers *peers, struct peer *peer, int label, uint16_t src_port, const char *own_name,
                int64_t end_ns, int64_t report_ns, char *out, int bytes);

/* Whether the lane has just fallen silent (1) or is heard again (-1); `age_ns` for how long it was. */
int lane_silence(struct lane *lane, int64_t now_raw_ns, int64_t limit_ns, int64_t *age_ns);

#endif
