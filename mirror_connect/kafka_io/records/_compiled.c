/* The inner loops of record_rewrite.py and single_records.py, which are their specification and their substitute.

   Every function returns None for bytes that it does not expect: a record that contradicts its header, a number without an
   end. Then the Python code reads the same bytes, and says what is wrong. So nothing here raises because of bytes, and no
   rule about errors exists twice. The bytes come from the network: no byte is read before its place is known to lie within
   the data. Arithmetic on their numbers is unsigned, because it wraps as Java's does. Long loops run without the GIL.

   Layout of a record: length, attributes (one byte), timestamp delta, offset delta, and the rest, which is never read.
   Lengths and deltas are zigzag varints. */

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

/* How a record's timestamp delta becomes that of the new batch. */
typedef struct {
    int none; /* all records have the batch's timestamp */
    uint64_t shift;
} Stamps;

static inline uint64_t stamp_of(const Stamps *stamps, const Record *record)
{
    return zigzag(stamps->none ? 0 : stamps->shift + (uint64_t)record->timestamp_delta);
}

static inline uint64_t written_size(uint64_t stamp, uint64_t number, uint64_t rest)
{
    const uint64_t length = 1 + varint_size(stamp) + varint_size(zigzag(number)) + rest;
    return varint_size(zigzag(length)) + length;
}

static inline uint8_t *write_record(uint8_t *at, uint64_t stamp, uint64_t number, const uint8_t *rest, uint64_t size)
{
    number = zigzag(number);
    at = write_varint(at, zigzag(1 + varint_size(stamp) + varint_size(number) + size));
    *at++ = 0;
    at = write_varint(at, stamp);
    at = write_varint(at, number);
    memcpy(at, rest, (size_t)size);
    return at + size;
}

/* Writes records that were read before, numbered from `number` on, into the room that `written_size` promised. */
static uint8_t *write_records(uint8_t *out, const uint8_t *at, const uint8_t *end, Py_ssize_t count,
                              const Stamps *stamps, uint64_t number)
{
    for (; count > 0; count--) {
        Record record;
        at = read_record(at, end, &record);
        if (at == NULL)
            break; /* never: they were read before, and bytes do not change */
        out = write_record(out, stamp_of(stamps, &record), number++, record.rest, record.size);
    }
    return out;
}

/* Offsets as ranges without gaps. */
typedef struct {
    int64_t first;
    int64_t count;
} Range;

typedef struct {
    Range *list;
    Py_ssize_t used;
    Py_ssize_t room;
} Ranges;

/* 0: there is no memory. */
static inline int add_offset(Ranges *ranges, int64_t offset)
{
    if (ranges->used) {
        Range *last = &ranges->list[ranges->used - 1];
        if (offset - last->first == last->count) {
            last->count++;
            return 1;
        }
    }
    if (ranges->used == ranges->room) {
        const Py_ssize_t room = ranges->room ? ranges->room * 2 : 64;
        Range *moved = realloc(ranges->list, (size_t)room * sizeof(Range));
        if (moved == NULL)
            return 0;
        ranges->list = moved;
        ranges->room = room;
    }
    ranges->list[ranges->used].first = offset;
    ranges->list[ranges->used].count = 1;
    ranges->used++;
    return 1;
}

static PyObject *tuple_of(const Ranges *ranges)
{
    PyObject *found = PyTuple_New(ranges->used);
    for (Py_ssize_t each = 0; found != NULL && each < ranges->used; each++) {
        PyObject *range = Py_BuildValue("(LL)", (long long)ranges->list[each].first, (long long)ranges->list[each].count);
        if (range == NULL || PyTuple_SetItem(found, each, range) < 0)
            Py_CLEAR(found);
    }
    return found;
}

/* A place for the records; its size was added up from parts of what is in memory. */
static PyObject *room_for(uint64_t size)
{
    if (size > PY_SSIZE_T_MAX)
        return PyErr_NoMemory();
    return PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
}

/* The offset of a record; 0 if it is not one between `previous`, which is at least base - 1, and `last`. */
static inline int offset_of(const Record *record, int64_t base, int64_t previous, int64_t last, int64_t *offset)
{
    /* `base` is not negative, so only the sum with a positive delta can wrap, and it wraps to a negative number. */
    *offset = (int64_t)((uint64_t)base + (uint64_t)record->offset_delta);
    return previous < *offset && *offset <= last;
}

PyDoc_STRVAR(repack_doc,
"repack(data, at, end, count, base_timestamp, timestamp, base_offset, previous, last_offset, from_offset, dense,\n"
"       most_records, most_bytes)\n"
"-> (records, at, read, kept, base_timestamp, max_timestamp, offset ranges, measure) | None\n\n"
"Writes records of data[at:end], which holds `count`, as those of one batch. It stops before a record that would be one\n"
"too many, or make the measure, the bytes of the rests and four for each, exceed `most_bytes`; the first always fits.\n"
"`timestamp`: that of all records; None: their own. Records below `from_offset` are left out. Offsets must rise from\n"
"`previous` to `last_offset`. With `dense` the records count as numbered without a gap from `base_offset` on.");

static PyObject *repack(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *data, *fixed;
    Py_ssize_t from, until, count, most_records, length;
    long long base_timestamp, base_offset, previous, last_offset, from_offset;
    double most_bytes;
    int dense;
    char *content;
    if (!PyArg_ParseTuple(args, "SnnnLOLLLLpnd", &data, &from, &until, &count, &base_timestamp, &fixed, &base_offset,
                          &previous, &last_offset, &from_offset, &dense, &most_records, &most_bytes) ||
        PyBytes_AsStringAndSize(data, &content, &length) < 0)
        return NULL;
    if (from < 0 || until < from || until > length || base_offset < 0 || previous < base_offset - 1) {
        PyErr_SetString(PyExc_ValueError, "no such part of the data, or no such offsets");
        return NULL;
    }
    Stamps stamps = {fixed != Py_None, 0};
    const int64_t fixed_timestamp = stamps.none ? PyLong_AsLongLong(fixed) : 0;
    if (fixed_timestamp == -1 && PyErr_Occurred())
        return NULL;

    const uint8_t *const start = (const uint8_t *)content, *const end = start + until;
    const uint8_t *at = start + from, *kept_from = at;
    Ranges ranges = {NULL, 0, 0};
    Py_ssize_t read = 0, kept = 0;
    int64_t first = 0, latest = 0;
    uint64_t size = 0;
    uint64_t measure = 0;
    int valid = 1, memory = 1;
    Py_BEGIN_ALLOW_THREADS
    while (read < count) {
        Record record;
        int64_t offset = (int64_t)((uint64_t)base_offset + (uint64_t)read);
        const uint8_t *const following = read_record(at, end, &record);
        valid = following != NULL && (dense || offset_of(&record, base_offset, previous, last_offset, &offset));
        if (!valid)
            break;
        if (dense || offset >= from_offset) {
            const uint64_t own = record.size + FEWEST_BYTES;
            if (kept && (kept >= most_records || (double)(measure + own) > most_bytes))
                break;
            const int64_t timestamp =
                stamps.none ? fixed_timestamp : (int64_t)((uint64_t)base_timestamp + (uint64_t)record.timestamp_delta);
            if (!kept) {
                kept_from = at;
                first = latest = timestamp;
                stamps.shift = (uint64_t)base_timestamp - (uint64_t)first;
            }
            latest = timestamp > latest ? timestamp : latest;
            memory = add_offset(&ranges, offset);
            if (!memory)
                break;
            size += written_size(stamp_of(&stamps, &record), (uint64_t)kept, record.size);
            measure += own;
            kept++;
        }
        previous = offset;
        at = following;
        read++;
    }
    Py_END_ALLOW_THREADS

    PyObject *result = NULL, *records = NULL;
    if (!memory) {
        PyErr_NoMemory();
    } else if (!valid || (read >= count && at != end)) {
        Py_INCREF(Py_None);
        result = Py_None;
    } else if ((records = room_for(size)) != NULL) {
        uint8_t *const out = (uint8_t *)PyBytes_AsString(records);
        Py_BEGIN_ALLOW_THREADS
        write_records(out, kept_from, end, kept, &stamps, 0);
        Py_END_ALLOW_THREADS
        PyObject *offsets = tuple_of(&ranges);
        if (offsets != NULL)
            result = Py_BuildValue("(OnnnLLNn)", records, (Py_ssize_t)(at - start), read, kept, (long long)first,
                                   (long long)latest, offsets, (Py_ssize_t)measure);
        Py_DECREF(records);
    }
    free(ranges.list);
    return result;
}

PyDoc_STRVAR(merge_doc,
"merge([(data, count, shift), …]) -> records | None\n\n"
"Writes the records of several batches as those of one. `shift` is added to the timestamp deltas of a batch.");

typedef struct {
    const uint8_t *at;
    const uint8_t *end;
    Py_ssize_t count;
    Stamps stamps;
} Part;

/* 0 with an exception: the part is not a tuple of these types. */
static int take_part(PyObject *item, Part *part)
{
    PyObject *data;
    char *content;
    Py_ssize_t length;
    unsigned long long shift;
    if (!PyTuple_Check(item)) {
        PyErr_SetString(PyExc_TypeError, "a part is a tuple");
        return 0;
    }
    if (!PyArg_ParseTuple(item, "SnK", &data, &part->count, &shift) ||
        PyBytes_AsStringAndSize(data, &content, &length) < 0)
        return 0;
    part->at = (const uint8_t *)content;
    part->end = part->at + length;
    part->stamps.shift = (uint64_t)shift;
    return 1;
}

static PyObject *merge(PyObject *Py_UNUSED(module), PyObject *given)
{
    PyObject *listed = PySequence_Tuple(given); /* keeps the bytes alive while others run */
    if (listed == NULL)
        return NULL;
    const Py_ssize_t count = PyTuple_Size(listed);
    PyObject *result = NULL;
    Part *parts = calloc((size_t)count + 1, sizeof(Part));
    if (parts == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    for (Py_ssize_t each = 0; each < count; each++)
        if (!take_part(PyTuple_GetItem(listed, each), &parts[each]))
            goto done;
    uint64_t size = 0, number = 0;
    int valid = 1;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t each = 0; valid && each < count; each++) {
        const Part *const part = &parts[each];
        const uint8_t *at = part->at;
        for (Py_ssize_t left = part->count; at != NULL && left > 0; left--) {
            Record record;
            at = read_record(at, part->end, &record);
            if (at != NULL)
                size += written_size(stamp_of(&part->stamps, &record), number++, record.size);
        }
        valid = at == part->end;
    }
    Py_END_ALLOW_THREADS
    if (!valid) {
        Py_INCREF(Py_None);
        result = Py_None;
    } else if ((result = room_for(size)) != NULL) {
        uint8_t *out = (uint8_t *)PyBytes_AsString(result);
        number = 0;
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t each = 0; each < count; each++) {
            out = write_records(out, parts[each].at, parts[each].end, parts[each].count, &parts[each].stamps, number);
            number += (uint64_t)(parts[each].count > 0 ? parts[each].count : 0);
        }
        Py_END_ALLOW_THREADS
    }
done:
    free(parts);
    Py_DECREF(listed);
    return result;
}

PyDoc_STRVAR(unpack_doc,
"unpack(data, count, base_timestamp, timestamp, base_offset, last_offset, from_offset)\n"
"-> [(offset, timestamp, rest), …] | None\n\n"
"The records of a batch. The arguments are those of `repack`.");

static PyObject *unpack(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *data, *fixed;
    Py_ssize_t count, length;
    long long base_timestamp, base_offset, last_offset, from_offset;
    char *content;
    if (!PyArg_ParseTuple(args, "SnLOLLL", &data, &count, &base_timestamp, &fixed, &base_offset, &last_offset,
                          &from_offset) ||
        PyBytes_AsStringAndSize(data, &content, &length) < 0)
        return NULL;
    if (base_offset < 0) {
        PyErr_SetString(PyExc_ValueError, "no such offset");
        return NULL;
    }
    const uint8_t *at = (const uint8_t *)content;
    const uint8_t *const end = at + length;
    int64_t previous = base_offset - 1, offset;
    PyObject *found = PyList_New(0);
    if (found == NULL)
        return NULL;
    for (; count > 0; count--) {
        Record record;
        at = read_record(at, end, &record);
        if (at == NULL || !offset_of(&record, base_offset, previous, last_offset, &offset))
            break;
        previous = offset;
        if (offset < from_offset)
            continue;
        PyObject *timestamp;
        if (fixed != Py_None) {
            Py_INCREF(fixed);
            timestamp = fixed;
        } else {
            timestamp = PyLong_FromLongLong((long long)((uint64_t)base_timestamp + (uint64_t)record.timestamp_delta));
        }
        PyObject *entry = timestamp == NULL ? NULL
                                            : Py_BuildValue("(LNy#)", (long long)offset, timestamp,
                                                            (const char *)record.rest, (Py_ssize_t)record.size);
        if (entry == NULL || PyList_Append(found, entry) < 0) {
            Py_XDECREF(entry);
            Py_DECREF(found);
            return NULL;
        }
        Py_DECREF(entry);
    }
    if (count > 0 || at != end) {
        Py_DECREF(found);
        Py_RETURN_NONE;
    }
    return found;
}

/* CRC-32C by the processor. Elsewhere no CRC is checked here: `CHECKS_CRCS` says so, and google_crc32c is faster than C. */

#if defined(__x86_64__) && defined(__GNUC__)
static int checks_crcs(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2") != 0;
}

__attribute__((target("sse4.2"))) static uint32_t crc32c(const uint8_t *at, Py_ssize_t size)
{
    uint64_t crc = 0xFFFFFFFFu, word;
    for (; size >= 8; size -= 8, at += 8) {
        memcpy(&word, at, 8);
        crc = __builtin_ia32_crc32di(crc, word);
    }
    uint32_t rest = (uint32_t)crc;
    for (; size > 0; size--)
        rest = __builtin_ia32_crc32qi(rest, *at++);
    return ~rest;
}
#else
static int checks_crcs(void)
{
    return 0;
}

static uint32_t crc32c(const uint8_t *Py_UNUSED(at), Py_ssize_t Py_UNUSED(size))
{
    return 0;
}
#endif

static inline uint64_t big_endian(const uint8_t *at, unsigned bytes)
{
    uint64_t number = 0;
    for (unsigned each = 0; each < bytes; each++)
        number = number << 8 | at[each];
    return number;
}

/* The layout of a batch, in bytes from its beginning. */
enum {
    LENGTH_AT = 8,
    LENGTH_FROM = 12,
    MAGIC_AT = 16,
    CRC_AT = 17,
    CRC_FROM = 21,
    LAST_DELTA_AT = 23,
    BASE_TIMESTAMP_AT = 27,
    MAX_TIMESTAMP_AT = 35,
    COUNT_AT = 57,
    HEADER_SIZE = 61,
};

typedef struct {
    int64_t offset;
    int64_t timestamp;
    const uint8_t *rest;
    uint64_t size; /* of the rest */
} Single;

/* Length, no attributes and both deltas 0, written in the shortest way; 0 if the record begins otherwise. */
static unsigned beginning(const uint8_t *record, uint64_t size)
{
    for (unsigned width = 1; width <= 2; width++) {
        uint8_t expected[LONGEST_VARINT + 3];
        if (size < width + 3)
            return 0;
        uint8_t *const end = write_varint(expected, zigzag(size - width));
        if (end != expected + width)
            continue;
        memset(end, 0, 3);
        return memcmp(expected, record, width + 3) == 0 ? width + 3 : 0;
    }
    return 0;
}

/* NULL: no simple batch of one record is at `at`. Otherwise the position after it. */
static const uint8_t *read_single(const uint8_t *at, const uint8_t *stop, int64_t wanted, uint64_t largest,
                                  int check_crc, Single *single)
{
    if (stop - at <= HEADER_SIZE || at[MAGIC_AT] != 2)
        return NULL;
    const int64_t length = (int32_t)big_endian(at + LENGTH_AT, 4);
    if (length < HEADER_SIZE - LENGTH_FROM || length > stop - at - LENGTH_FROM)
        return NULL;
    const uint8_t *const record = at + HEADER_SIZE, *const following = at + LENGTH_FROM + length;
    const uint64_t size = (uint64_t)(following - record);
    single->offset = (int64_t)big_endian(at, 8);
    single->timestamp = (int64_t)big_endian(at + BASE_TIMESTAMP_AT, 8);
    if (big_endian(at + CRC_FROM, 2) != 0 || big_endian(at + LAST_DELTA_AT, 4) != 0 ||
        big_endian(at + COUNT_AT, 4) != 1 || single->timestamp != (int64_t)big_endian(at + MAX_TIMESTAMP_AT, 8) ||
        single->offset < wanted || size >= largest)
        return NULL;
    const unsigned before_rest = beginning(record, size);
    if (before_rest == 0 || (check_crc && crc32c(at + CRC_FROM, following - at - CRC_FROM) != big_endian(at + CRC_AT, 4)))
        return NULL;
    single->rest = record + before_rest;
    single->size = size - before_rest;
    return following;
}

PyDoc_STRVAR(merge_singles_doc,
"merge_singles(buffer, at, stop, wanted, most_records, largest, check_crcs)\n"
"-> (records, at, count, base_timestamp, max_timestamp, offset ranges) | None\n\n"
"Writes the simple one-record batches of buffer[at:stop] as the records of one batch, up to the first other batch. None if\n"
"there are not two. `largest`: a record with its length has fewer bytes.");

static PyObject *merge_singles(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer buffer;
    Py_ssize_t from, until, most_records;
    long long wanted, largest;
    int check_crcs;
    if (!PyArg_ParseTuple(args, "y*nnLnLp", &buffer, &from, &until, &wanted, &most_records, &largest, &check_crcs))
        return NULL;
    PyObject *result = NULL, *records = NULL;
    Single *singles = NULL;
    Ranges ranges = {NULL, 0, 0};
    if (from < 0 || until < from || until > buffer.len || wanted < 0 || most_records < 0 || largest < 0) {
        PyErr_SetString(PyExc_ValueError, "no such part of the data, or no such limits");
        goto done;
    }
    if (check_crcs && !checks_crcs()) {
        PyErr_SetString(PyExc_ValueError, "this processor checks no CRC");
        goto done;
    }
    const uint8_t *const start = (const uint8_t *)buffer.buf, *const stop = start + until;
    const uint8_t *at = start + from;
    /* An empty record in a batch of its own has more bytes than this. */
    const Py_ssize_t possible = (until - from) / HEADER_SIZE + 1;
    singles = calloc((size_t)(possible < most_records ? possible : most_records) + 1, sizeof(Single));
    if (singles == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    Py_ssize_t count = 0;
    int64_t latest = 0;
    uint64_t size = 0;
    int memory = 1;
    Py_BEGIN_ALLOW_THREADS
    while (count < most_records) {
        Single *const single = &singles[count];
        const uint8_t *const following = read_single(at, stop, wanted, (uint64_t)largest, check_crcs, single);
        if (following == NULL)
            break;
        memory = add_offset(&ranges, single->offset);
        /* No offset follows the largest one. */
        if (!memory || single->offset == INT64_MAX)
            break;
        latest = count == 0 || single->timestamp > latest ? single->timestamp : latest;
        size += written_size(zigzag((uint64_t)single->timestamp - (uint64_t)singles[0].timestamp), (uint64_t)count,
                             single->size);
        wanted = single->offset + 1;
        at = following;
        count++;
    }
    Py_END_ALLOW_THREADS
    if (!memory) {
        PyErr_NoMemory();
    } else if (count < 2) {
        Py_INCREF(Py_None);
        result = Py_None;
    } else if ((records = room_for(size)) != NULL) {
        uint8_t *out = (uint8_t *)PyBytes_AsString(records);
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t each = 0; each < count; each++)
            out = write_record(out, zigzag((uint64_t)singles[each].timestamp - (uint64_t)singles[0].timestamp),
                               (uint64_t)each, singles[each].rest, singles[each].size);
        Py_END_ALLOW_THREADS
        PyObject *offsets = tuple_of(&ranges);
        if (offsets != NULL)
            result = Py_BuildValue("(OnnLLN)", records, (Py_ssize_t)(at - start), count,
                                   (long long)singles[0].timestamp, (long long)latest, offsets);
        Py_DECREF(records);
    }
done:
    free(singles);
    free(ranges.list);
    PyBuffer_Release(&buffer);
    return result;
}

static PyMethodDef functions[] = {
    {"repack", repack, METH_VARARGS, repack_doc},
    {"merge", merge, METH_O, merge_doc},
    {"unpack", unpack, METH_VARARGS, unpack_doc},
    {"merge_singles", merge_singles, METH_VARARGS, merge_singles_doc},
    {NULL, NULL, 0, NULL},
};

static int add_constants(PyObject *module)
{
    PyObject *checks = PyBool_FromLong(checks_crcs());
    const int failed = checks == NULL || PyModule_AddObjectRef(module, "CHECKS_CRCS", checks) < 0;
    Py_XDECREF(checks);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)add_constants}, {0, NULL}};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_compiled",
    .m_doc = "The inner loops of record_rewrite.py and single_records.py.",
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__compiled(void)
{
    return PyModuleDef_Init(&definition);
}
