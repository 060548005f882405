/* What the compiled modules share: the numbers of records, and how a record is read. */

#ifndef MIRROR_CONNECT_RECORDS_H
#define MIRROR_CONNECT_RECORDS_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FEWEST_BYTES = 4, LONGEST_VARINT = 10 };
/* NULL: the bytes end too early, or the number is too long. Otherwise the position after it. */
static inline const uint8_t *read_varint(const uint8_t *at, const uint8_t *end, int64_t *number)
{
    uint64_t found = 0;
    for (unsigned shift = 0; shift < 7 * LONGEST_VARINT; shift += 7) {
        if (at >= end)
            return NULL;
        const uint8_t byte = *at++;
        found |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *number = (int64_t)((found >> 1) ^ (0 - (found & 1)));
            return at;
        }
    }
    return NULL;
}

static inline uint64_t zigzag(uint64_t number)
{
    return (number << 1) ^ (0 - (number >> 63));
}

static inline uint64_t varint_size(uint64_t zigzagged)
{
    uint64_t size = 1;
    while (zigzagged > 0x7F) {
        zigzagged >>= 7;
        size++;
    }
    return size;
}

static inline uint8_t *write_varint(uint8_t *at, uint64_t zigzagged)
{
    while (zigzagged > 0x7F) {
        *at++ = (uint8_t)((zigzagged & 0x7F) | 0x80);
        zigzagged >>= 7;
    }
    *at++ = (uint8_t)zigzagged;
    return at;
}

typedef struct {
    int64_t timestamp_delta;
    int64_t offset_delta;
    const uint8_t *rest;
    uint64_t size; /* of the rest */
} Record;

/* NULL: the record is not valid. Otherwise the position of the next one. */
static inline const uint8_t *read_record(const uint8_t *at, const uint8_t *end, Record *record)
{
    int64_t length;
    at = read_varint(at, end, &length);
    if (at == NULL || length < FEWEST_BYTES || length > end - at)
        return NULL;
    const uint8_t *const following = at + length;
    at = read_varint(at + 1, following, &record->timestamp_delta);
    if (at == NULL)
        return NULL;
    at = read_varint(at, following, &record->offset_delta);
    if (at == NULL)
        return NULL;
    record->rest = at;
    record->size = (uint64_t)(following - at);
    return following;
}

/* _recompress.c. */
extern const char recompress_doc[];
PyObject *recompress(PyObject *module, PyObject *args);

#endif
