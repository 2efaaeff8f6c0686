/* The probe packet: its bytes, its tag, and why one is refused.

     0  u16  magic "LP"
     2  u8   version
     3  u8   length, 83
     4  u64  sender
    12  u32  boot: random, new whenever a prober starts
    16  u64  number of the pair
    24  u8   bits: 0 position in the pair, 1-2 kind of transmit stamps, 3-4 kind of receive stamps, 5-7 zero
    25  u8   traffic class (DSCP)
    26  u8   label: which of the sender's source ports
    27  i64  base: about when it was sent, ns on the sender's clock
    35  u4*4 packets sent before, counted back from the first of this pair; 0: none
    37  i32*4  ... when each was sent, ns less the base
    53  u16  newest packet received on this edge and label, low bits of its number
    55  u16  packets received on this edge and label, low bits of the count
    57  u4*4 packets received, counted back from the one after the newest; 0: none
    59  i32*4  ... when each was received, ns less the base
    75  u64  tag

   The number of a packet is twice that of its pair, and its position. Times of the last four packets travel with each
   one, as a transmit stamp is known only after its packet has left; each is told in four packets, so that a loss costs
   nothing. 83 bytes, because 1,000 of them a second in Ethernet frames are 1 Mbit/s.

   The tag is SipHash-2-4 over all before it, the receiver's id and the receiver's boot as the sender knows it. Neither
   travels; with them no packet counts that was meant for another host, or for an earlier life of this one. Who does not
   know the other's boot yet takes 0: that is a hello, which tells the sender's boot and nothing else. */
#ifndef LEADLINE_WIRE_H
#define LEADLINE_WIRE_H

#include <stddef.h>
#include <stdint.h>

enum { WIRE_BYTES = 83, WIRE_STAMPS = 4, WIRE_VERSION = 1, WIRE_BACK_MAX = 15, WIRE_LABELS = 16, WIRE_KEY_BYTES = 16 };

enum stamp_kind { STAMP_USER, STAMP_KERNEL, STAMP_HARDWARE, STAMP_KINDS };

enum refusal {
    ACCEPTED,
    REFUSED_TRUNCATED, /* shorter than a packet */
    REFUSED_MAGIC,     /* not a probe */
    REFUSED_VERSION,   /* another version */
    REFUSED_LENGTH,    /* longer, or of another length than it says */
    REFUSED_REFLECTED, /* says that we sent it */
    REFUSED_TAG,       /* forged, damaged, or meant for another host or an earlier life of this one */
    REFUSED_FIELD,     /* a value that none of ours sends */
    REFUSED_STRANGER,  /* from a host that is no peer */
    REFUSED_REPLAYED,  /* received before, or too old to know */
    REFUSED_BOOT,      /* from an earlier life of the peer */
    REFUSALS
};

struct wire_stamp {
    int64_t ns;
    uint64_t back; /* 0: no stamp */
};

struct wire_packet {
    uint64_t sender;
    uint64_t seq;
    int64_t base_ns;
    uint32_t boot;
    uint16_t newest;
    uint16_t count;
    uint8_t position;
    uint8_t traffic_class;
    uint8_t label;
    uint8_t tx_kind;
    uint8_t rx_kind;
    uint8_t is_hello; /* found by wire_decode */
    struct wire_stamp sent[WIRE_STAMPS];
    struct wire_stamp received[WIRE_STAMPS];
};

/* A stamp that is more than 2 s from the base, or more than 15 packets back, is left out. */
void wire_encode(const struct wire_packet *packet, const uint8_t key[WIRE_KEY_BYTES], uint64_t receiver,
                 uint32_t receiver_boot, uint8_t out[WIRE_BYTES]);

/* Any bytes give a packet or the reason why not. Does not look at who is a peer, nor at what came before. */
enum refusal wire_decode(const uint8_t *data, size_t bytes, const uint8_t key[WIRE_KEY_BYTES], uint64_t own,
                         uint32_t own_boot, struct wire_packet *out);

const char *refusal_name(enum refusal refusal);
const char *stamp_name(enum stamp_kind kind);

#endif
