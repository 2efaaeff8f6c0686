/* The sockets: one per source port, all sending to the peers' first port. Packets are taken and sent in batches, each with
   its stamps.

   Peers send to our first port only: with the same port at both ends, the two would cancel out in switches that hash by
   exclusive or, and all labels would take one path. The other sockets drop what strangers send to them, because packets
   that wait there would take the room of transmit stamps. */
#ifndef LEADLINE_NET_H
#define LEADLINE_NET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "clock.h"
#include "phc.h"
#include "wire.h"

enum { NET_BATCH = 64, NET_SENT = 512 };

/* Which packet a transmit stamp is of. */
struct sent_ref {
    uint32_t peer; /* index and life of the slot, see peers */
    uint32_t life;
    uint64_t number;
    int64_t user_raw_ns;
    uint8_t label;
    bool waits;
};

struct port {
    int fd;
    uint16_t number;
    uint32_t next_id; /* the kernel counts packets of a socket by it */
    uint32_t waiting; /* stamps that have not come yet */
    bool is_traced;   /* errors of routers come on its error queue */
    struct sent_ref refs[NET_SENT];
};

struct net {
    struct port ports[WIRE_LABELS];
    int labels;
    int family;
    enum stamp_kind kind; /* wanted; a packet without such a stamp says so */
    struct phc phc;
    uint64_t stamps_lost; /* transmit stamps that never came */
    uint64_t send_errors;
};

struct address {
    struct sockaddr_storage socket;
    socklen_t bytes;
};

uint16_t address_port(const struct address *address);

/* Errors: a sentence in `why`. */
bool address_parse(const char *text, uint16_t port, struct address *out);
bool net_open(struct net *net, const char *address, uint16_t port, int labels, int dscp, enum stamp_kind kind, char why[200]);

/* Have the NIC stamp packets, after net_open. False: kernel stamps stay; `why` says what was expected. */
bool net_use_nic(struct net *net, const char *nic, char why[200]);
void net_close(struct net *net);

struct outgoing {
    const struct address *to;
    uint8_t bytes[WIRE_BYTES];
    struct sent_ref ref;
};

/* Send up to NET_BATCH packets from one port; each bears the time just before its system call then. Returns how many the
   kernel took. */
int net_send(struct net *net, int label, struct outgoing *packets, int count);

struct stamp {
    int64_t raw_ns;
    enum stamp_kind kind;
};

/* Packets that die on the way: from the port of a label, with so few hops left. Each bears `id` and its hops; they are no
   probes, and a prober that receives one leaves it alone. False: none could be sent. */
enum { TRACE_HOPS_MAX = 32 };
bool net_trace(struct net *net, int label, const struct address *to, uint32_t id, int hops);
void net_trace_end(struct net *net, int label);
bool is_trace(const uint8_t *data, size_t bytes);

/* A router that told of a packet's end; called while transmit stamps are drained. */
typedef void (*take_hop)(void *context, int label, uint32_t id, int hop, const char *address);

/* All transmit stamps that have come. */
typedef void (*take_sent)(void *context, const struct sent_ref *ref, struct stamp stamp);
void net_drain_sent(struct net *net, struct clock *clock, take_sent take, take_hop hop, void *context);

/* All packets that have come, up to some thousands at a time. */
typedef void (*take_packet)(void *context, const uint8_t *data, size_t bytes, struct stamp stamp);
void net_drain_received(struct net *net, struct clock *clock, take_packet take, void *context);

#endif
