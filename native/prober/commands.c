#define _GNU_SOURCE
#include "commands.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 10 };

struct options options_default(void) {
    return (struct options){.address = "0.0.0.0", .ports = 1, .rate = 50, .soft = 0.02, .report_ns = 250000000,
                            .window_ns = 2000000000, .silent_ns = 85000000 /* and a wait of batch_ms: told within 100 ms */, .batch_ns = 15000000, .stamps = STAMP_KERNEL};
}

static bool whole(const char *word, int base, uint64_t most, uint64_t *out) {
    char *end;
    if (!isxdigit((unsigned char)*word)) return false;
    errno = 0;
    uint64_t found = strtoull(word, &end, base);
    if (*end || errno || found > most) return false;
    *out = found;
    return true;
}

static bool real(const char *word, double least, double most, double *out) {
    char *end;
    double found = strtod(word, &end);
    if (end == word || *end || !(found >= least && found <= most)) return false;
    *out = found;
    return true;
}

/* A name goes into JSON as it is. */
static bool name(const char *word, char out[NAME_BYTES]) {
    size_t bytes = strlen(word);
    if (!bytes || bytes >= NAME_BYTES) return false;
    for (size_t i = 0; i < bytes; i++)
        if (word[i] <= ' ' || word[i] > '~' || word[i] == '"' || word[i] == '\\') return false;
    memcpy(out, word, bytes + 1);
    return true;
}

static bool key(const char *word, uint8_t out[WIRE_KEY_BYTES]) {
    uint8_t found[WIRE_KEY_BYTES];
    if (strlen(word) != 2 * WIRE_KEY_BYTES) return false;
    for (int i = 0; i < WIRE_KEY_BYTES; i++) {
        char digits[3] = {word[2 * i], word[2 * i + 1], 0};
        if (!isxdigit((unsigned char)digits[0]) || !isxdigit((unsigned char)digits[1])) return false;
        found[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    memcpy(out, found, sizeof found);
    return true;
}

static bool milliseconds(const char *word, double least, double most, int64_t *out) {
    double ms;
    if (!real(word, least, most, &ms)) return false;
    *out = (int64_t)(ms * 1e6);
    return true;
}

static bool stamps(const char *word, enum stamp_kind *out) {
    for (int kind = 0; kind < STAMP_KINDS; kind++)
        if (!strcmp(word, stamp_name((enum stamp_kind)kind))) return *out = (enum stamp_kind)kind, true;
    return false;
}

/* NULL, or what was expected. */
static const char *set(const char *what, const char *value, struct options *to) {
    uint64_t number;
    struct address address;
    if (!strcmp(what, "name")) return name(value, to->name) ? NULL : "a name of printable ASCII without quotes";
    if (!strcmp(what, "id")) return whole(value, 16, UINT64_MAX, &number) && number ? to->id = number, NULL : "an id in hexadecimal, not 0";
    if (!strcmp(what, "key")) return key(value, to->key) ? to->has_key = true, NULL : "a key of 32 hexadecimal digits";
    if (!strcmp(what, "address")) {
        if (strlen(value) >= sizeof to->address || !address_parse(value, 0, &address)) return "an IPv4 or IPv6 address";
        strcpy(to->address, value);
        return NULL;
    }
    if (!strcmp(what, "record")) {
        if (strlen(value) >= sizeof to->record) return "a shorter name of a file";
        strcpy(to->record, value);
        return NULL;
    }
    if (!strcmp(what, "nic")) {
        char found[NAME_BYTES];
        if (strlen(value) >= sizeof to->nic || !name(value, found)) return "the name of a NIC";
        strcpy(to->nic, value);
        return NULL;
    }
    if (!strcmp(what, "rate")) return real(value, 0.1, 250, &to->rate) ? NULL : "0.1 to 250 pairs/s";
    if (!strcmp(what, "soft")) return real(value, 0, 0.5, &to->soft) ? NULL : "a share of 0 to 0.5";
    if (!strcmp(what, "report_ms")) return milliseconds(value, 50, 2000, &to->report_ns) ? NULL : "50 to 2000 ms";
    if (!strcmp(what, "window_ms")) return milliseconds(value, 100, 4000, &to->window_ns) ? NULL : "100 to 4000 ms";
    if (!strcmp(what, "silent_ms")) return milliseconds(value, 10, 60000, &to->silent_ns) ? NULL : "10 to 60000 ms";
    if (!strcmp(what, "batch_ms")) return milliseconds(value, 0, 50, &to->batch_ns) ? NULL : "0 to 50 ms";
    if (!strcmp(what, "stamps")) return stamps(value, &to->stamps) ? NULL : "hardware, kernel or user";
    if (!strcmp(what, "points")) {
        if (strcmp(value, "all") && strcmp(value, "second")) return "all or second";
        to->second_only = *value == 's';
        return NULL;
    }
    if (!strcmp(what, "boot")) return whole(value, 16, UINT32_MAX, &number) ? to->boot = (uint32_t)number, NULL : "a boot of 32 bits";
    if (!strcmp(what, "port")) return whole(value, 10, 65535, &number) && number ? to->port = (uint16_t)number, NULL : "a port of 1 to 65535";
    if (!strcmp(what, "ports")) return whole(value, 10, WIRE_LABELS, &number) && number ? to->ports = (int)number, NULL : "1 to 16 ports";
    if (!strcmp(what, "dscp")) return whole(value, 10, 63, &number) ? to->dscp = (int)number, NULL : "a class of 0 to 63";
    return "the name of an option";
}

static const char *set_clock(char *const *words, int count, struct injected *out) {
    double offset;
    uint64_t since, base;
    struct injected found = {0};
    if (!real(words[0], -1e15, 1e15, &offset)) return "an offset in ns";
    if (!real(words[1], -5e5, 5e5, &found.rate_ppb)) return "a rate within 500000 ppb";
    if (!real(words[2], 0, 1000, &found.walk_ppb)) return "a walk of 0 to 1000 ppb";
    if (!real(words[3], 0, 1e5, &found.sine_ppb)) return "a sine of 0 to 100000 ppb";
    if (!real(words[4], 0, 1e6, &found.sine_s)) return "a period of the sine in s";
    if (!whole(words[5], 10, UINT64_MAX, &found.seed)) return "a seed";
    if (count > 6) {
        if (!whole(words[6], 10, INT64_MAX, &since) || !since) return "a raw time in ns, not 0";
        if (!whole(words[7], 10, INT64_MAX, &base)) return "a base in ns";
        found.since_raw_ns = (int64_t)since;
        found.base_ns = (int64_t)base;
    }
    found.offset_ns = (int64_t)offset;
    *out = found;
    return NULL;
}

static struct command bad(const char *why) { return (struct command){.kind = COMMAND_BAD, .why = why}; }

static struct command add(char *const *words) {
    struct command found = {.kind = COMMAND_ADD};
    uint64_t port;
    if (!whole(words[0], 16, UINT64_MAX, &found.id) || !found.id) return bad("an id in hexadecimal, not 0");
    if (!name(words[1], found.name)) return bad("a name of printable ASCII without quotes");
    if (!whole(words[3], 10, 65535, &port) || !port) return bad("a port of 1 to 65535");
    if (!address_parse(words[2], (uint16_t)port, &found.address)) return bad("an IPv4 or IPv6 address");
    if (strcmp(words[4], "owned") && strcmp(words[4], "answers")) return bad("owned or answers");
    found.is_owned = *words[4] == 'o';
    return found;
}

static struct command about_peer(enum command_kind kind, char *const *words) {
    struct command found = {.kind = kind};
    if (!whole(words[0], 16, UINT64_MAX, &found.id)) return bad("an id in hexadecimal");
    if (kind == COMMAND_REMOVE) return found;
    uint64_t label, hops;
    if (!whole(words[1], 10, WIRE_LABELS - 1, &label)) return bad("a label of 0 to 15");
    if (!whole(words[2], 10, 32, &hops) || !hops) return bad("1 to 32 hops");
    found.label = (int)label, found.hops = (int)hops;
    return found;
}

struct command command_parse(const char *line, struct options *options) {
    char copy[LINE_BYTES], *words[WORDS_MAX], *rest = copy;
    int count = 0;
    if (strlen(line) >= sizeof copy) return bad("a shorter line");
    strcpy(copy, line);
    for (char *word; (word = strtok_r(rest, " \t\r", &rest));) {
        if (count == WORDS_MAX) return bad("fewer words");
        words[count++] = word;
    }
    if (!count) return (struct command){.kind = COMMAND_NONE};
    if (!strcmp(words[0], "set") && count == 3) {
        const char *why = set(words[1], words[2], options);
        return why ? bad(why) : (struct command){.kind = COMMAND_SET};
    }
    if (!strcmp(words[0], "clock") && (count == 7 || count == 9)) {
        const char *why = set_clock(words + 1, count - 1, &options->clock);
        if (why) return bad(why);
        options->has_clock = true;
        return (struct command){.kind = COMMAND_SET};
    }
    if (!strcmp(words[0], "start") && count == 1) return (struct command){.kind = COMMAND_START};
    if (!strcmp(words[0], "stop") && count == 1) return (struct command){.kind = COMMAND_STOP};
    if (!strcmp(words[0], "add") && count == 6) return add(words + 1);
    if (!strcmp(words[0], "remove") && count == 2) return about_peer(COMMAND_REMOVE, words + 1);
    if (!strcmp(words[0], "trace") && count == 4) return about_peer(COMMAND_TRACE, words + 1);
    return bad("set, clock, start, add, remove, trace or stop, with as many words as each takes");
}

const char *options_missing(const struct options *options) {
    if (!*options->name) return "a name (set name HOST)";
    if (!options->id) return "an id (set id HEX)";
    if (!options->has_key) return "a key (set key HEX)";
    if (!options->port || options->port + options->ports > 65536) return "a port, with room for all ports above it (set port PORT)";
    return NULL;
}
