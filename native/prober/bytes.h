/* Integers in network byte order, at any alignment. */
#ifndef LEADLINE_BYTES_H
#define LEADLINE_BYTES_H

#include <stdint.h>

static inline void put_bytes(uint8_t *at, uint64_t value, int bytes) {
    for (int i = bytes - 1; i >= 0; i--, value >>= 8) at[i] = (uint8_t)value;
}

static inline uint64_t get_bytes(const uint8_t *at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value = value << 8 | at[i];
    return value;
}

#endif
