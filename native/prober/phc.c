#define _GNU_SOURCE
#include "phc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/net_tstamp.h>
#include <linux/ptp_clock.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SAMPLES = 5 };
static const int64_t EVERY_NS = 50000000;

static bool ask(const char *nic, unsigned long what, void *about) {
    struct ifreq request = {0};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", nic);
    request.ifr_data = about;
    int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool answered = any >= 0 && ioctl(any, what, &request) == 0;
    if (any >= 0) close(any);
    return answered;
}

bool phc_open(struct phc *phc, const char *nic, char why[200]) {
    memset(phc, 0, sizeof *phc);
    phc->fd = -1;
    struct ethtool_ts_info info = {.cmd = ETHTOOL_GET_TS_INFO};
    struct hwtstamp_config config = {0};
    if (!ask(nic, SIOCETHTOOL, &info) || info.phc_index < 0)
        return snprintf(why, 200, "a NIC with a clock of its own, and %.32s has none", nic), false;
    if (!ask(nic, SIOCGHWTSTAMP, &config) || config.tx_type != HWTSTAMP_TX_ON || config.rx_filter == HWTSTAMP_FILTER_NONE)
        return snprintf(why, 200, "a NIC that stamps packets; turn it on with: hwstamp_ctl -i %.32s -t 1 -r 1", nic), false;
    char device[40];
    snprintf(device, sizeof device, "/dev/ptp%d", info.phc_index);
    phc->fd = open(device, O_RDONLY | O_CLOEXEC);
    if (phc->fd < 0) return snprintf(why, 200, "to read %s (%s)", device, strerror(errno)), false;
    return true;
}

static int64_t ns_of(const struct ptp_clock_time *time) { return time->sec * 1000000000 + time->nsec; }

void phc_read(struct phc *phc, const struct clock *system, int64_t now_raw_ns) {
    if (phc->fd < 0 || (phc->read_ns && now_raw_ns - phc->read_ns < EVERY_NS)) return;
    phc->read_ns = now_raw_ns;
    struct ptp_sys_offset_extended samples = {.n_samples = SAMPLES};
    if (ioctl(phc->fd, PTP_SYS_OFFSET_EXTENDED, &samples)) return;
    int64_t closest = INT64_MAX, real = 0, nic = 0, raw;
    for (int i = 0; i < SAMPLES; i++) {
        int64_t before = ns_of(&samples.ts[i][0]), after = ns_of(&samples.ts[i][2]);
        if (after - before < 0 || after - before >= closest) continue;
        closest = after - before;
        real = before + closest / 2;
        nic = ns_of(&samples.ts[i][1]);
    }
    if (closest == INT64_MAX || !clock_raw(system, real, &raw)) return;
    phc->clock.readings[phc->clock.count % CLOCK_READINGS].real = nic;
    phc->clock.readings[phc->clock.count++ % CLOCK_READINGS].raw = raw;
}
