#define _GNU_SOURCE
#include "net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/errqueue.h>
#include <linux/filter.h>
#include <linux/net_tstamp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bytes.h"

enum { CONTROL_BYTES = 256, ROUNDS_MAX = 64, RECEIVE_BYTES = 1 << 20 };
static const int64_t EARLY_NS = 1000000; /* a transmit stamp this much before its system call is of another packet */

/* One batch of messages, for either way. */
struct batch {
    struct mmsghdr messages[NET_BATCH];
    struct iovec parts[NET_BATCH];
    char control[NET_BATCH][CONTROL_BYTES];
    uint8_t data[NET_BATCH][WIRE_BYTES + 1]; /* one more, so that a longer packet shows */
};
static struct batch batch;

static bool fail(char why[200], const char *what) {
    snprintf(why, 200, "%s: %s", what, strerror(errno));
    return false;
}

bool address_parse(const char *text, uint16_t port, struct address *out) {
    memset(out, 0, sizeof *out);
    struct sockaddr_in *four = (struct sockaddr_in *)&out->socket;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&out->socket;
    if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons(port);
        out->bytes = sizeof *four;
        return true;
    }
    if (inet_pton(AF_INET6, text, &six->sin6_addr) != 1) return false;
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(port);
    out->bytes = sizeof *six;
    return true;
}

uint16_t address_port(const struct address *address) {
    return ntohs(address->socket.ss_family == AF_INET ? ((const struct sockaddr_in *)&address->socket)->sin_port
                                                      : ((const struct sockaddr_in6 *)&address->socket)->sin6_port);
}

/* Also where it is on already: the kernel's count begins anew when the option is turned on. */
static bool stamp_on(struct port *port, enum stamp_kind kind) {
    unsigned none = 0, flags = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_ID |
                               SOF_TIMESTAMPING_OPT_TSONLY;
    /* One transmit stamp of each packet: the kernel's comes first, and the peer may be told it before the other. */
    if (kind == STAMP_HARDWARE)
        flags |= SOF_TIMESTAMPING_TX_HARDWARE | SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE;
    else
        flags |= SOF_TIMESTAMPING_TX_SOFTWARE;
    setsockopt(port->fd, SOL_SOCKET, SO_TIMESTAMPING, &none, sizeof none);
    port->next_id = 0;
    port->waiting = 0;
    memset(port->refs, 0, sizeof port->refs);
    return setsockopt(port->fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof flags) == 0;
}

static bool open_port(struct net *net, struct port *port, const char *address, int dscp, bool receives, char why[200]) {
    struct address own;
    if (!address_parse(address, port->number, &own)) return errno = EINVAL, fail(why, address);
    net->family = own.socket.ss_family;
    port->fd = socket(net->family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (port->fd < 0) return fail(why, "socket");
    int on = 1, traffic = dscp << 2, bytes = RECEIVE_BYTES;
    setsockopt(port->fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    if (net->family == AF_INET6) setsockopt(port->fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    int traffic_set = net->family == AF_INET ? setsockopt(port->fd, IPPROTO_IP, IP_TOS, &traffic, sizeof traffic)
                                             : setsockopt(port->fd, IPPROTO_IPV6, IPV6_TCLASS, &traffic, sizeof traffic);
    if (traffic_set) return fail(why, "traffic class");
    if (bind(port->fd, (struct sockaddr *)&own.socket, own.bytes)) {
        char what[100];
        snprintf(what, sizeof what, "port %u of %s", port->number, address);
        return fail(why, what);
    }
    if (!receives) {
        struct sock_filter drop = {BPF_RET | BPF_K, 0, 0, 0};
        struct sock_fprog program = {1, &drop};
        if (setsockopt(port->fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program)) return fail(why, "filter");
    }
    return true;
}

bool net_open(struct net *net, const char *address, uint16_t port, int labels, int dscp, enum stamp_kind kind, char why[200]) {
    memset(net, 0, sizeof *net);
    net->labels = labels;
    net->kind = kind == STAMP_HARDWARE ? STAMP_KERNEL : kind;
    net->phc.fd = -1;
    for (int i = 0; i < WIRE_LABELS; i++) net->ports[i].fd = -1;
    for (int i = 0; i < labels; i++) {
        net->ports[i].number = (uint16_t)(port + i);
        if (!open_port(net, &net->ports[i], address, dscp, i == 0, why)) return net_close(net), false;
        if (net->kind != STAMP_USER && !stamp_on(&net->ports[i], net->kind)) net->kind = STAMP_USER;
    }
    return true;
}

bool net_use_nic(struct net *net, const char *nic, char why[200]) {
    if (net->kind == STAMP_USER || !phc_open(&net->phc, nic, why)) return false;
    net->kind = STAMP_HARDWARE;
    for (int i = 0; i < net->labels; i++) stamp_on(&net->ports[i], net->kind);
    return true;
}

void net_close(struct net *net) {
    if (net->phc.fd >= 0) close(net->phc.fd);
    for (int i = 0; i < WIRE_LABELS; i++)
        if (net->ports[i].fd >= 0) close(net->ports[i].fd), net->ports[i].fd = -1;
}

/* "LT", the hops, and the id of the trace; the rest is zeros, so that it is as long as a probe. */
static const uint8_t TRACE_HEAD[2] = {'L', 'T'};

bool is_trace(const uint8_t *data, size_t bytes) { return bytes >= 7 && !memcmp(data, TRACE_HEAD, sizeof TRACE_HEAD); }

static bool hear_routers(const struct net *net, const struct port *port, int on) {
    return (net->family == AF_INET ? setsockopt(port->fd, IPPROTO_IP, IP_RECVERR, &on, sizeof on)
                                   : setsockopt(port->fd, IPPROTO_IPV6, IPV6_RECVERR, &on, sizeof on)) == 0;
}

bool net_trace(struct net *net, int label, const struct address *to, uint32_t id, int hops) {
    struct port *port = &net->ports[label];
    if (!hear_routers(net, port, 1)) return false;
    port->is_traced = true;
    bool is_four = net->family == AF_INET;
    int sent = 0;
    for (int hop = 1; hop <= hops; hop++) {
        uint8_t data[WIRE_BYTES] = {0};
        memcpy(data, TRACE_HEAD, sizeof TRACE_HEAD);
        data[2] = (uint8_t)hop;
        put_bytes(data + 3, id, 4);
        union {
            char bytes[CMSG_SPACE(sizeof(int))];
            struct cmsghdr align;
        } control = {{0}};
        struct iovec part = {data, sizeof data};
        struct msghdr message = {.msg_name = (void *)&to->socket, .msg_namelen = to->bytes, .msg_iov = &part, .msg_iovlen = 1,
                                 .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = is_four ? IPPROTO_IP : IPPROTO_IPV6;
        header->cmsg_type = is_four ? IP_TTL : IPV6_HOPLIMIT;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &hop, sizeof hop);
        /* An answer to an earlier packet makes one call fail; its stamp is counted or not, so the count begins anew. */
        for (int tries = 0; tries < 2; tries++) {
            if (sendmsg(port->fd, &message, 0) == sizeof data) {
                sent++;
                if (net->kind != STAMP_USER) port->refs[port->next_id++ % NET_SENT].waits = false;
                break;
            }
            if (net->kind != STAMP_USER) stamp_on(port, net->kind);
        }
    }
    return sent > 0;
}

void net_trace_end(struct net *net, int label) {
    net->ports[label].is_traced = false;
    hear_routers(net, &net->ports[label], 0);
}

static void refer(struct net *net, struct port *port, struct sent_ref *ref) {
    struct sent_ref *slot = &port->refs[port->next_id++ % NET_SENT];
    if (slot->waits) net->stamps_lost++;
    else port->waiting++;
    *slot = *ref;
    slot->waits = true;
}

int net_send(struct net *net, int label, struct outgoing *packets, int count) {
    struct port *port = &net->ports[label];
    memset(batch.messages, 0, sizeof batch.messages[0] * (size_t)count);
    for (int i = 0; i < count; i++) {
        batch.parts[i] = (struct iovec){packets[i].bytes, WIRE_BYTES};
        batch.messages[i].msg_hdr.msg_iov = &batch.parts[i];
        batch.messages[i].msg_hdr.msg_iovlen = 1;
        batch.messages[i].msg_hdr.msg_name = (void *)&packets[i].to->socket;
        batch.messages[i].msg_hdr.msg_namelen = packets[i].to->bytes;
    }
    int sent = 0, failures = 0;
    while (sent < count) {
        int most = net->kind == STAMP_USER ? 1 : count - sent; /* one call each: it is the only stamp there is */
        int64_t now = clock_raw_now();
        int taken = sendmmsg(port->fd, batch.messages + sent, (unsigned)most, 0);
        if (taken <= 0) {
            /* Whether the kernel counted the refused packet is not known, so its count begins anew. While tracing a
               router's answer makes one call fail; what fails twice is lost, with the rest of this batch. */
            net->send_errors++;
            if (net->kind != STAMP_USER) {
                net->stamps_lost += port->waiting;
                stamp_on(port, net->kind);
            }
            if (failures++) break;
            continue;
        }
        for (int i = 0; i < taken; i++, sent++) {
            packets[sent].ref.user_raw_ns = now;
            if (net->kind != STAMP_USER) refer(net, port, &packets[sent].ref);
        }
    }
    return sent;
}

static int receive(int fd, int flags, size_t bytes) {
    for (int i = 0; i < NET_BATCH; i++) {
        batch.parts[i] = (struct iovec){batch.data[i], bytes};
        struct msghdr *header = &batch.messages[i].msg_hdr;
        header->msg_name = NULL, header->msg_namelen = 0;
        header->msg_iov = &batch.parts[i], header->msg_iovlen = 1;
        header->msg_control = batch.control[i], header->msg_controllen = CONTROL_BYTES;
        header->msg_flags = 0;
    }
    return recvmmsg(fd, batch.messages, NET_BATCH, flags | MSG_DONTWAIT, NULL);
}

static int64_t ns_of(const struct timespec *time) { return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec; }

/* The stamp of a message; kind user and time 0 where it has none. `id`: of a transmit stamp. */
static struct stamp stamp_of(const struct net *net, struct msghdr *header, const struct clock *clock, int64_t *id) {
    struct stamp found = {0, STAMP_USER};
    for (struct cmsghdr *each = CMSG_FIRSTHDR(header); each; each = CMSG_NXTHDR(header, each)) {
        if (each->cmsg_level == SOL_SOCKET && each->cmsg_type == SCM_TIMESTAMPING) {
            struct scm_timestamping stamps;
            memcpy(&stamps, CMSG_DATA(each), sizeof stamps);
            int64_t real = ns_of(&stamps.ts[0]), nic = ns_of(&stamps.ts[2]);
            if (net->kind == STAMP_HARDWARE && nic && clock_raw(&net->phc.clock, nic, &found.raw_ns)) found.kind = STAMP_HARDWARE;
            else if (real && clock_raw(clock, real, &found.raw_ns)) found.kind = STAMP_KERNEL;
        } else if ((each->cmsg_level == IPPROTO_IP && each->cmsg_type == IP_RECVERR) ||
                   (each->cmsg_level == IPPROTO_IPV6 && each->cmsg_type == IPV6_RECVERR)) {
            struct sock_extended_err error;
            memcpy(&error, CMSG_DATA(each), sizeof error);
            if (error.ee_origin == SO_EE_ORIGIN_TIMESTAMPING && error.ee_info == SCM_TSTAMP_SND) *id = error.ee_data;
        }
    }
    return found;
}

/* Whether a message of the error queue is a router's answer; it quotes the packet that died, mostly with its data. */
static bool tell_hop(struct msghdr *header, const uint8_t *data, size_t bytes, int label, take_hop hop, void *context) {
    for (struct cmsghdr *each = CMSG_FIRSTHDR(header); each; each = CMSG_NXTHDR(header, each)) {
        bool is_four = each->cmsg_level == IPPROTO_IP && each->cmsg_type == IP_RECVERR;
        bool is_six = each->cmsg_level == IPPROTO_IPV6 && each->cmsg_type == IPV6_RECVERR;
        if (!is_four && !is_six) continue;
        struct {
            struct sock_extended_err error;
            struct sockaddr_storage offender;
        } told = {0};
        size_t have = each->cmsg_len - CMSG_LEN(0);
        memcpy(&told.error, CMSG_DATA(each), sizeof told.error);
        if (told.error.ee_origin != SO_EE_ORIGIN_ICMP && told.error.ee_origin != SO_EE_ORIGIN_ICMP6) return false;
        if (have > sizeof told.error) {
            have -= sizeof told.error;
            memcpy(&told.offender, CMSG_DATA(each) + sizeof told.error, have < sizeof told.offender ? have : sizeof told.offender);
        }
        char address[INET6_ADDRSTRLEN];
        const void *from = is_four ? (void *)&((struct sockaddr_in *)&told.offender)->sin_addr
                                   : (void *)&((struct sockaddr_in6 *)&told.offender)->sin6_addr;
        if (is_trace(data, bytes) && inet_ntop(is_four ? AF_INET : AF_INET6, from, address, sizeof address))
            hop(context, label, (uint32_t)get_bytes(data + 3, 4), data[2], address);
        return true;
    }
    return false;
}

static void drain_port(struct net *net, int label, struct clock *clock, take_sent take, take_hop hop, void *context) {
    struct port *port = &net->ports[label];
    for (int round = 0; round < ROUNDS_MAX; round++) {
        int count = receive(port->fd, MSG_ERRQUEUE, port->is_traced ? WIRE_BYTES : 0);
        for (int i = 0; i < count; i++) {
            if (port->is_traced &&
                tell_hop(&batch.messages[i].msg_hdr, batch.data[i], batch.messages[i].msg_len, label, hop, context))
                continue;
            int64_t id = -1;
            struct stamp stamp = stamp_of(net, &batch.messages[i].msg_hdr, clock, &id);
            if (id < 0) continue;
            struct sent_ref *ref = &port->refs[id % NET_SENT];
            if ((uint32_t)id - port->next_id < UINT32_MAX - NET_SENT || !ref->waits) continue; /* of an earlier count */
            ref->waits = false;
            port->waiting--;
            if (stamp.kind == STAMP_USER || stamp.raw_ns < ref->user_raw_ns - EARLY_NS) net->stamps_lost++;
            else take(context, ref, stamp);
        }
        if (count < NET_BATCH) break;
    }
}

void net_drain_sent(struct net *net, struct clock *clock, take_sent take, take_hop hop, void *context) {
    for (int i = 0; i < net->labels; i++)
        if (net->ports[i].waiting || net->ports[i].is_traced) drain_port(net, i, clock, take, hop, context);
}

void net_drain_received(struct net *net, struct clock *clock, take_packet take, void *context) {
    for (int round = 0; round < ROUNDS_MAX; round++) {
        int count = receive(net->ports[0].fd, 0, sizeof batch.data[0]);
        int64_t now = clock_raw_now(), id;
        for (int i = 0; i < count; i++) {
            struct stamp stamp = {now, STAMP_USER};
            if (net->kind != STAMP_USER) {
                stamp = stamp_of(net, &batch.messages[i].msg_hdr, clock, &id);
                if (stamp.kind == STAMP_USER) stamp.raw_ns = now;
            }
            take(context, batch.data[i], batch.messages[i].msg_len, stamp);
        }
        if (count < NET_BATCH) break;
    }
}
