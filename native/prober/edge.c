#include "edge.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"

static const int64_t MINIMA_NS = 10000000000;
static const int64_t HELLO_AFTER_NS = 1000000000; /* a hello replaces a boot only where nothing was heard for so long */

static void forget(struct way *way) {
    memset(way, 0, sizeof *way);
    for (int i = 0; i < EDGE_MINIMA; i++) way->minima[i] = INT64_MAX;
}

/* Nothing that came from an earlier life of the peer is of use; our own numbers go on. */
static void forget_lane(struct lane *lane) {
    memset(lane->received, 0, sizeof lane->received);
    forget(&lane->there);
    forget(&lane->back);
    lane->kind = STAMP_HARDWARE;
}

struct peer *peers_find(struct peers *peers, uint64_t id) {
    for (int i = 0; i < peers->used; i++)
        if (peers->at[i].life && peers->at[i].id == id) return &peers->at[i];
    return NULL;
}

bool peers_add(struct peers *peers, uint64_t id, const char *name, struct address address, bool is_owned, int64_t now_raw_ns) {
    int at = 0;
    while (at < peers->used && peers->at[at].life) at++;
    if (at == PEERS_MAX) return false;
    struct lane *lanes = calloc((size_t)peers->labels, sizeof *lanes);
    if (!lanes) return false;
    struct peer *peer = &peers->at[at];
    *peer = (struct peer){.life = ++peers->lives, .id = id, .address = address, .is_owned = is_owned, .lanes = lanes};
    snprintf(peer->name, sizeof peer->name, "%s", name);
    peer->heard_raw_ns = peer->nominal_raw_ns = peer->due_raw_ns = now_raw_ns;
    for (int i = 0; i < peers->labels; i++) {
        forget_lane(&lanes[i]);
        lanes[i].heard_raw_ns = now_raw_ns;
    }
    if (at == peers->used) peers->used++;
    return true;
}

bool peers_remove(struct peers *peers, uint64_t id) {
    struct peer *peer = peers_find(peers, id);
    if (!peer) return false;
    free(peer->lanes);
    memset(peer, 0, sizeof *peer);
    return true;
}

static struct seen *slot_of(struct seen *ring, uint64_t number) { return &ring[number % EDGE_RING]; }

static bool is_there(const struct seen *slot, uint64_t number) { return slot->is_known && slot->number == number; }

void lane_next(struct peers *peers, struct peer *peer, int label, int position, int64_t host_ns, enum stamp_kind kind,
               uint8_t out[WIRE_BYTES], struct sent_ref *ref) {
    struct lane *lane = &peer->lanes[label];
    struct wire_packet packet = {.sender = peers->own, .boot = peers->own_boot, .seq = lane->next_seq,
                                 .position = (uint8_t)position, .traffic_class = (uint8_t)peers->traffic_class,
                                 .label = (uint8_t)label, .tx_kind = (uint8_t)kind, .rx_kind = (uint8_t)kind, .base_ns = host_ns};
    uint64_t first = 2 * lane->next_seq;
    int have = 0;
    for (uint64_t back = 1; back <= WIRE_BACK_MAX && back <= first && have < WIRE_STAMPS; back++) {
        const struct seen *slot = slot_of(lane->sent, first - back);
        if (is_there(slot, first - back)) packet.sent[have++] = (struct wire_stamp){slot->host_ns, back};
    }
    have = 0;
    uint64_t newest = lane->back.newest;
    for (uint64_t back = 1; lane->back.has_any && back <= WIRE_BACK_MAX && back <= newest + 1 && have < WIRE_STAMPS; back++) {
        const struct seen *slot = slot_of(lane->received, newest + 1 - back);
        if (!is_there(slot, newest + 1 - back)) continue;
        packet.received[have++] = (struct wire_stamp){slot->host_ns, back};
        if (slot->kind < packet.rx_kind) packet.rx_kind = slot->kind;
    }
    packet.newest = (uint16_t)newest;
    packet.count = (uint16_t)lane->back.received;
    wire_encode(&packet, peers->key, peer->id, peer->boot, out);
    uint64_t number = first + (uint64_t)position;
    *slot_of(lane->sent, number) = (struct seen){.number = number};
    *ref = (struct sent_ref){.peer = (uint32_t)(peer - peers->at), .life = peer->life, .number = number};
    ref->label = (uint8_t)label;
    if (position) lane->next_seq++;
}

void peers_sent(struct peers *peers, const struct sent_ref *ref, int64_t raw_ns, int64_t host_ns, enum stamp_kind kind) {
    struct peer *peer = &peers->at[ref->peer];
    if (peer->life != ref->life) return; /* removed meanwhile */
    struct seen *slot = slot_of(peer->lanes[ref->label].sent, ref->number);
    if (slot->number != ref->number) return;
    slot->raw_ns = raw_ns;
    slot->host_ns = host_ns;
    slot->kind = (uint8_t)kind;
    slot->is_known = true;
}

static void insert(struct points *points, struct fit_point point) {
    if (points->count == FIT_POINTS_MAX) memmove(points->at, points->at + 1, sizeof *points->at * --points->count);
    int32_t at = points->count++;
    for (; at > 0 && points->at[at - 1].t > point.t; at--) points->at[at] = points->at[at - 1];
    points->at[at] = point;
}

static void take_point(struct lane *lane, struct way *way, struct fit_point point, bool fits, int kind) {
    if (fits) insert(&way->points, point);
    if (way->fresh_count < EDGE_FRESH) way->fresh[way->fresh_count++] = point;
    if (kind < lane->kind) lane->kind = (uint8_t)kind;
}

/* Binary, network byte order: see recorded.py. */
static void record(struct peers *peers, uint64_t src, uint64_t dst, int label, uint64_t number, int64_t tx, int64_t rx,
                   int64_t own_raw_ns, int kind) {
    uint8_t row[52];
    put_bytes(row, src, 8);
    put_bytes(row + 8, dst, 8);
    row[16] = (uint8_t)label;
    row[17] = (uint8_t)peers->traffic_class;
    row[18] = number & 1;
    row[19] = (uint8_t)kind;
    put_bytes(row + 20, number >> 1, 8);
    put_bytes(row + 28, (uint64_t)tx, 8);
    put_bytes(row + 36, (uint64_t)rx, 8);
    put_bytes(row + 44, (uint64_t)own_raw_ns, 8);
    fwrite(row, sizeof row, 1, peers->record);
}

static int least(int one, int other) { return one < other ? one : other; }

/* The peer's transmit stamps meet our receive stamps. */
static void pair_received(struct peers *peers, struct peer *peer, struct lane *lane, const struct wire_packet *packet) {
    for (int i = 0; i < WIRE_STAMPS; i++) {
        uint64_t back = packet->sent[i].back, first = 2 * packet->seq;
        if (!back || back > first) continue;
        struct seen *slot = slot_of(lane->received, first - back);
        if (!is_there(slot, first - back) || slot->is_paired) continue;
        slot->is_paired = true;
        struct fit_point point = {slot->host_ns, packet->sent[i].ns - slot->host_ns};
        int kind = least(packet->tx_kind, slot->kind);
        take_point(lane, &lane->back, point, !peers->second_only || (slot->number & 1), kind);
        if (peers->record)
            record(peers, peer->id, peers->own, packet->label, slot->number, packet->sent[i].ns, slot->host_ns, slot->raw_ns, kind);
    }
}

/* The peer's receive stamps meet our transmit stamps. */
static void pair_sent(struct peers *peers, struct peer *peer, struct lane *lane, const struct wire_packet *packet) {
    bool tells = false;
    uint64_t sent = 2 * lane->next_seq; /* the number of the newest is less */
    if (!sent) return;
    uint64_t newest = sent - 1 - (uint16_t)(sent - 1 - packet->newest);
    if (newest >= sent) return;
    for (int i = 0; i < WIRE_STAMPS; i++) {
        uint64_t back = packet->received[i].back;
        if (!back || back > newest + 1) continue;
        tells = true;
        struct seen *slot = slot_of(lane->sent, newest + 1 - back);
        if (!is_there(slot, newest + 1 - back) || slot->is_paired) continue;
        slot->is_paired = true;
        struct fit_point point = {slot->host_ns, packet->received[i].ns - slot->host_ns};
        int kind = least(packet->rx_kind, slot->kind);
        take_point(lane, &lane->there, point, !peers->second_only || (slot->number & 1), kind);
        if (peers->record)
            record(peers, peers->own, peer->id, packet->label, slot->number, slot->host_ns, packet->received[i].ns, slot->raw_ns, kind);
    }
    if (!tells) return;
    struct way *there = &lane->there;
    if (!there->has_any) {
        there->has_any = true;
        there->newest = there->told_newest = newest;
        there->received = there->told_received = packet->count;
    } else if (newest > there->newest) {
        there->newest = newest;
        there->received += (uint16_t)(packet->count - (uint16_t)there->received);
    }
}

static bool was_boot(const struct peer *peer, uint32_t boot) {
    for (uint32_t i = 0; i < OLD_BOOTS; i++)
        if (peer->old_boots[i] == boot) return true;
    return false;
}

static void adopt(struct peers *peers, struct peer *peer, uint32_t boot) {
    if (peer->boot) peer->old_boots[peer->old_count++ % OLD_BOOTS] = peer->boot;
    peer->boot = boot;
    for (int i = 0; i < peers->labels; i++) forget_lane(&peer->lanes[i]);
}

/* A hello says which boot to tag for; who has the peer's ear already needs none. */
static enum refusal greet(struct peers *peers, struct peer *peer, const struct wire_packet *packet, int64_t raw_ns) {
    peers->hellos++;
    if (packet->boot == peer->boot) return ACCEPTED;
    if (was_boot(peer, packet->boot)) return REFUSED_BOOT;
    if (!peer->boot || raw_ns - peer->heard_raw_ns > HELLO_AFTER_NS) adopt(peers, peer, packet->boot);
    return ACCEPTED;
}

static enum refusal take(struct peers *peers, const uint8_t *data, size_t bytes, int64_t raw_ns, int64_t host_ns,
                         enum stamp_kind kind, int64_t late_ns) {
    struct wire_packet packet;
    enum refusal refusal = wire_decode(data, bytes, peers->key, peers->own, peers->own_boot, &packet);
    if (refusal) return refusal;
    struct peer *peer = peers_find(peers, packet.sender);
    if (!peer) return REFUSED_STRANGER;
    if (packet.label >= peers->labels) return REFUSED_FIELD;
    if (packet.is_hello) return greet(peers, peer, &packet, raw_ns);
    if (packet.boot != peer->boot) {
        if (was_boot(peer, packet.boot)) return REFUSED_BOOT;
        adopt(peers, peer, packet.boot);
    }
    struct lane *lane = &peer->lanes[packet.label];
    struct way *back = &lane->back;
    uint64_t number = 2 * packet.seq + packet.position;
    struct seen *slot = slot_of(lane->received, number);
    if (is_there(slot, number) || (back->has_any && number + EDGE_RING <= back->newest)) return REFUSED_REPLAYED;
    *slot = (struct seen){.number = number, .host_ns = host_ns, .raw_ns = raw_ns, .kind = (uint8_t)kind, .is_known = true};
    if (!back->has_any) {
        back->has_any = true;
        back->told_newest = number - 1; /* wraps at the first packet, and back below */
        back->newest = number;
    }
    if (number > back->newest) back->newest = number;
    back->received++;
    if (raw_ns > lane->heard_raw_ns) lane->heard_raw_ns = raw_ns;
    lane->was_heard = true;
    if (raw_ns > peer->heard_raw_ns) peer->heard_raw_ns = raw_ns;
    if (lane->late_count < EDGE_FRESH) lane->late[lane->late_count++] = late_ns;
    if (!peer->is_owned) return ACCEPTED;
    pair_received(peers, peer, lane, &packet);
    pair_sent(peers, peer, lane, &packet);
    return ACCEPTED;
}

enum refusal peers_received(struct peers *peers, const uint8_t *data, size_t bytes, int64_t raw_ns, int64_t host_ns,
                            enum stamp_kind kind, int64_t late_ns) {
    enum refusal refusal = take(peers, data, bytes, raw_ns, host_ns, kind, late_ns);
    if (refusal) peers->refused[refusal]++;
    else peers->accepted++;
    return refusal;
}

int lane_silence(struct lane *lane, int64_t now_raw_ns, int64_t limit_ns, int64_t *age_ns) {
    *age_ns = now_raw_ns - lane->heard_raw_ns;
    if (!lane->was_heard) limit_ns = limit_ns > HELLO_AFTER_NS ? limit_ns : HELLO_AFTER_NS;
    if (*age_ns > limit_ns && !lane->is_silent) return lane->is_silent = true, 1;
    if (*age_ns <= limit_ns && lane->is_silent) return lane->is_silent = false, -1;
    return 0;
}

static void trim(struct points *points, int64_t from_ns) {
    int32_t old = 0;
    while (old < points->count && points->at[old].t < from_ns) old++;
    if (old) memmove(points->at, points->at + old, sizeof *points->at * (size_t)(points->count -= old));
}

static int by_value(const void *one, const void *other) {
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

/* The smallest value that a share of them does not exceed. */
static int64_t quantile(const int64_t *sorted, int32_t count, double share) {
    int32_t at = (int32_t)ceil(share * count) - 1;
    return sorted[at < 0 ? 0 : at];
}

static int64_t smallest_lately(struct way *way, int64_t smallest, int64_t end_ns) {
    int64_t now = end_ns / MINIMA_NS;
    if (now - way->minima_at > EDGE_MINIMA || now < way->minima_at) way->minima_at = now - EDGE_MINIMA;
    while (way->minima_at < now) way->minima[++way->minima_at % EDGE_MINIMA] = INT64_MAX;
    int64_t *newest = &way->minima[now % EDGE_MINIMA];
    if (smallest < *newest) *newest = smallest;
    for (int i = 0; i < EDGE_MINIMA; i++)
        if (way->minima[i] < smallest) smallest = way->minima[i];
    return smallest;
}

static int tell_way(struct way *way, const struct fit *fit, double sign, int64_t end_ns, char *out, int bytes) {
    int64_t delays[EDGE_FRESH];
    int32_t count = fit->state == FIT_VALID ? way->fresh_count : 0;
    for (int32_t i = 0; i < count; i++) {
        double line = fit->rate_ppb * 1e-9 * (double)(way->fresh[i].t - end_ns);
        delays[i] = (int64_t)llrint(sign * ((double)(way->fresh[i].d - fit->offset_ns) - line));
    }
    qsort(delays, (size_t)count, sizeof *delays, by_value);
    uint64_t sent = way->newest - way->told_newest, received = way->received - way->told_received;
    int used = snprintf(out, (size_t)bytes, "{\"count\":%d,\"sent\":%" PRIu64 ",\"lost\":%" PRIu64, way->fresh_count, sent,
                        received < sent ? sent - received : 0);
    if (count) {
        int64_t p99 = quantile(delays, count, 0.99);
        used += snprintf(out + used, (size_t)(bytes - used),
                         ",\"min_ns\":%" PRId64 ",\"p50_ns\":%" PRId64 ",\"p99_ns\":%" PRId64 ",\"queue_p99_ns\":%" PRId64, delays[0],
                         quantile(delays, count, 0.5), p99, p99 - smallest_lately(way, delays[0], end_ns));
    }
    way->fresh_count = 0;
    way->told_newest = way->newest;
    way->told_received = way->received;
    return used + snprintf(out + used, (size_t)(bytes - used), "}");
}

static const char *const STATES[] = {"valid", "few-points", "few-corners", "torn", "no-overlap"};

int lane_report(struct peers *peers, struct peer *peer, int label, uint16_t src_port, const char *own_name,
                int64_t end_ns, int64_t report_ns, char *out, int bytes) {
    struct lane *lane = &peer->lanes[label];
    struct points *upper = &lane->there.points, *lower = &lane->back.points;
    trim(upper, end_ns - peers->window_ns);
    trim(lower, end_ns - peers->window_ns);
    struct fit fit;
    fit_edge(upper->at, upper->count, lower->at, lower->count, end_ns, peers->window_ns, peers->soft, &fit);
    bool has_line = fit.state == FIT_VALID, has_stamps = lane->there.fresh_count || lane->back.fresh_count;
    int used = snprintf(out, (size_t)bytes,
                        "{\"kind\":\"edge\",\"src\":\"%s\",\"dst\":\"%s\",\"label\":%d,\"src_port\":%u,\"back_port\":%d,\"class\":%d,\"end_ns\":%" PRId64
                        ",\"window_ns\":%" PRId64 ",\"report_ns\":%" PRId64 ",\"count\":%d,\"corners\":%d,\"valid\":%s,\"state\":\"%s\"",
                        own_name, peer->name, label, src_port, address_port(&peer->address) + label, peers->traffic_class, end_ns, peers->window_ns, report_ns,
                        fit.upper + fit.lower, least(fit.upper_hull, fit.lower_hull), has_line ? "true" : "false", STATES[fit.state]);
    if (has_line)
        used += snprintf(out + used, (size_t)(bytes - used),
                         ",\"offset_ns\":%" PRId64 ",\"rate_ppb\":%.3f,\"bound_ns\":%.0f,\"width_ns\":%.1f,\"noise_ns\":%.2f",
                         fit.offset_ns, fit.rate_ppb, ceil(fit.bound_ns), fit.width_ns, fit.noise_ns);
    used += snprintf(out + used, (size_t)(bytes - used), ",\"stamp\":\"%s\",\"there\":",
                     has_stamps ? stamp_name(lane->kind) : "none");
    used += tell_way(&lane->there, &fit, 1, end_ns, out + used, bytes - used);
    used += snprintf(out + used, (size_t)(bytes - used), ",\"back\":");
    used += tell_way(&lane->back, &fit, -1, end_ns, out + used, bytes - used);
    if (lane->late_count) {
        qsort(lane->late, (size_t)lane->late_count, sizeof *lane->late, by_value);
        used += snprintf(out + used, (size_t)(bytes - used), ",\"stall_p99_ns\":%" PRId64, quantile(lane->late, lane->late_count, 0.99));
    }
    lane->late_count = 0;
    lane->kind = STAMP_HARDWARE;
    return used + snprintf(out + used, (size_t)(bytes - used), "}\n");
}
