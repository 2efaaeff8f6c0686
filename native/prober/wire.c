#include "wire.h"

#include <string.h>

#include "bytes.h"
#include "siphash.h"

enum {
    AT_VERSION = 2, AT_LENGTH = 3, AT_SENDER = 4, AT_BOOT = 12, AT_SEQ = 16, AT_BITS = 24, AT_CLASS = 25, AT_LABEL = 26,
    AT_BASE = 27, AT_SENT = 35, AT_NEWEST = 53, AT_COUNT = 55, AT_RECEIVED = 57, AT_TAG = 75,
    MAGIC = 0x4c50, CLASS_MAX = 63
};

/* 1970 to 2116: no difference of two times within wraps. */
static const int64_t BASE_MIN = 0, BASE_MAX = (int64_t)1 << 62;

static const char *const REFUSAL_NAMES[REFUSALS] = {
    "accepted", "truncated", "magic", "version", "length", "reflected", "tag", "field", "stranger", "replayed", "boot"};
static const char *const STAMP_NAMES[STAMP_KINDS] = {"user", "kernel", "hardware"};

const char *refusal_name(enum refusal refusal) { return REFUSAL_NAMES[refusal]; }

const char *stamp_name(enum stamp_kind kind) { return STAMP_NAMES[kind]; }

static uint64_t tag_of(const uint8_t *data, const uint8_t *key, uint64_t receiver, uint32_t receiver_boot) {
    uint8_t hashed[AT_TAG + 12];
    memcpy(hashed, data, AT_TAG);
    put_bytes(hashed + AT_TAG, receiver, 8);
    put_bytes(hashed + AT_TAG + 8, receiver_boot, 4);
    return siphash24(key, hashed, sizeof hashed);
}

/* Without a branch on the value: how long it takes says nothing about the tag. */
static int equal(uint64_t one, uint64_t other) {
    volatile uint64_t different = one ^ other;
    return different == 0;
}

static void put_stamps(uint8_t *at, const struct wire_stamp *stamps, int64_t base_ns) {
    memset(at, 0, 2 + 4 * WIRE_STAMPS);
    for (int i = 0; i < WIRE_STAMPS; i++) {
        /* Wraps where the two are centuries apart, and then fits no better. */
        int64_t less = (int64_t)((uint64_t)stamps[i].ns - (uint64_t)base_ns);
        if (stamps[i].back == 0 || stamps[i].back > WIRE_BACK_MAX || less > INT32_MAX || less < INT32_MIN) continue;
        at[i / 2] |= (uint8_t)(stamps[i].back << (i % 2 ? 0 : 4));
        put_bytes(at + 2 + 4 * i, (uint32_t)(int32_t)less, 4);
    }
}

static void get_stamps(const uint8_t *at, struct wire_stamp *stamps, int64_t base_ns) {
    for (int i = 0; i < WIRE_STAMPS; i++) {
        int64_t less = (int32_t)(uint32_t)get_bytes(at + 2 + 4 * i, 4);
        stamps[i].back = at[i / 2] >> (i % 2 ? 0 : 4) & 15;
        stamps[i].ns = stamps[i].back ? (int64_t)((uint64_t)base_ns + (uint64_t)less) : 0;
    }
}

void wire_encode(const struct wire_packet *packet, const uint8_t key[WIRE_KEY_BYTES], uint64_t receiver,
                 uint32_t receiver_boot, uint8_t out[WIRE_BYTES]) {
    put_bytes(out, MAGIC, 2);
    out[AT_VERSION] = WIRE_VERSION;
    out[AT_LENGTH] = WIRE_BYTES;
    put_bytes(out + AT_SENDER, packet->sender, 8);
    put_bytes(out + AT_BOOT, packet->boot, 4);
    put_bytes(out + AT_SEQ, packet->seq, 8);
    out[AT_BITS] = (uint8_t)((packet->position & 1) | (packet->tx_kind & 3) << 1 | (packet->rx_kind & 3) << 3);
    out[AT_CLASS] = packet->traffic_class;
    out[AT_LABEL] = packet->label;
    put_bytes(out + AT_BASE, (uint64_t)packet->base_ns, 8);
    put_stamps(out + AT_SENT, packet->sent, packet->base_ns);
    put_bytes(out + AT_NEWEST, packet->newest, 2);
    put_bytes(out + AT_COUNT, packet->count, 2);
    put_stamps(out + AT_RECEIVED, packet->received, packet->base_ns);
    put_bytes(out + AT_TAG, tag_of(out, key, receiver, receiver_boot), 8);
}

enum refusal wire_decode(const uint8_t *data, size_t bytes, const uint8_t key[WIRE_KEY_BYTES], uint64_t own,
                         uint32_t own_boot, struct wire_packet *out) {
    if (bytes < 4) return REFUSED_TRUNCATED;
    if (get_bytes(data, 2) != MAGIC) return REFUSED_MAGIC;
    if (data[AT_VERSION] != WIRE_VERSION) return REFUSED_VERSION;
    if (bytes < WIRE_BYTES) return REFUSED_TRUNCATED;
    if (bytes > WIRE_BYTES || data[AT_LENGTH] != WIRE_BYTES) return REFUSED_LENGTH;
    memset(out, 0, sizeof *out);
    out->sender = get_bytes(data + AT_SENDER, 8);
    if (out->sender == own) return REFUSED_REFLECTED;
    uint64_t tag = get_bytes(data + AT_TAG, 8);
    int is_ours = equal(tag, tag_of(data, key, own, own_boot));
    out->is_hello = !is_ours && equal(tag, tag_of(data, key, own, 0));
    if (!is_ours && !out->is_hello) return REFUSED_TAG;
    out->boot = (uint32_t)get_bytes(data + AT_BOOT, 4);
    out->seq = get_bytes(data + AT_SEQ, 8);
    uint8_t bits = data[AT_BITS];
    out->position = bits & 1;
    out->tx_kind = bits >> 1 & 3;
    out->rx_kind = bits >> 3 & 3;
    out->traffic_class = data[AT_CLASS];
    out->label = data[AT_LABEL];
    if (bits >> 5 || out->tx_kind >= STAMP_KINDS || out->rx_kind >= STAMP_KINDS || out->traffic_class > CLASS_MAX ||
        out->label >= WIRE_LABELS || out->boot == 0 || out->seq > INT64_MAX / 2)
        return REFUSED_FIELD;
    out->base_ns = (int64_t)get_bytes(data + AT_BASE, 8);
    if (out->base_ns < BASE_MIN || out->base_ns > BASE_MAX) return REFUSED_FIELD;
    get_stamps(data + AT_SENT, out->sent, out->base_ns);
    out->newest = (uint16_t)get_bytes(data + AT_NEWEST, 2);
    out->count = (uint16_t)get_bytes(data + AT_COUNT, 2);
    get_stamps(data + AT_RECEIVED, out->received, out->base_ns);
    return ACCEPTED;
}
