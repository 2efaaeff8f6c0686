/* leadline-prober: sends pairs of probes to the peers it is told of, stamps what comes and goes, and tells what it found
   as lines of JSON.

       stdin: commands ──> [ options, peers ]
       peers' probes ──> net ──> edge ──> every 250 ms: fit ──> stdout: lines of kind edge
                                  └─ silent for 85 ms: at once ──> silent, heard
       own probes <── net <── schedule

   One thread. It wakes when the next pair is due, but no sooner than `batch_ms` after the last time: packets are stamped
   by the kernel when they come, so that they can wait here; a system call for ten packets costs a tenth. It ends with
   its standard input, on SIGTERM, and when nobody reads what it says. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "commands.h"
#include "edge.h"
#include "net.h"
#include "wire.h"

/* Fewer pairs in a row are lost by chance. */
enum { SILENT_PERIODS = 4 };
enum { EXIT_USED_WRONGLY = 2, EXIT_WORLD = 3, OUT_BYTES = 4096 };
static const int64_t SECOND_NS = 1000000000, READ_MIN_NS = 1000000, TRACE_NS = 500000000, IDLE_NS = 50000000;

/* One search for the routers on the way of a label; at most one at a time of each. */
struct trace {
    uint32_t id; /* 0: none */
    uint64_t peer;
    int hops;
    int64_t end_ns; /* raw */
    char address[TRACE_HOPS_MAX][INET6_ADDRSTRLEN];
};

struct prober {
    struct options options;
    struct clock clock;
    struct net net;
    struct peers peers;
    bool is_started, is_ended, has_failed;
    int64_t last_wake_ns, planned_ns, read_ns, report_ns, counters_ns; /* raw */
    uint64_t sent, sent_bytes, received_bytes, lines_lost, random;
    struct trace traces[WIRE_LABELS];
    uint32_t trace_id;
    char line[LINE_BYTES];
    size_t line_bytes;
    bool line_is_long;
    struct outgoing outgoing[WIRE_LABELS][NET_BATCH];
    int outgoing_count[WIRE_LABELS];
};

static volatile sig_atomic_t terminated;

static void on_signal(int number) {
    (void)number;
    terminated = 1;
}

/* A pipe takes a line of up to 4096 bytes whole or not at all; one that is full loses lines, and that is counted. */
static void tell(struct prober *prober, const char *line, int bytes) {
    if (bytes <= 0 || bytes >= OUT_BYTES) {
        prober->lines_lost++;
        return;
    }
    ssize_t written = write(STDOUT_FILENO, line, (size_t)bytes);
    if (written == bytes) return;
    prober->lines_lost++;
    if (written < 0 && errno != EAGAIN && errno != EINTR) prober->is_ended = true;
}

__attribute__((format(printf, 2, 3))) static void say(struct prober *prober, const char *format, ...) {
    char line[OUT_BYTES];
    va_list values;
    va_start(values, format);
    int bytes = vsnprintf(line, sizeof line, format, values);
    va_end(values);
    tell(prober, line, bytes);
}

static double uniform(struct prober *prober) {
    prober->random = prober->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(prober->random >> 11) / 9007199254740992.0;
}

/* --- peers and options --- */

static bool start(struct prober *prober) {
    struct options *options = &prober->options;
    char why[200];
    const char *missing = options_missing(options);
    if (missing) {
        say(prober, "{\"kind\":\"failed\",\"text\":\"expected %s\"}\n", missing);
        return false;
    }
    if (!net_open(&prober->net, options->address, options->port, options->ports, options->dscp, options->stamps, why)) {
        say(prober, "{\"kind\":\"failed\",\"text\":\"%s\"}\n", why);
        return false;
    }
    if (options->stamps == STAMP_HARDWARE && !net_use_nic(&prober->net, options->nic, why))
        say(prober, "{\"kind\":\"refused\",\"text\":\"expected %s\"}\n", why);
    uint32_t boot = options->boot;
    while (!boot)
        if (getrandom(&boot, sizeof boot, 0) != sizeof boot) boot = 0;
    if (getrandom(&prober->random, sizeof prober->random, 0) < 0) prober->random = boot;
    struct peers *peers = &prober->peers;
    peers->labels = options->ports;
    peers->own = options->id;
    peers->own_boot = boot;
    memcpy(peers->key, options->key, sizeof peers->key);
    peers->traffic_class = options->dscp;
    peers->window_ns = options->window_ns;
    peers->soft = options->soft;
    peers->second_only = options->second_only;
    if (*options->record) {
        peers->record = fopen(options->record, "wbe");
        if (!peers->record) {
            say(prober, "{\"kind\":\"failed\",\"text\":\"cannot write the record: %s\"}\n", strerror(errno));
            return false;
        }
        static const uint8_t head[8] = {'L', 'L', 'P', 'R', 0, 1, 0, 52};
        fwrite(head, sizeof head, 1, peers->record);
    }
    clock_start(&prober->clock);
    if (options->has_clock) clock_inject(&prober->clock, options->clock);
    int64_t now = clock_raw_now();
    prober->last_wake_ns = prober->planned_ns = now;
    prober->report_ns = now + options->report_ns;
    prober->counters_ns = now + SECOND_NS;
    prober->is_started = true;
    say(prober, "{\"kind\":\"ready\",\"src\":\"%s\",\"boot\":%u,\"port\":%u,\"ports\":%d,\"stamp\":\"%s\",\"base_ns\":%" PRId64 "}\n",
        options->name, boot, options->port, options->ports, stamp_name(prober->net.kind), prober->clock.base_ns);
    return true;
}

static const char *no_peer(struct prober *prober, const struct command *command) {
    if (command->kind == COMMAND_ADD) {
        if (command->id == prober->peers.own) return "the id of another host";
        if (command->address.socket.ss_family != prober->net.family) return "an address of the same family as our own";
        peers_remove(&prober->peers, command->id);
        return peers_add(&prober->peers, command->id, command->name, command->address, command->is_owned, clock_raw_now())
                   ? NULL : "at most 64 peers";
    }
    return peers_remove(&prober->peers, command->id) ? NULL : "the id of a peer";
}

static const char *begin_trace(struct prober *prober, const struct command *command) {
    struct peer *peer = peers_find(&prober->peers, command->id);
    if (!peer) return "the id of a peer";
    if (command->label >= prober->options.ports) return "the label of a port";
    struct trace *trace = &prober->traces[command->label];
    if (trace->id) return "one trace of a label at a time; try again in a second";
    if (!net_trace(&prober->net, command->label, &peer->address, ++prober->trace_id, command->hops)) return "a network that takes packets";
    *trace = (struct trace){.id = prober->trace_id, .peer = command->id, .hops = command->hops, .end_ns = clock_raw_now() + TRACE_NS};
    return NULL;
}

static void follow(struct prober *prober, const char *line) {
    struct options before = prober->options;
    struct command command = command_parse(line, &prober->options);
    const char *why = command.kind == COMMAND_BAD ? command.why : NULL;
    bool sets = command.kind == COMMAND_SET || command.kind == COMMAND_START;
    bool is_of_peers = command.kind == COMMAND_ADD || command.kind == COMMAND_REMOVE;
    if (sets && prober->is_started) {
        prober->options = before;
        why = "options before start";
    } else if (command.kind == COMMAND_START) {
        if (!start(prober)) prober->is_ended = prober->has_failed = true;
    } else if (command.kind == COMMAND_STOP) {
        prober->is_ended = true;
    } else if (is_of_peers) {
        why = prober->is_started ? no_peer(prober, &command) : "start before peers";
    } else if (command.kind == COMMAND_TRACE) {
        why = prober->is_started ? begin_trace(prober, &command) : "start before a trace";
    }
    if (why) say(prober, "{\"kind\":\"refused\",\"text\":\"expected %s\"}\n", why);
}

static void read_commands(struct prober *prober) {
    char data[4096];
    ssize_t bytes = read(STDIN_FILENO, data, sizeof data);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (bytes <= 0) {
        prober->is_ended = true;
        return;
    }
    for (ssize_t i = 0; i < bytes && !prober->is_ended; i++) {
        if (data[i] != '\n') {
            if (prober->line_bytes < sizeof prober->line - 1) prober->line[prober->line_bytes++] = data[i];
            else prober->line_is_long = true;
            continue;
        }
        prober->line[prober->line_bytes] = 0;
        if (prober->line_is_long) say(prober, "{\"kind\":\"refused\",\"text\":\"expected a shorter line\"}\n");
        else follow(prober, prober->line);
        prober->line_bytes = 0;
        prober->line_is_long = false;
    }
}

/* --- packets --- */

static void take_sent_stamp(void *context, const struct sent_ref *ref, struct stamp stamp) {
    struct prober *prober = context;
    peers_sent(&prober->peers, ref, stamp.raw_ns, clock_host(&prober->clock, stamp.raw_ns), stamp.kind);
}

static void take_hop_of(void *context, int label, uint32_t id, int hop, const char *address) {
    struct trace *trace = &((struct prober *)context)->traces[label];
    if (trace->id == id && id && hop >= 1 && hop <= trace->hops) snprintf(trace->address[hop - 1], sizeof *trace->address, "%s", address);
}

static void take_packet_in(void *context, const uint8_t *data, size_t bytes, struct stamp stamp) {
    struct prober *prober = context;
    if (is_trace(data, bytes)) return;
    int64_t since = stamp.raw_ns > prober->planned_ns ? stamp.raw_ns : prober->planned_ns;
    int64_t late = stamp.kind == STAMP_USER ? prober->last_wake_ns - prober->planned_ns : prober->last_wake_ns - since;
    prober->received_bytes += bytes;
    peers_received(&prober->peers, data, bytes, stamp.raw_ns, clock_host(&prober->clock, stamp.raw_ns), stamp.kind, late > 0 ? late : 0);
}

static void flush(struct prober *prober, int label) {
    struct outgoing *packets = prober->outgoing[label];
    int count = prober->outgoing_count[label], sent = net_send(&prober->net, label, packets, count);
    prober->outgoing_count[label] = 0;
    prober->sent += (uint64_t)sent;
    prober->sent_bytes += (uint64_t)sent * WIRE_BYTES;
    for (int i = 0; prober->net.kind == STAMP_USER && i < sent; i++) {
        int64_t raw = packets[i].ref.user_raw_ns;
        peers_sent(&prober->peers, &packets[i].ref, raw, clock_host(&prober->clock, raw), STAMP_USER);
    }
}

/* The next pair is due a period after this one, up to a quarter sooner or later, so that hosts do not beat together. */
static void schedule(struct prober *prober, struct peer *peer, int64_t now) {
    double period = 1e9 / prober->options.rate;
    peer->nominal_raw_ns += (int64_t)period;
    if (peer->nominal_raw_ns < now - (int64_t)(2 * period)) peer->nominal_raw_ns = now + (int64_t)(uniform(prober) * period);
    peer->due_raw_ns = peer->nominal_raw_ns + (int64_t)((uniform(prober) - 0.5) / 2 * period);
}

static void send_due(struct prober *prober, int64_t now) {
    int64_t host = clock_host(&prober->clock, now);
    /* From another peer on each time: the first of a batch leave later than the last, by code and caches that are cold, and
       in a fixed order that was a difference between there and back of 10 ns (virtual Ethernet, 8 hosts). */
    int used = prober->peers.used, first = (int)(uniform(prober) * used);
    for (int i = 0; i < used; i++) {
        struct peer *peer = &prober->peers.at[(first + i) % used];
        if (!peer->life || now < peer->due_raw_ns) continue;
        int label = peer->next_label;
        peer->next_label = (label + 1) % prober->options.ports;
        if (prober->outgoing_count[label] + 2 > NET_BATCH) flush(prober, label);
        for (int position = 0; position < 2; position++) {
            struct outgoing *packet = &prober->outgoing[label][prober->outgoing_count[label]++];
            packet->to = &peer->address;
            lane_next(&prober->peers, peer, label, position, host, prober->net.kind, packet->bytes, &packet->ref);
        }
        schedule(prober, peer, now);
    }
    for (int label = 0; label < prober->options.ports; label++)
        if (prober->outgoing_count[label]) flush(prober, label);
}

/* --- what is told --- */

static void tell_silence(struct prober *prober, int64_t now) {
    int64_t period = (int64_t)(SILENT_PERIODS * 1e9 * prober->options.ports / prober->options.rate), age;
    int64_t limit = prober->options.silent_ns > period ? prober->options.silent_ns : period;
    for (int i = 0; i < prober->peers.used; i++) {
        struct peer *peer = &prober->peers.at[i];
        for (int label = 0; peer->life && label < prober->options.ports; label++) {
            int change = lane_silence(&peer->lanes[label], now, limit, &age);
            if (!change) continue;
            say(prober, "{\"kind\":\"%s\",\"src\":\"%s\",\"dst\":\"%s\",\"label\":%d,\"src_port\":%d,\"class\":%d,\"time_ns\":%" PRId64
                        ",\"age_ns\":%" PRId64 ",\"was_heard\":%s}\n",
                change > 0 ? "silent" : "heard", peer->name, prober->options.name, label, address_port(&peer->address) + label, prober->options.dscp,
                clock_host(&prober->clock, now), age, peer->lanes[label].was_heard ? "true" : "false");
        }
    }
}

static void report(struct prober *prober, int64_t now) {
    char line[OUT_BYTES];
    int64_t host = clock_host(&prober->clock, now);
    for (int i = 0; i < prober->peers.used; i++) {
        struct peer *peer = &prober->peers.at[i];
        for (int label = 0; peer->life && peer->is_owned && label < prober->options.ports; label++)
            tell(prober, line, lane_report(&prober->peers, peer, label, prober->net.ports[label].number, prober->options.name,
                                           host, prober->options.report_ns, line, sizeof line));
    }
    if (prober->clock.is_injected) say(prober, "{\"kind\":\"truth\",\"raw_ns\":%" PRId64 ",\"host_ns\":%" PRId64 "}\n", now, host);
    if (prober->peers.record) fflush(prober->peers.record);
}

static void tell_counters(struct prober *prober, int64_t now) {
    char line[OUT_BYTES];
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    const struct peers *peers = &prober->peers;
    int bytes = snprintf(line, sizeof line,
                         "{\"kind\":\"counters\",\"time_ns\":%" PRId64 ",\"sent\":%" PRIu64 ",\"sent_bytes\":%" PRIu64 ",\"received\":%" PRIu64
                         ",\"received_bytes\":%" PRIu64 ",\"hellos\":%" PRIu64 ",\"stamps_lost\":%" PRIu64 ",\"send_errors\":%" PRIu64
                         ",\"lines_lost\":%" PRIu64 ",\"cpu_s\":%.6f,\"refused\":{",
                         clock_host(&prober->clock, now), prober->sent, prober->sent_bytes, peers->accepted, prober->received_bytes,
                         peers->hellos, prober->net.stamps_lost, prober->net.send_errors, prober->lines_lost, cpu);
    for (int i = 1; i < REFUSALS; i++)
        bytes += snprintf(line + bytes, sizeof line - (size_t)bytes, "%s\"%s\":%" PRIu64, i > 1 ? "," : "",
                          refusal_name((enum refusal)i), peers->refused[i]);
    bytes += snprintf(line + bytes, sizeof line - (size_t)bytes, "}}\n");
    tell(prober, line, bytes);
}

/* Hops in order; null: nobody told, as the destination and some routers do not. */
static void tell_traces(struct prober *prober, int64_t now) {
    for (int label = 0; label < prober->options.ports; label++) {
        struct trace *trace = &prober->traces[label];
        if (!trace->id || now < trace->end_ns) continue;
        struct peer *peer = peers_find(&prober->peers, trace->peer);
        char line[OUT_BYTES];
        int bytes = snprintf(line, sizeof line, "{\"kind\":\"trace\",\"src\":\"%s\",\"dst\":\"%s\",\"src_port\":%u,\"class\":%d,\"time_ns\":%" PRId64 ",\"hops\":[",
                             prober->options.name, peer ? peer->name : "", prober->net.ports[label].number, prober->options.dscp,
                             clock_host(&prober->clock, now));
        for (int i = 0; i < trace->hops; i++)
            bytes += snprintf(line + bytes, sizeof line - (size_t)bytes, *trace->address[i] ? "%s\"%s\"" : "%snull", i ? "," : "",
                              trace->address[i]);
        bytes += snprintf(line + bytes, sizeof line - (size_t)bytes, "]}\n");
        if (peer) tell(prober, line, bytes);
        trace->id = 0;
        net_trace_end(&prober->net, label);
    }
}

/* --- the loop --- */

static int64_t least(int64_t one, int64_t other) { return one < other ? one : other; }

/* When to wake next: when a pair is due, and no sooner than a batch after the last time. */
static int64_t plan(const struct prober *prober) {
    int64_t next = least(prober->last_wake_ns + IDLE_NS, least(prober->report_ns, prober->counters_ns));
    for (int i = 0; i < prober->peers.used; i++)
        if (prober->peers.at[i].life) next = least(next, prober->peers.at[i].due_raw_ns);
    int64_t soonest = prober->last_wake_ns + prober->options.batch_ns;
    return next > soonest ? next : soonest;
}

static void work(struct prober *prober) {
    int64_t now = clock_raw_now();
    prober->last_wake_ns = now;
    /* Without kernel stamps each microsecond from here on is error. */
    if (prober->net.kind == STAMP_USER) net_drain_received(&prober->net, &prober->clock, take_packet_in, prober);
    if (now - prober->read_ns >= READ_MIN_NS) {
        clock_read(&prober->clock);
        prober->read_ns = now;
        phc_read(&prober->net.phc, &prober->clock, now);
    }
    net_drain_sent(&prober->net, &prober->clock, take_sent_stamp, take_hop_of, prober);
    if (prober->net.kind != STAMP_USER) net_drain_received(&prober->net, &prober->clock, take_packet_in, prober);
    now = clock_raw_now();
    send_due(prober, now);
    tell_silence(prober, now);
    tell_traces(prober, now);
    if (now >= prober->report_ns) {
        report(prober, now);
        prober->report_ns += prober->options.report_ns * (1 + (now - prober->report_ns) / prober->options.report_ns);
    }
    if (now >= prober->counters_ns) {
        tell_counters(prober, now);
        prober->counters_ns += SECOND_NS * (1 + (now - prober->counters_ns) / SECOND_NS);
    }
}

static void run(struct prober *prober) {
    sigset_t none;
    sigemptyset(&none);
    while (!prober->is_ended && !terminated) {
        struct timespec wait = {1, 0};
        struct pollfd files[2] = {{STDIN_FILENO, POLLIN, 0}, {-1, POLLIN, 0}};
        if (prober->is_started) {
            prober->planned_ns = plan(prober);
            int64_t left = prober->planned_ns - clock_raw_now();
            left = left > 0 ? left : 0;
            wait = (struct timespec){left / SECOND_NS, left % SECOND_NS};
            if (prober->net.kind == STAMP_USER) files[1].fd = prober->net.ports[0].fd; /* stamped when we see it */
        }
        int ready = ppoll(files, 2, &wait, &none);
        if (ready > 0 && files[0].revents) read_commands(prober);
        if (prober->is_started && !prober->is_ended) work(prober);
    }
}

int main(int count, char **arguments) {
    static struct prober prober;
    if (count == 2 && !strcmp(arguments[1], "--version")) return printf("leadline-prober wire %d\n", WIRE_VERSION), 0;
    prober.options = options_default();
    if (count == 3 && !strcmp(arguments[1], "--record") && strlen(arguments[2]) < sizeof prober.options.record)
        strcpy(prober.options.record, arguments[2]);
    else if (count != 1)
        return fprintf(stderr, "usage: leadline-prober [--version | --record FILE]; commands come on standard input (commands.h)\n"),
               EXIT_USED_WRONGLY;
    /* Signals arrive only while it waits: none is lost between a look at `terminated` and the wait. */
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    sigset_t held;
    sigemptyset(&held);
    sigaddset(&held, SIGTERM);
    sigaddset(&held, SIGINT);
    sigprocmask(SIG_BLOCK, &held, NULL);
    fcntl(STDOUT_FILENO, F_SETFL, fcntl(STDOUT_FILENO, F_GETFL) | O_NONBLOCK);
    run(&prober);
    if (prober.peers.record) fclose(prober.peers.record);
    if (prober.is_started) net_close(&prober.net);
    while (prober.peers.used > 0) free(prober.peers.at[--prober.peers.used].lanes);
    return prober.has_failed ? EXIT_WORLD : 0;
}
