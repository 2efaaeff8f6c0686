/* SipHash-2-4: a keyed 64-bit tag of short messages (Aumasson and Bernstein, INDOCRYPT 2012). */
#ifndef LEADLINE_SIPHASH_H
#define LEADLINE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t siphash24(const uint8_t key[16], const uint8_t *data, size_t bytes);

#endif
