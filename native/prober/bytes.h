/* Integers in network byte order, at any alignment. With a constant length each is one load and a swap. */
#ifndef LEADLINE_BYTES_H
#define LEADLINE_BYTES_H

#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "written for little-endian processors; swap nothing here and in siphash.c for others"
#endif

static inline void put_bytes(uint8_t *at, uint64_t value, int bytes) {
    uint64_t swapped = __builtin_bswap64(value << (64 - 8 * bytes));
    memcpy(at, &swapped, (size_t)bytes);
}

static inline uint64_t get_bytes(const uint8_t *at, int bytes) {
    uint64_t swapped = 0;
    memcpy(&swapped, at, (size_t)bytes);
    return __builtin_bswap64(swapped) >> (64 - 8 * bytes);
}

#endif
