#include "siphash.h"

#include <string.h>

static uint64_t word_le(const uint8_t *at) {
    uint64_t value; /* little-endian, as the processor has it */
    memcpy(&value, at, sizeof value);
    return value;
}

#define ROTATE(x, by) ((x) << (by) | (x) >> (64 - (by)))

static void rounds(uint64_t v[4], int count) {
    while (count-- > 0) {
        v[0] += v[1]; v[1] = ROTATE(v[1], 13); v[1] ^= v[0]; v[0] = ROTATE(v[0], 32);
        v[2] += v[3]; v[3] = ROTATE(v[3], 16); v[3] ^= v[2];
        v[0] += v[3]; v[3] = ROTATE(v[3], 21); v[3] ^= v[0];
        v[2] += v[1]; v[1] = ROTATE(v[1], 17); v[1] ^= v[2]; v[2] = ROTATE(v[2], 32);
    }
}

uint64_t siphash24(const uint8_t key[16], const uint8_t *data, size_t bytes) {
    uint64_t k0 = word_le(key), k1 = word_le(key + 8);
    uint64_t v[4] = {k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du, k0 ^ 0x6c7967656e657261u,
                     k1 ^ 0x7465646279746573u};
    size_t whole = bytes & ~(size_t)7;
    for (size_t i = 0; i < whole; i += 8) {
        uint64_t word = word_le(data + i);
        v[3] ^= word;
        rounds(v, 2);
        v[0] ^= word;
    }
    uint64_t last = (uint64_t)bytes << 56;
    for (size_t i = whole; i < bytes; i++) last |= (uint64_t)data[i] << 8 * (i - whole);
    v[3] ^= last;
    rounds(v, 2);
    v[0] ^= last;
    v[2] ^= 0xff;
    rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
