/* Random and mutated packets, commands and points through what reads them, for some seconds: what leaves memory, wraps or
   hangs is found by the sanitizers. No libFuzzer; the seed is told, so that a run can be had again.

       fuzz SECONDS [SEED] */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "commands.h"
#include "edge.h"
#include "fit.h"
#include "wire.h"

static uint64_t state;

static uint64_t draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static const uint8_t KEY[WIRE_KEY_BYTES] = "0123456789abcde";
enum { OWN = 1, PEER = 2, OWN_BOOT = 77, PEER_BOOT = 88 };

/* Packets that the peer could have sent, with values at the borders, half of them damaged afterwards. */
static size_t some_packet(uint8_t *out, size_t room, uint64_t seq) {
    if (draw() % 8 == 0) {
        size_t bytes = draw() % room;
        for (size_t i = 0; i < bytes; i++) out[i] = (uint8_t)draw();
        return bytes;
    }
    static const int64_t times[] = {0, 1, 1795869243327682352, (int64_t)1 << 62, INT64_MAX, INT64_MIN, -1};
    struct wire_packet packet = {.sender = draw() % 16 ? PEER : draw() % 4, .seq = draw() % 512 ? seq + draw() % 3 : draw() >> draw() % 64,
                                 .base_ns = draw() % 64 ? times[2] + (int64_t)(seq * 10000000) : times[draw() % 7],
                                 .boot = draw() % 64 ? PEER_BOOT : (uint32_t)draw(), .newest = (uint16_t)(2 * seq), .count = (uint16_t)draw(),
                                 .position = draw() & 1, .traffic_class = draw() % 32 ? 0 : (uint8_t)draw(),
                                 .label = draw() % 32 ? draw() & 1 : (uint8_t)draw(), .tx_kind = draw() % 32 ? 1 : 3, .rx_kind = draw() % 3};
    for (int i = 0; i < WIRE_STAMPS; i++) {
        packet.sent[i] = (struct wire_stamp){(int64_t)((uint64_t)packet.base_ns - draw() % 3000000), draw() % 17};
        packet.received[i] = (struct wire_stamp){(int64_t)((uint64_t)packet.base_ns - draw() % 3000000), draw() % 17};
    }
    wire_encode(&packet, KEY, OWN, draw() % 16 ? OWN_BOOT : 0, out);
    size_t bytes = WIRE_BYTES;
    if (draw() % 2) out[draw() % WIRE_BYTES] ^= (uint8_t)(1 << draw() % 8);
    if (draw() % 16 == 0) bytes = draw() % room;
    return bytes;
}

static void packets(struct peers *peers) {
    uint8_t data[WIRE_BYTES + 20] = {0}, line[WIRE_BYTES];
    char out[4096];
    int64_t raw = 1000000000 + (int64_t)(draw() % 1000), base = 1795869243327682352;
    for (int i = 0; i < 200; i++, raw += 10000000) {
        struct peer *peer = peers_find(peers, PEER);
        for (int label = 0; label < 2; label++)
            for (int position = 0; position < 2; position++) {
                struct sent_ref ref;
                lane_next(peers, peer, label, position, raw + base, STAMP_KERNEL, line, &ref);
                if (draw() % 8) peers_sent(peers, &ref, raw, raw + base, STAMP_KERNEL);
            }
        size_t bytes = some_packet(data, sizeof data, (uint64_t)i);
        /* From an allocation of just this size, so that a read past its end is seen. */
        uint8_t *exact = malloc(bytes ? bytes : 1);
        if (!exact) abort();
        memcpy(exact, data, bytes);
        enum refusal refusal = peers_received(peers, exact, bytes, raw, raw + base, STAMP_KERNEL, (int64_t)(draw() % 1000));
        if (refusal >= REFUSALS || !refusal_name(refusal)) abort();
        free(exact);
        if (draw() % 16 == 0 && lane_report(peers, peer, (int)(draw() & 1), 9, "own", raw + base, 1, out, sizeof out) >= (int)sizeof out) abort();
    }
}

static void commands(void) {
    static const char *const words[] = {"set", "add", "remove", "start", "stop", "trace", "clock", "id", "key", "port", "rate", "name",
                                        "0", "1", "ffffffffffffffffffffff", "-1", "1e400", "nan", "127.0.0.1", "::1", "owned", "9x", "\"", "",
                                        "00112233445566778899aabbccddeeff", "soft", "window_ms", "999999", "record", "address"};
    char line[LINE_BYTES + 64] = "";
    size_t bytes = 0;
    for (uint64_t count = draw() % 10; count > 0 && bytes < LINE_BYTES - 64; count--)
        bytes += (size_t)snprintf(line + bytes, sizeof line - bytes, "%s ", words[draw() % (sizeof words / sizeof *words)]);
    if (bytes && draw() % 2) line[draw() % bytes] = (char)(1 + draw() % 255);
    struct options options = options_default(), before = options;
    struct command command = command_parse(line, &options);
    if (command.kind == COMMAND_BAD && (!command.why || memcmp(&options, &before, sizeof options))) abort();
    options_missing(&options);
}

static void fits(void) {
    static struct fit_point upper[FIT_POINTS_MAX], lower[FIT_POINTS_MAX];
    struct fit fit;
    int32_t uppers = (int32_t)(draw() % 300), lowers = (int32_t)(draw() % 300);
    int64_t end = 1795869243327682352, spread = 1 + (int64_t)(draw() % 100000), t = end - 2000000000;
    for (int32_t i = 0; i < uppers; i++) upper[i] = (struct fit_point){t += (int64_t)(draw() % 8000000), (int64_t)(draw() % (uint64_t)spread)};
    t = end - 2000000000;
    for (int32_t i = 0; i < lowers; i++) lower[i] = (struct fit_point){t += (int64_t)(draw() % 3), -(int64_t)(draw() % (uint64_t)spread)};
    fit_edge(upper, uppers, lower, lowers, end, 2000000000, (double)(draw() % 50) / 100, &fit);
}

int main(int count, char **arguments) {
    double seconds = count > 1 ? atof(arguments[1]) : 10;
    state = count > 2 ? strtoull(arguments[2], NULL, 10) : (uint64_t)time(NULL);
    if (!state) state = 1;
    printf("seed %llu\n", (unsigned long long)state);
    struct timespec began, now;
    clock_gettime(CLOCK_MONOTONIC, &began);
    unsigned long long rounds = 0;
    uint64_t accepted = 0, refused = 0;
    do {
        static struct peers peers;
        memset(&peers, 0, sizeof peers);
        peers.labels = 2, peers.own = OWN, peers.own_boot = OWN_BOOT, peers.window_ns = 2000000000, peers.soft = 0.02;
        memcpy(peers.key, KEY, sizeof peers.key);
        struct address nowhere = {0};
        peers_add(&peers, PEER, "peer", nowhere, true, 0);
        packets(&peers);
        for (int i = 0; i < 20; i++) commands(), fits();
        accepted += peers.accepted;
        for (int i = 1; i < REFUSALS; i++) refused += peers.refused[i];
        peers_remove(&peers, PEER);
        rounds++;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((double)(now.tv_sec - began.tv_sec) + (double)(now.tv_nsec - began.tv_nsec) / 1e9 < seconds);
    printf("%llu rounds, %llu packets accepted, %llu refused\n", rounds, (unsigned long long)accepted, (unsigned long long)refused);
    return 0;
}
