/* The inner loops of unpacked_records.py, record_rewrite.py, batch_merge.py, batch_split.py, record_transforms.py,
   record_columns.py and single_records.py, and what record_batch.py does with a batch that is copied as it is. These modules
   are the specification and the substitute.

   Every function returns None for bytes that it does not expect: a record that contradicts its header, a number without an
   end. Then the Python code reads the same bytes, and says what is wrong. So nothing here raises because of bytes, and no
   rule about errors exists twice. The bytes come from the network: no byte is read before its place is known to lie within
   the data. Arithmetic on their numbers is unsigned, because it wraps as Java's does. Long loops run without the GIL.

   Layout of a record: length, attributes (one byte), timestamp delta, offset delta, and the rest, which only
   transformations read.
   Lengths and deltas are zigzag varints. */

#include "_records.h"

/* record_transforms.py has the same limits. */
enum { MOST_HEADERS = 100000, MOST_TRANSFORMED = 256 << 20 };

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
static uint8_t *write_records(uint8_t *out, const uint8_t *at, const uint8_t *end, int64_t count,
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
static inline int add_range(Ranges *ranges, int64_t first, int64_t count)
{
    if (ranges->used) {
        Range *last = &ranges->list[ranges->used - 1];
        if (first - last->first == last->count) {
            last->count += count;
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
    ranges->list[ranges->used].first = first;
    ranges->list[ranges->used].count = count;
    ranges->used++;
    return 1;
}

/* Without the parsing of a format: there are many of them. */
static PyObject *pair_of(const Range *range)
{
    PyObject *pair = PyTuple_New(2);
    if (pair == NULL)
        return NULL;
    long long numbers[2] = {(long long)range->first, (long long)range->count};
    for (Py_ssize_t each = 0; each < 2; each++) {
        PyObject *number = PyLong_FromLongLong(numbers[each]);
        if (number == NULL || PyTuple_SetItem(pair, each, number) < 0) {
            Py_DECREF(pair);
            return NULL;
        }
    }
    return pair;
}

static PyObject *tuple_of(const Ranges *ranges)
{
    PyObject *found = PyTuple_New(ranges->used);
    for (Py_ssize_t each = 0; found != NULL && each < ranges->used; each++) {
        PyObject *range = pair_of(&ranges->list[each]);
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
            memory = add_range(&ranges, offset, 1);
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

PyDoc_STRVAR(common_delta_doc,
"common_delta(data, count) -> timestamp delta | None\n\n"
"The timestamp delta of all records. None if they have several, or offsets other than 0, 1, 2 …, or are not valid.");

static PyObject *common_delta(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *data;
    Py_ssize_t count, length;
    char *content;
    if (!PyArg_ParseTuple(args, "Sn", &data, &count) || PyBytes_AsStringAndSize(data, &content, &length) < 0)
        return NULL;
    const uint8_t *at = (const uint8_t *)content;
    const uint8_t *const end = at + length;
    int64_t delta = 0;
    int valid = count > 0;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t number = 0; valid && number < count; number++) {
        Record record;
        at = read_record(at, end, &record);
        if (at != NULL && number == 0)
            delta = record.timestamp_delta;
        valid = at != NULL && record.timestamp_delta == delta && record.offset_delta == number;
    }
    Py_END_ALLOW_THREADS
    if (!valid || at != end)
        Py_RETURN_NONE;
    return PyLong_FromLongLong(delta);
}

/* CRC-32C by the processor. Elsewhere no CRC is computed here: `CHECKS_CRCS` says so, and google_crc32c is faster than C.

   A CRC is a remainder of polynomials, and this form of it is linear: without inversion at begin and end, the CRC of A and B
   one after the other is that of A, moved over the bytes of B, XOR that of B. Moving is a product, so it costs the same for
   each length. So the header of a batch can change without another look at its records. And three parts of long data are
   computed at the same time: the processor can begin one step of each in each cycle, but needs three for one. */

enum { LONG_LANE = 4096, SHORT_LANE = 256 };
static const uint32_t CASTAGNOLI = 0x82F63B78u;

/* x to the power of 8 * 2^n: moves over 2^n bytes. */
static uint32_t moves[31];
static uint32_t over_long[4][256], over_short[4][256];

/* The product, in the order of bits that the processor has: the highest one is that of x^0. */
static uint32_t product(uint32_t one, uint32_t other)
{
    uint32_t result = 0;
    for (int bit = 31; bit >= 0; bit--) {
        result ^= other & (0u - (one >> bit & 1));
        other = other >> 1 ^ (CASTAGNOLI & (0u - (other & 1)));
    }
    return result;
}

static uint32_t moved(uint32_t crc, uint64_t bytes)
{
    for (unsigned each = 0; bytes > 0; bytes >>= 1, each++)
        if (bytes & 1)
            crc = product(moves[each], crc);
    return crc;
}

static inline uint32_t moved_over_lane(const uint32_t table[4][256], uint32_t crc)
{
    return table[0][crc & 255] ^ table[1][crc >> 8 & 255] ^ table[2][crc >> 16 & 255] ^ table[3][crc >> 24];
}

static void make_tables(void)
{
    moves[0] = 1u << (31 - 8);
    for (unsigned each = 1; each < sizeof(moves) / sizeof(moves[0]); each++)
        moves[each] = product(moves[each - 1], moves[each - 1]);
    for (uint32_t byte = 0; byte < 4; byte++)
        for (uint32_t each = 0; each < 256; each++) {
            over_long[byte][each] = moved(each << 8 * byte, LONG_LANE);
            over_short[byte][each] = moved(each << 8 * byte, SHORT_LANE);
        }
}

#if defined(__x86_64__) && defined(__GNUC__)
static int has_crc32c(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2") != 0;
}

__attribute__((target("sse4.2"))) static const uint8_t *three_lanes(uint32_t *crc, const uint8_t *at, const uint8_t *end,
                                                                    Py_ssize_t lane, const uint32_t table[4][256])
{
    for (; end - at >= 3 * lane; at += 2 * lane) {
        uint64_t first = *crc, second = 0, third = 0, word;
        for (const uint8_t *const stop = at + lane; at < stop; at += 8) {
            memcpy(&word, at, 8);
            first = __builtin_ia32_crc32di(first, word);
            memcpy(&word, at + lane, 8);
            second = __builtin_ia32_crc32di(second, word);
            memcpy(&word, at + 2 * lane, 8);
            third = __builtin_ia32_crc32di(third, word);
        }
        *crc = moved_over_lane(table, moved_over_lane(table, (uint32_t)first) ^ (uint32_t)second) ^ (uint32_t)third;
    }
    return at;
}

/* Without inversion: begin with ~0 and invert the result for what others call the CRC. */
__attribute__((target("sse4.2"))) static uint32_t crc32c(uint32_t crc, const uint8_t *at, Py_ssize_t size)
{
    const uint8_t *const end = at + size;
    at = three_lanes(&crc, at, end, LONG_LANE, over_long);
    at = three_lanes(&crc, at, end, SHORT_LANE, over_short);
    uint64_t wide = crc, word;
    for (; end - at >= 8; at += 8) {
        memcpy(&word, at, 8);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    for (; at < end; at++)
        crc = __builtin_ia32_crc32qi(crc, *at);
    return crc;
}
#else
static int has_crc32c(void)
{
    return 0;
}

static uint32_t crc32c(uint32_t crc, const uint8_t *Py_UNUSED(at), Py_ssize_t Py_UNUSED(size))
{
    return crc;
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
    /* Of the attributes. */
    CODEC = 0x07,
    LOG_APPEND_TIME = 0x08,
    TRANSACTIONAL = 0x10,
    /* What a batch that is copied as it is may have. */
    COPIED = CODEC | TRANSACTIONAL,
    ZSTD = 4,
};

typedef struct {
    int64_t offset;
    int64_t timestamp;
    int64_t max_timestamp;
    int64_t count;
    const uint8_t *records;
    const uint8_t *end;
} Plain;

/* What `read_plain` takes: offsets from `wanted` on, batches of at most `largest` bytes, these bits of the attributes. */
typedef struct {
    int64_t wanted;
    int64_t largest;
    uint64_t attributes;
} Taken;

/* NULL: no uncompressed batch with only dense records is at `at`, or none that is taken. Otherwise its end. */
static const uint8_t *read_plain(const uint8_t *at, const uint8_t *stop, const Taken *taken, Plain *plain)
{
    if (stop - at <= HEADER_SIZE || at[MAGIC_AT] != 2)
        return NULL;
    const int64_t length = (int32_t)big_endian(at + LENGTH_AT, 4);
    if (length < HEADER_SIZE - LENGTH_FROM || length > stop - at - LENGTH_FROM || length > taken->largest - LENGTH_FROM)
        return NULL;
    plain->offset = (int64_t)big_endian(at, 8);
    plain->timestamp = (int64_t)big_endian(at + BASE_TIMESTAMP_AT, 8);
    plain->max_timestamp = (int64_t)big_endian(at + MAX_TIMESTAMP_AT, 8);
    plain->count = (int32_t)big_endian(at + COUNT_AT, 4);
    plain->records = at + HEADER_SIZE;
    plain->end = at + LENGTH_FROM + length;
    const int plain_enough = (big_endian(at + CRC_FROM, 2) & ~taken->attributes) == 0 && plain->count > 0 &&
                             (int32_t)big_endian(at + LAST_DELTA_AT, 4) == plain->count - 1 &&
                             plain->offset >= taken->wanted && plain->offset <= INT64_MAX - plain->count;
    return plain_enough ? plain->end : NULL;
}

/* What the records of a batch need behind `number` others; 0 if they are not valid. */
static uint64_t size_behind(const Plain *plain, const Stamps *stamps, uint64_t number)
{
    uint64_t size = 0;
    const uint8_t *at = plain->records;
    for (int64_t left = plain->count; left > 0; left--) {
        Record record;
        at = read_record(at, plain->end, &record);
        if (at == NULL)
            return 0;
        size += written_size(stamp_of(stamps, &record), number++, record.size);
    }
    return at == plain->end ? size : 0;
}

PyDoc_STRVAR(merge_plain_doc,
"merge_plain(buffer, at, limit, wanted, most_records, largest, check_crcs, append_time)\n"
"-> (records, at, batches, count, base_timestamp, max_timestamp, offset ranges) | None\n\n"
"Writes the records of the uncompressed batches from buffer[at] on, of at most `largest` bytes each, as those of one batch\n"
"of at most `limit` bytes. It ends at the first other batch. None if there are not two. `append_time`: also of batches with\n"
"LogAppendTime, whose records keep the times that they have in the bytes.");

static PyObject *merge_plain(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer buffer;
    Py_ssize_t from;
    long long limit, wanted, most_records, largest;
    int check_crcs, append_time = 0;
    if (!PyArg_ParseTuple(args, "y*nLLLLp|p", &buffer, &from, &limit, &wanted, &most_records, &largest, &check_crcs,
                          &append_time))
        return NULL;
    PyObject *result = NULL, *records = NULL;
    Plain *plain = NULL;
    Ranges ranges = {NULL, 0, 0};
    if (from < 0 || from > buffer.len || wanted < 0 || limit < HEADER_SIZE || largest < 0) {
        PyErr_SetString(PyExc_ValueError, "no such part of the data, or no such limits");
        goto done;
    }
    if (check_crcs && !has_crc32c()) {
        PyErr_SetString(PyExc_ValueError, "this processor checks no CRC");
        goto done;
    }
    const uint8_t *const start = (const uint8_t *)buffer.buf, *const stop = start + buffer.len;
    const uint8_t *at = start + from, *following;
    /* One batch alone stays as it is, and costs no look at its records. */
    Plain first, second;
    Taken taken = {wanted, largest, append_time ? LOG_APPEND_TIME : 0};
    following = read_plain(at, stop, &taken, &first);
    taken.wanted = following == NULL ? wanted : first.offset + first.count;
    if (following == NULL || read_plain(following, stop, &taken, &second) == NULL) {
        Py_INCREF(Py_None);
        result = Py_None;
        goto done;
    }
    taken.wanted = wanted;
    /* Nobody else runs meanwhile, so the bytes of the buffer do not change between the two passes. */
    Py_ssize_t batches = 0, room = 0;
    int64_t count = 0, latest = 0;
    uint64_t size = 0;
    for (;;) {
        if (batches == room) {
            room = room ? room * 2 : 64;
            Plain *moved = realloc(plain, (size_t)room * sizeof(Plain));
            if (moved == NULL) {
                PyErr_NoMemory();
                goto done;
            }
            plain = moved;
        }
        Plain *const each = &plain[batches];
        following = read_plain(at, stop, &taken, each);
        if (following == NULL || count + each->count > most_records ||
            (check_crcs && ~crc32c(~0u, at + CRC_FROM, following - at - CRC_FROM) != big_endian(at + CRC_AT, 4)))
            break;
        const Stamps stamps = {0, (uint64_t)each->timestamp - (uint64_t)first.timestamp};
        const uint64_t more = size_behind(each, &stamps, (uint64_t)count);
        if (more == 0 || size + more > (uint64_t)limit - HEADER_SIZE)
            break;
        if (!add_range(&ranges, each->offset, each->count)) {
            PyErr_NoMemory();
            goto done;
        }
        latest = batches == 0 || each->max_timestamp > latest ? each->max_timestamp : latest;
        size += more;
        count += each->count;
        taken.wanted = each->offset + each->count;
        at = following;
        batches++;
    }
    if (batches < 2) {
        Py_INCREF(Py_None);
        result = Py_None;
    } else if ((records = room_for(size)) != NULL) {
        uint8_t *out = (uint8_t *)PyBytes_AsString(records);
        uint64_t number = 0;
        for (Py_ssize_t each = 0; each < batches; each++) {
            const Stamps stamps = {0, (uint64_t)plain[each].timestamp - (uint64_t)first.timestamp};
            out = write_records(out, plain[each].records, plain[each].end, plain[each].count, &stamps, number);
            number += (uint64_t)plain[each].count;
        }
        PyObject *offsets = tuple_of(&ranges);
        if (offsets != NULL)
            result = Py_BuildValue("(OnnLLLN)", records, (Py_ssize_t)(at - start), batches, (long long)count,
                                   (long long)first.timestamp, (long long)latest, offsets);
        Py_DECREF(records);
    }
done:
    free(plain);
    free(ranges.list);
    PyBuffer_Release(&buffer);
    return result;
}

PyDoc_STRVAR(take_doc,
"take(buffer, at, wanted, check_crcs, append_time)\n"
"-> (end, (records, count, first offset, last offset, codec, base_timestamp, max_timestamp), CRC, by broker) | None\n\n"
"The batch at buffer[at], if it is intact and can be copied as it is: its records behind the header, and their CRC for\n"
"`header`. None if not. `append_time`: also with LogAppendTime; `by broker` says whether it has that.");

static PyObject *take(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer buffer;
    Py_ssize_t from;
    long long wanted;
    int check_crcs, append_time;
    if (!PyArg_ParseTuple(args, "y*nLpp", &buffer, &from, &wanted, &check_crcs, &append_time))
        return NULL;
    PyObject *result = NULL, *records = NULL;
    if (from < 0 || from > buffer.len || !has_crc32c()) {
        PyErr_SetString(PyExc_ValueError, "no such part of the data, or this processor computes no CRC");
        goto done;
    }
    const uint8_t *const at = (const uint8_t *)buffer.buf + from;
    const Py_ssize_t left = buffer.len - from;
    if (left <= HEADER_SIZE || at[MAGIC_AT] != 2)
        goto other;
    const int64_t length = (int32_t)big_endian(at + LENGTH_AT, 4);
    if (length <= HEADER_SIZE - LENGTH_FROM || length > left - LENGTH_FROM)
        goto other;
    const Py_ssize_t size = (Py_ssize_t)length + LENGTH_FROM - HEADER_SIZE;
    const uint64_t attributes = big_endian(at + CRC_FROM, 2);
    const int64_t offset = (int64_t)big_endian(at, 8), count = (int32_t)big_endian(at + COUNT_AT, 4);
    if ((attributes & ~(uint64_t)(COPIED | (append_time ? LOG_APPEND_TIME : 0))) || (attributes & CODEC) > ZSTD ||
        offset < 0 || offset < wanted || count <= 0 || (int32_t)big_endian(at + LAST_DELTA_AT, 4) != count - 1 ||
        offset > INT64_MAX - count)
        goto other;
    /* The copy first: then its bytes are near for the CRC. */
    records = PyBytes_FromStringAndSize((const char *)at + HEADER_SIZE, size);
    if (records == NULL)
        goto done;
    const uint32_t crc = crc32c(0, (const uint8_t *)PyBytes_AsString(records), size);
    if (check_crcs) {
        const uint32_t head = crc32c(~0u, at + CRC_FROM, HEADER_SIZE - CRC_FROM);
        if (~(moved(head, (uint64_t)size) ^ crc) != (uint32_t)big_endian(at + CRC_AT, 4))
            goto other;
    }
    result = Py_BuildValue("(n(OLLLiLL)ki)", from + HEADER_SIZE + size, records, (long long)count, (long long)offset,
                           (long long)(offset + count - 1), (int)(attributes & CODEC),
                           (long long)big_endian(at + BASE_TIMESTAMP_AT, 8),
                           (long long)big_endian(at + MAX_TIMESTAMP_AT, 8), (unsigned long)crc,
                           (attributes & LOG_APPEND_TIME) != 0);
    goto done;
other:
    Py_INCREF(Py_None);
    result = Py_None;
done:
    Py_XDECREF(records);
    PyBuffer_Release(&buffer);
    return result;
}

static inline uint8_t *put_big_endian(uint8_t *at, uint64_t number, unsigned bytes)
{
    for (unsigned each = bytes; each > 0; each--)
        *at++ = (uint8_t)(number >> 8 * (each - 1));
    return at;
}

PyDoc_STRVAR(header_doc,
"header(size, CRC, attributes, count, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence) -> bytes\n\n"
"The header to send before `size` bytes of records with this CRC, as `take` gives it; see record_batch.stamped_header.");

static PyObject *header(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_ssize_t size;
    unsigned long crc;
    int attributes, count, epoch, sequence;
    long long base, latest, producer;
    if (!PyArg_ParseTuple(args, "nkiiLLLii", &size, &crc, &attributes, &count, &base, &latest, &producer, &epoch,
                          &sequence))
        return NULL;
    if (size < 0 || size > INT32_MAX - HEADER_SIZE || !has_crc32c()) {
        PyErr_SetString(PyExc_ValueError, "no such size, or this processor computes no CRC");
        return NULL;
    }
    uint8_t made[HEADER_SIZE], *at = made + CRC_FROM;
    at = put_big_endian(at, (uint64_t)attributes, 2);
    at = put_big_endian(at, (uint64_t)count - 1, 4);
    at = put_big_endian(at, (uint64_t)base, 8);
    at = put_big_endian(at, (uint64_t)latest, 8);
    at = put_big_endian(at, (uint64_t)producer, 8);
    at = put_big_endian(at, (uint64_t)epoch, 2);
    at = put_big_endian(at, (uint64_t)sequence, 4);
    put_big_endian(at, (uint64_t)count, 4);
    const uint32_t head = crc32c(~0u, made + CRC_FROM, HEADER_SIZE - CRC_FROM);
    /* Offset 0 and no leader epoch: the broker writes both. */
    at = put_big_endian(made, 0, 8);
    at = put_big_endian(at, (uint64_t)(HEADER_SIZE - LENGTH_FROM + size), 4);
    at = put_big_endian(at, UINT64_MAX, 4);
    at = put_big_endian(at, 2, 1);
    put_big_endian(at, (uint32_t)~(moved(head, (uint64_t)size) ^ (uint32_t)crc), 4);
    return PyBytes_FromStringAndSize((const char *)made, HEADER_SIZE);
}

/* What transformations do with a record, and with which: the numbers of record_steps.py. */
enum { FILTER, DROP_HEADERS, INSERT_HEADER };
enum { ALWAYS, IS_TOMBSTONE, HAS_HEADER };

typedef struct {
    const uint8_t *at;
    uint64_t size;
} Span;

typedef struct {
    int action;
    int condition;
    int negated;
    Span has;         /* the header's name that HAS_HEADER looks for */
    Span *names;      /* of the headers to drop or to insert */
    Py_ssize_t count; /* of the names */
    Span whole;       /* the header to insert, as it is in a record */
} Step;

typedef struct {
    Span name;
    Span whole; /* name and value with their lengths */
} Header;

typedef struct {
    Header *list;
    Py_ssize_t used;
    Py_ssize_t room;
} Headers;

static inline int is_same(const Span *one, const Span *other)
{
    return one->size == other->size && memcmp(one->at, other->at, (size_t)one->size) == 0;
}

/* 0: there is no memory. */
static inline int add_header(Headers *headers, const Header *header)
{
    if (headers->used == headers->room) {
        const Py_ssize_t room = headers->room ? headers->room * 2 : 16;
        Header *moved = realloc(headers->list, (size_t)room * sizeof(Header));
        if (moved == NULL)
            return 0;
        headers->list = moved;
        headers->room = room;
    }
    headers->list[headers->used++] = *header;
    return 1;
}

/* NULL: the bytes are not valid. Otherwise the position behind a key or value. `null`: it has none. */
static inline const uint8_t *skip_bytes(const uint8_t *at, const uint8_t *end, int *null)
{
    int64_t length;
    at = read_varint(at, end, &length);
    if (at == NULL || length > end - at)
        return NULL;
    *null = length < 0;
    return length < 0 ? at : at + length;
}

enum { INVALID, NO_MEMORY, TOO_MUCH, READ };

/* Reads all headers of a record up to its end. */
static int read_headers(const uint8_t *at, const uint8_t *end, Headers *headers)
{
    int64_t count;
    headers->used = 0;
    at = read_varint(at, end, &count);
    if (at == NULL || count < 0 || count > end - at)
        return INVALID;
    for (; count > 0; count--) {
        Header header;
        int64_t length;
        int null;
        header.whole.at = at;
        at = read_varint(at, end, &length);
        if (at == NULL || length < 0 || length > end - at)
            return INVALID;
        header.name.at = at;
        header.name.size = (uint64_t)length;
        at = skip_bytes(at + length, end, &null);
        if (at == NULL)
            return INVALID;
        header.whole.size = (uint64_t)(at - header.whole.at);
        if (headers->used >= MOST_HEADERS)
            return TOO_MUCH;
        if (!add_header(headers, &header))
            return NO_MEMORY;
    }
    return at == end ? READ : INVALID;
}

static int takes(const Step *step, const Headers *headers, int tombstone)
{
    if (step->condition == IS_TOMBSTONE)
        return tombstone;
    for (Py_ssize_t each = 0; step->condition == HAS_HEADER; each++) {
        if (each == headers->used)
            return 0;
        if (is_same(&headers->list[each].name, &step->has))
            return 1;
    }
    return 1;
}

/* Whether any was there. */
static int drop_headers(const Step *step, Headers *headers)
{
    Py_ssize_t kept = 0;
    for (Py_ssize_t each = 0; each < headers->used; each++) {
        int named = 0;
        for (Py_ssize_t name = 0; !named && name < step->count; name++)
            named = is_same(&headers->list[each].name, &step->names[name]);
        if (!named)
            headers->list[kept++] = headers->list[each];
    }
    const int dropped = kept < headers->used;
    headers->used = kept;
    return dropped;
}

enum { DROPPED = READ + 1, CHANGED };

/* READ: the record stays as it is. */
static int apply(const Step *steps, Py_ssize_t count, const Record *record, Headers *headers, const uint8_t **headers_at)
{
    const uint8_t *const end = record->rest + record->size;
    int null, changed = 0;
    const uint8_t *at = skip_bytes(record->rest, end, &null);
    at = at == NULL ? NULL : skip_bytes(at, end, &null);
    if (at == NULL)
        return INVALID;
    *headers_at = at;
    const int read = read_headers(at, end, headers);
    if (read != READ)
        return read;
    for (Py_ssize_t each = 0; each < count; each++) {
        const Step *const step = &steps[each];
        if (takes(step, headers, null) == step->negated)
            continue;
        if (step->action == FILTER)
            return DROPPED;
        if (step->action == DROP_HEADERS) {
            changed |= drop_headers(step, headers);
        } else {
            const Header inserted = {step->names[0], step->whole};
            if (!add_header(headers, &inserted))
                return NO_MEMORY;
            changed = 1;
        }
    }
    return changed ? CHANGED : READ;
}

/* A growing place for bytes. */
typedef struct {
    uint8_t *start;
    uint64_t used;
    uint64_t room;
} Output;

/* 0: there is no memory. */
static int reserve(Output *output, uint64_t more)
{
    if (more <= output->room - output->used)
        return 1;
    const uint64_t room = (output->used + more) + (output->used + more) / 2;
    if (room > PY_SSIZE_T_MAX)
        return 0;
    uint8_t *moved = realloc(output->start, (size_t)room);
    if (moved == NULL)
        return 0;
    output->start = moved;
    output->room = room;
    return 1;
}

static inline uint8_t *copy(uint8_t *out, const uint8_t *from, uint64_t size)
{
    memcpy(out, from, (size_t)size);
    return out + size;
}

/* Writes a record with other headers. `body`: where its attributes are. 0: there is no memory. */
static int write_changed(Output *output, const uint8_t *body, const uint8_t *headers_at, const Headers *headers)
{
    const uint64_t before = (uint64_t)(headers_at - body), number = zigzag((uint64_t)headers->used);
    uint64_t length = before + varint_size(number);
    for (Py_ssize_t each = 0; each < headers->used; each++)
        length += headers->list[each].whole.size;
    if (!reserve(output, length + LONGEST_VARINT))
        return 0;
    uint8_t *out = write_varint(output->start + output->used, zigzag(length));
    out = write_varint(copy(out, body, before), number);
    for (Py_ssize_t each = 0; each < headers->used; each++)
        out = copy(out, headers->list[each].whole.at, headers->list[each].whole.size);
    output->used = (uint64_t)(out - output->start);
    return 1;
}

/* 0 with an exception: it is no bytes object. */
static int take_span(PyObject *given, Span *span)
{
    char *content;
    Py_ssize_t length;
    if (PyBytes_AsStringAndSize(given, &content, &length) < 0)
        return 0;
    span->at = (const uint8_t *)content;
    span->size = (uint64_t)length;
    return 1;
}

/* 0 with an exception: it is not a step. */
static int take_step(PyObject *given, Step *step)
{
    PyObject *has, *names, *whole;
    if (!PyTuple_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "a step is a tuple");
        return 0;
    }
    if (!PyArg_ParseTuple(given, "iipSO!S", &step->action, &step->condition, &step->negated, &has, &PyTuple_Type, &names,
                          &whole) ||
        !take_span(has, &step->has) || !take_span(whole, &step->whole))
        return 0;
    step->count = PyTuple_Size(names);
    if (step->action == INSERT_HEADER && step->count != 1) {
        PyErr_SetString(PyExc_ValueError, "one header is inserted at a time");
        return 0;
    }
    step->names = calloc((size_t)step->count + 1, sizeof(Span));
    if (step->names == NULL) {
        PyErr_NoMemory();
        return 0;
    }
    for (Py_ssize_t each = 0; each < step->count; each++)
        if (!take_span(PyTuple_GetItem(names, each), &step->names[each]))
            return 0;
    return 1;
}

PyDoc_STRVAR(transform_doc,
"transform(data, count, ((action, condition, negated, has, names, header), …)) -> (data, count) | None\n\n"
"The records of `data` after these steps of transformations. Their timestamp and offset deltas stay. OverflowError\n"
"beyond MOST_HEADERS in a record or MOST_TRANSFORMED bytes.");

static PyObject *transform(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *data, *given;
    Py_ssize_t count, length;
    char *content;
    if (!PyArg_ParseTuple(args, "SnO!", &data, &count, &PyTuple_Type, &given) ||
        PyBytes_AsStringAndSize(data, &content, &length) < 0)
        return NULL;
    const Py_ssize_t steps_count = PyTuple_Size(given); /* it keeps the bytes of the steps alive while others run */
    PyObject *result = NULL;
    Headers headers = {NULL, 0, 0};
    Output output = {NULL, 0, 0};
    Step *steps = calloc((size_t)steps_count + 1, sizeof(Step));
    if (steps == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    for (Py_ssize_t each = 0; each < steps_count; each++)
        if (!take_step(PyTuple_GetItem(given, each), &steps[each]))
            goto done;
    const uint8_t *at = (const uint8_t *)content;
    /* What lies between is still to be copied as it is. */
    const uint8_t *unwritten = at;
    const uint8_t *const end = at + length;
    Py_ssize_t kept = 0;
    int outcome = READ;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t left = count; left > 0; left--) {
        Record record;
        const uint8_t *headers_at = NULL;
        const uint8_t *const following = read_record(at, end, &record);
        outcome = following == NULL ? INVALID : apply(steps, steps_count, &record, &headers, &headers_at);
        if (outcome < READ)
            break;
        if (outcome != READ) {
            const uint64_t same = (uint64_t)(at - unwritten);
            int64_t ignored;
            if (!reserve(&output, same)) {
                outcome = NO_MEMORY;
                break;
            }
            if (same)
                memcpy(output.start + output.used, unwritten, (size_t)same);
            output.used += same;
            unwritten = following;
            if (outcome == CHANGED &&
                !write_changed(&output, read_varint(at, end, &ignored), headers_at, &headers)) {
                outcome = NO_MEMORY;
                break;
            }
            if (output.used > MOST_TRANSFORMED) {
                outcome = TOO_MUCH;
                break;
            }
        }
        kept += outcome != DROPPED;
        at = following;
    }
    if (outcome >= READ && at != end)
        outcome = INVALID;
    if (outcome >= READ && unwritten != (const uint8_t *)content) {
        if (reserve(&output, (uint64_t)(end - unwritten))) {
            if (end != unwritten)
                memcpy(output.start + output.used, unwritten, (size_t)(end - unwritten));
            output.used += (uint64_t)(end - unwritten);
        } else {
            outcome = NO_MEMORY;
        }
    }
    Py_END_ALLOW_THREADS
    if (outcome == NO_MEMORY) {
        PyErr_NoMemory();
    } else if (outcome == TOO_MUCH) {
        PyErr_SetString(PyExc_OverflowError, "a record has too many headers, or the records become too many bytes");
    } else if (outcome == INVALID) {
        Py_INCREF(Py_None);
        result = Py_None;
    } else if (unwritten == (const uint8_t *)content) {
        result = Py_BuildValue("(On)", data, kept);
    } else {
        result = Py_BuildValue("(y#n)", output.start == NULL ? "" : (const char *)output.start, (Py_ssize_t)output.used, kept);
    }
done:
    for (Py_ssize_t each = 0; steps != NULL && each < steps_count; each++)
        free(steps[each].names);
    free(steps);
    free(headers.list);
    free(output.start);
    return result;
}

/* Records as columns of Arrow's arrays, and columns as records: see record_columns.py. */

enum { TIMESTAMPS = 1, KEYS = 2, VALUES = 4, HEADERS = 8 };
enum { MICROSECONDS = 1000 };

/* A key, a value, or a header's name or value. */
typedef struct {
    const uint8_t *at;
    uint64_t size;
    int null;
} Field;

/* NULL: the bytes are not valid. Otherwise the position behind the field. */
static inline const uint8_t *read_field(const uint8_t *at, const uint8_t *end, Field *field)
{
    int64_t length;
    at = read_varint(at, end, &length);
    if (at == NULL || length > end - at)
        return NULL;
    field->null = length < 0;
    field->at = at;
    field->size = length < 0 ? 0 : (uint64_t)length;
    return at + field->size;
}

/* An array of bytes that is made: first all fields are counted, then all are put. */
typedef struct {
    uint64_t fields;
    uint64_t nulls;
    uint64_t bytes;
    PyObject *validity;
    PyObject *offsets;
    PyObject *data;
    uint8_t *validity_at;
    uint8_t *offsets_at;
    uint8_t *data_at;
    uint64_t row;
    uint32_t used;
} Made;

static inline void count_field(Made *made, const Field *field)
{
    made->fields++;
    made->nulls += (uint64_t)field->null;
    made->bytes += field->size;
}

/* 0 with an exception: there is no memory, or an array can't have so many bytes. */
static int make_room(Made *made)
{
    if (made->bytes > INT32_MAX || made->fields > INT32_MAX / 4) {
        PyErr_SetString(PyExc_OverflowError, "the records have too many bytes for columns");
        return 0;
    }
    const uint32_t zero = 0;
    if (made->nulls) {
        made->validity = room_for((made->fields + 7) / 8);
        if (made->validity == NULL)
            return 0;
        made->validity_at = (uint8_t *)PyBytes_AsString(made->validity);
        memset(made->validity_at, 0, (size_t)((made->fields + 7) / 8));
    }
    made->offsets = room_for((made->fields + 1) * 4);
    made->data = room_for(made->bytes);
    if (made->offsets == NULL || made->data == NULL)
        return 0;
    made->offsets_at = (uint8_t *)PyBytes_AsString(made->offsets);
    made->data_at = (uint8_t *)PyBytes_AsString(made->data);
    memcpy(made->offsets_at, &zero, 4);
    return 1;
}

static inline void put_field(Made *made, const Field *field)
{
    if (field->size)
        memcpy(made->data_at + made->used, field->at, (size_t)field->size);
    made->used += (uint32_t)field->size;
    if (made->validity_at != NULL && !field->null)
        made->validity_at[made->row / 8] |= (uint8_t)(1 << (made->row % 8));
    made->row++;
    memcpy(made->offsets_at + 4 * made->row, &made->used, 4);
}

/* NULL with an exception. It takes over what was made. */
static PyObject *tuple_of_made(Made *made)
{
    PyObject *validity = made->validity;
    if (validity == NULL) {
        Py_INCREF(Py_None);
        validity = Py_None;
    }
    PyObject *found = Py_BuildValue("(NNN)", validity, made->offsets, made->data);
    made->validity = made->offsets = made->data = NULL;
    return found;
}

static void drop_made(Made *made)
{
    Py_CLEAR(made->validity);
    Py_CLEAR(made->offsets);
    Py_CLEAR(made->data);
}

static inline int64_t in_microseconds(int64_t timestamp)
{
    if (timestamp > INT64_MAX / MICROSECONDS)
        return INT64_MAX;
    if (timestamp < INT64_MIN / MICROSECONDS)
        return INT64_MIN;
    return timestamp * MICROSECONDS;
}

/* The key, the value and all headers of a record, counted or put. */
typedef struct {
    Made key;
    Made value;
    Made names;
    Made contents;
} Columns;

/* `lists`: where the number of all headers up to this record goes; NULL: fields are counted. */
static int read_fields(const Record *record, int wants, Columns *columns, uint8_t *lists)
{
    const uint8_t *at = record->rest, *const end = record->rest + record->size;
    Field field;
    if (!(wants & (KEYS | VALUES | HEADERS)))
        return READ;
    void (*const handle)(Made *, const Field *) = lists == NULL ? count_field : put_field;
    at = read_field(at, end, &field);
    if (at == NULL)
        return INVALID;
    if (wants & KEYS)
        handle(&columns->key, &field);
    at = read_field(at, end, &field);
    if (at == NULL)
        return INVALID;
    if (wants & VALUES)
        handle(&columns->value, &field);
    if (!(wants & HEADERS))
        return READ;
    int64_t count;
    at = read_varint(at, end, &count);
    if (at == NULL || count < 0 || count > end - at)
        return INVALID;
    if (count > MOST_HEADERS)
        return TOO_MUCH;
    for (; count > 0; count--) {
        at = read_field(at, end, &field);
        if (at == NULL || field.null)
            return INVALID;
        handle(&columns->names, &field);
        at = read_field(at, end, &field);
        if (at == NULL)
            return INVALID;
        handle(&columns->contents, &field);
    }
    if (lists != NULL) {
        const uint32_t headers = (uint32_t)columns->names.row;
        memcpy(lists, &headers, 4);
    }
    return at == end ? READ : INVALID;
}

PyDoc_STRVAR(columns_doc,
"columns(data, count, base_timestamp, wants) -> (timestamps, keys, values, headers) | None\n\n"
"The records as buffers of Arrow's arrays, None for what is not wanted; see record_columns.py. OverflowError beyond\n"
"MOST_HEADERS in a record, or what an array holds.");

static PyObject *columns(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *data, *result = NULL, *timestamps = NULL, *lists = NULL;
    Py_ssize_t count, length;
    long long base_timestamp;
    int wants;
    char *content;
    if (!PyArg_ParseTuple(args, "SnLi", &data, &count, &base_timestamp, &wants) ||
        PyBytes_AsStringAndSize(data, &content, &length) < 0)
        return NULL;
    Columns all;
    memset(&all, 0, sizeof(all));
    const uint8_t *const start = (const uint8_t *)content, *const end = start + length, *at = start;
    int outcome = READ;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t left = count; left > 0 && outcome == READ; left--) {
        Record record;
        at = read_record(at, end, &record);
        outcome = at == NULL ? INVALID : read_fields(&record, wants, &all, NULL);
    }
    Py_END_ALLOW_THREADS
    if (outcome == READ && (at != end || count < 0))
        outcome = INVALID;
    if (outcome == INVALID)
        Py_RETURN_NONE;
    if (outcome == TOO_MUCH) {
        PyErr_SetString(PyExc_OverflowError, "a record has too many headers");
        return NULL;
    }
    uint8_t *stamps = NULL, *counts = NULL;
    if (wants & TIMESTAMPS) {
        timestamps = room_for((uint64_t)count * 8);
        if (timestamps == NULL)
            goto done;
        stamps = (uint8_t *)PyBytes_AsString(timestamps);
    }
    if (((wants & KEYS) && !make_room(&all.key)) || ((wants & VALUES) && !make_room(&all.value)))
        goto done;
    if (wants & HEADERS) {
        lists = room_for(((uint64_t)count + 1) * 4);
        if (lists == NULL || !make_room(&all.names) || !make_room(&all.contents))
            goto done;
        counts = (uint8_t *)PyBytes_AsString(lists);
        memset(counts, 0, 4);
    }
    at = start;
    uint8_t ignored[4];
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t number = 0; number < count; number++) {
        Record record;
        at = read_record(at, end, &record);
        if (at == NULL)
            break; /* never: they were read before, and bytes do not change */
        read_fields(&record, wants, &all, counts == NULL ? ignored : counts + 4 * (number + 1));
        if (stamps != NULL) {
            const int64_t stamp = in_microseconds((int64_t)((uint64_t)base_timestamp + (uint64_t)record.timestamp_delta));
            memcpy(stamps + 8 * number, &stamp, 8);
        }
    }
    Py_END_ALLOW_THREADS
    PyObject *parts[4] = {timestamps, NULL, NULL, NULL};
    timestamps = NULL;
    if (wants & KEYS)
        parts[1] = tuple_of_made(&all.key);
    if (wants & VALUES)
        parts[2] = tuple_of_made(&all.value);
    if (wants & HEADERS) {
        parts[3] = Py_BuildValue("(NNN)", lists, tuple_of_made(&all.names), tuple_of_made(&all.contents));
        lists = NULL;
    }
    if (!PyErr_Occurred()) {
        for (int each = 0; each < 4; each++)
            if (parts[each] == NULL) {
                Py_INCREF(Py_None);
                parts[each] = Py_None;
            }
        result = Py_BuildValue("(OOOO)", parts[0], parts[1], parts[2], parts[3]);
    }
    for (int each = 0; each < 4; each++)
        Py_XDECREF(parts[each]);
done:
    Py_XDECREF(timestamps);
    Py_XDECREF(lists);
    drop_made(&all.key);
    drop_made(&all.value);
    drop_made(&all.names);
    drop_made(&all.contents);
    return result;
}

/* Buffers of others, which are released together. */
typedef struct {
    Py_buffer list[24];
    int used;
} Held;

/* An array that was given. Its first row here is its row `first`. */
typedef struct {
    const Py_buffer *validity; /* NULL: no row is null */
    const Py_buffer *offsets;  /* of times: the times themselves */
    const Py_buffer *data;
    Py_ssize_t first;
} Given;

/* NULL with an exception. */
static const Py_buffer *hold(Held *held, PyObject *given)
{
    if (PyObject_GetBuffer(given, &held->list[held->used], PyBUF_SIMPLE) < 0)
        return NULL;
    return &held->list[held->used++];
}

/* 0 with an exception: it is no (validity or None, offsets, data, first). `given` may be None. */
static int take_given(Held *held, PyObject *given, Given *taken)
{
    PyObject *validity, *offsets, *data;
    memset(taken, 0, sizeof(*taken));
    if (given == Py_None)
        return 1;
    if (!PyTuple_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "a column is a tuple");
        return 0;
    }
    if (!PyArg_ParseTuple(given, "OOOn", &validity, &offsets, &data, &taken->first))
        return 0;
    if (taken->first < 0 || taken->first > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "a column does not begin there");
        return 0;
    }
    if (validity != Py_None && (taken->validity = hold(held, validity)) == NULL)
        return 0;
    taken->offsets = hold(held, offsets);
    taken->data = taken->offsets == NULL ? NULL : hold(held, data);
    return taken->data != NULL;
}

/* -1: there is no such row. */
static inline int bit_of(const Py_buffer *bits, uint64_t row)
{
    if (row / 8 >= (uint64_t)bits->len)
        return -1;
    return ((const uint8_t *)bits->buf)[row / 8] >> (row % 8) & 1;
}

/* 0: the offsets have no such row, or do not rise. */
static inline int span_of(const Py_buffer *offsets, uint64_t row, uint64_t size, uint32_t *from, uint32_t *until)
{
    if ((row + 2) * 4 > (uint64_t)offsets->len)
        return 0;
    memcpy(from, (const uint8_t *)offsets->buf + 4 * row, 4);
    memcpy(until, (const uint8_t *)offsets->buf + 4 * (row + 1), 4);
    return *from <= *until && *until <= size;
}

static int field_of(const Given *given, uint64_t row, Field *field)
{
    uint32_t from, until;
    row += (uint64_t)given->first;
    const int there = given->validity == NULL ? 1 : bit_of(given->validity, row);
    if (there < 0 || !span_of(given->offsets, row, (uint64_t)given->data->len, &from, &until))
        return 0;
    field->null = !there;
    field->at = (const uint8_t *)given->data->buf + from;
    field->size = there ? until - from : 0;
    return 1;
}

static inline uint64_t written_field(const Field *field)
{
    return varint_size(field->null ? 1 : zigzag(field->size)) + field->size;
}

static inline uint8_t *write_field(uint8_t *out, const Field *field)
{
    out = write_varint(out, field->null ? 1 : zigzag(field->size));
    return field->size ? copy(out, field->at, field->size) : out;
}

enum { UNFIT = CHANGED + 1 };

/* What is to change of each record; `offsets` of what does not change is NULL. */
typedef struct {
    Given keep;
    Given stamps;
    Given key;
    Given value;
    Given lists;
    Given names;
    Given contents;
} Changes;

/* The rest of a record: its own bytes, as far as they stay, and fields instead of others. */
typedef struct {
    Span key;
    Span value;
    Span headers;
    Field new_key;
    Field new_value;
    uint32_t first_header;
    uint32_t last_header;
    uint64_t size;
} Rest;

static int rest_of(const Changes *changes, const Record *record, uint64_t row, Rest *rest)
{
    const uint8_t *at = record->rest, *const end = record->rest + record->size;
    Field own;
    const uint8_t *behind = read_field(at, end, &own);
    if (behind == NULL)
        return INVALID;
    rest->key.at = at;
    rest->key.size = (uint64_t)(behind - at);
    at = behind;
    behind = read_field(at, end, &own);
    if (behind == NULL)
        return INVALID;
    rest->value.at = at;
    rest->value.size = (uint64_t)(behind - at);
    rest->headers.at = behind;
    rest->headers.size = (uint64_t)(end - behind);
    rest->size = rest->key.size + rest->value.size + rest->headers.size;
    if (changes->key.offsets != NULL) {
        if (!field_of(&changes->key, row, &rest->new_key))
            return UNFIT;
        rest->size += written_field(&rest->new_key) - rest->key.size;
    }
    if (changes->value.offsets != NULL) {
        if (!field_of(&changes->value, row, &rest->new_value))
            return UNFIT;
        rest->size += written_field(&rest->new_value) - rest->value.size;
    }
    if (changes->lists.offsets == NULL)
        return READ;
    const uint64_t list = row + (uint64_t)changes->lists.first;
    const int there = changes->lists.validity == NULL ? 1 : bit_of(changes->lists.validity, list);
    if (there < 0 || !span_of(changes->lists.offsets, list, INT32_MAX, &rest->first_header, &rest->last_header))
        return UNFIT;
    if (!there)
        rest->last_header = rest->first_header;
    uint64_t size = varint_size(zigzag(rest->last_header - rest->first_header));
    for (uint64_t each = rest->first_header; each < rest->last_header; each++) {
        Field name, content;
        if (!field_of(&changes->names, each, &name) || !field_of(&changes->contents, each, &content) || name.null)
            return UNFIT;
        size += written_field(&name) + written_field(&content);
    }
    if (rest->last_header - rest->first_header > MOST_HEADERS)
        return TOO_MUCH;
    rest->size += size - rest->headers.size;
    return READ;
}

static uint8_t *write_rest(uint8_t *out, const Changes *changes, const Rest *rest)
{
    out = changes->key.offsets == NULL ? copy(out, rest->key.at, rest->key.size) : write_field(out, &rest->new_key);
    out = changes->value.offsets == NULL ? copy(out, rest->value.at, rest->value.size) : write_field(out, &rest->new_value);
    if (changes->lists.offsets == NULL)
        return copy(out, rest->headers.at, rest->headers.size);
    out = write_varint(out, zigzag(rest->last_header - rest->first_header));
    for (uint64_t each = rest->first_header; each < rest->last_header; each++) {
        Field field;
        if (field_of(&changes->names, each, &field))
            out = write_field(out, &field);
        if (field_of(&changes->contents, each, &field))
            out = write_field(out, &field);
    }
    return out;
}

/* 0: the column has no such row. A null leaves the timestamp as it is. */
static int stamp_at(const Given *stamps, uint64_t row, int64_t *timestamp)
{
    row += (uint64_t)stamps->first;
    const int there = stamps->validity == NULL ? 1 : bit_of(stamps->validity, row);
    if (there < 0 || (row + 1) * 8 > (uint64_t)stamps->offsets->len)
        return 0;
    if (there) {
        int64_t micros;
        memcpy(&micros, (const uint8_t *)stamps->offsets->buf + 8 * row, 8);
        *timestamp = micros / MICROSECONDS - (micros % MICROSECONDS < 0);
    }
    return 1;
}

PyDoc_STRVAR(with_columns_doc,
"with_columns(data, count, base_timestamp, keep, timestamps, keys, values, lists, names, contents)\n"
"-> (records, kept, base_timestamp, max_timestamp, ranges of numbers) | None\n\n"
"The records that are kept, with what these columns have; see record_columns.py. ValueError if a column does not fit,\n"
"OverflowError beyond MOST_HEADERS in a record or MOST_TRANSFORMED bytes.");

static PyObject *with_columns(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *data, *given[7], *result = NULL;
    Py_ssize_t count, length;
    long long base_timestamp;
    char *content;
    if (!PyArg_ParseTuple(args, "SnLOOOOOOO", &data, &count, &base_timestamp, &given[0], &given[1], &given[2], &given[3],
                          &given[4], &given[5], &given[6]) ||
        PyBytes_AsStringAndSize(data, &content, &length) < 0)
        return NULL;
    Held held = {.used = 0};
    Changes changes;
    memset(&changes, 0, sizeof(changes));
    Output output = {NULL, 0, 0};
    Ranges ranges = {NULL, 0, 0};
    Given *const taken[7] = {&changes.keep,  &changes.stamps, &changes.key,     &changes.value,
                             &changes.lists, &changes.names,  &changes.contents};
    for (int each = 0; each < 7; each++)
        if (!take_given(&held, given[each], taken[each]))
            goto done;
    if (changes.lists.offsets != NULL && (changes.names.offsets == NULL || changes.contents.offsets == NULL)) {
        PyErr_SetString(PyExc_TypeError, "headers have names and contents");
        goto done;
    }
    const int same = changes.key.offsets == NULL && changes.value.offsets == NULL && changes.lists.offsets == NULL;
    const uint8_t *at = (const uint8_t *)content, *const end = at + length;
    Py_ssize_t kept = 0;
    int64_t first = 0, latest = 0;
    int outcome = READ;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t row = 0; row < count; row++) {
        Record record;
        Rest rest;
        at = read_record(at, end, &record);
        if (at == NULL) {
            outcome = INVALID;
            break;
        }
        if (changes.keep.offsets != NULL) {
            const int keep = bit_of(changes.keep.offsets, (uint64_t)row + (uint64_t)changes.keep.first);
            if (keep < 0) {
                outcome = UNFIT;
                break;
            }
            if (!keep)
                continue;
        }
        int64_t timestamp = (int64_t)((uint64_t)base_timestamp + (uint64_t)record.timestamp_delta);
        if (changes.stamps.offsets != NULL && !stamp_at(&changes.stamps, (uint64_t)row, &timestamp)) {
            outcome = UNFIT;
            break;
        }
        rest.size = record.size;
        outcome = same ? READ : rest_of(&changes, &record, (uint64_t)row, &rest);
        if (outcome != READ)
            break;
        if (!kept)
            first = latest = timestamp;
        latest = timestamp > latest ? timestamp : latest;
        const uint64_t stamp = zigzag((uint64_t)timestamp - (uint64_t)first);
        const uint64_t size = written_size(stamp, (uint64_t)kept, rest.size);
        if (output.used + size > MOST_TRANSFORMED) {
            outcome = TOO_MUCH;
            break;
        }
        if (!reserve(&output, size) || !add_range(&ranges, row, 1)) {
            outcome = NO_MEMORY;
            break;
        }
        uint8_t *out = output.start + output.used;
        if (same) {
            write_record(out, stamp, (uint64_t)kept, record.rest, record.size);
        } else {
            const uint64_t number = zigzag((uint64_t)kept);
            out = write_varint(out, zigzag(1 + varint_size(stamp) + varint_size(number) + rest.size));
            *out++ = 0;
            out = write_varint(write_varint(out, stamp), number);
            write_rest(out, &changes, &rest);
        }
        output.used += size;
        kept++;
    }
    Py_END_ALLOW_THREADS
    if (outcome == READ && (at != end || count < 0))
        outcome = INVALID;
    if (outcome == NO_MEMORY) {
        PyErr_NoMemory();
    } else if (outcome == TOO_MUCH) {
        PyErr_SetString(PyExc_OverflowError, "a record has too many headers, or the records become too many bytes");
    } else if (outcome == UNFIT) {
        PyErr_SetString(PyExc_ValueError, "a column does not fit the records");
    } else if (outcome == INVALID) {
        Py_INCREF(Py_None);
        result = Py_None;
    } else {
        PyObject *numbers = tuple_of(&ranges);
        if (numbers != NULL)
            result = Py_BuildValue("(y#nLLN)", output.start == NULL ? "" : (const char *)output.start,
                                   (Py_ssize_t)output.used, kept, (long long)first, (long long)latest, numbers);
    }
done:
    for (int each = 0; each < held.used; each++)
        PyBuffer_Release(&held.list[each]);
    free(ranges.list);
    free(output.start);
    return result;
}

static inline int is_json_space(uint8_t byte)
{
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

/* Whether anything but space follows the JSON object that begins the text. Brackets in strings count for nothing. */
static int goes_on_behind_object(const uint8_t *at, const uint8_t *end)
{
    int depth = 0, in_string = 0;
    for (; at < end && is_json_space(*at); at++)
        ;
    if (at == end || *at != '{')
        return 0;
    for (; at < end; at++) {
        if (in_string) {
            if (*at == '\\')
                at++;
            else if (*at == '"')
                in_string = 0;
        } else if (*at == '"') {
            in_string = 1;
        } else if (*at == '{' || *at == '[') {
            depth++;
        } else if ((*at == '}' || *at == ']') && --depth == 0) {
            for (at++; at < end && is_json_space(*at); at++)
                ;
            return at < end;
        }
    }
    return 0;
}

PyDoc_STRVAR(trailing_tokens_doc,
"trailing_tokens(offsets, data, count) -> tuple of rows\n\n"
"The rows of an array of bytes in which something follows a JSON object; see json_objects.py. ValueError if the array does\n"
"not have so many rows.");

static PyObject *trailing_tokens(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *offsets, *data, *found = NULL;
    Py_ssize_t count;
    if (!PyArg_ParseTuple(args, "OOn", &offsets, &data, &count))
        return NULL;
    Held held = {.used = 0};
    const Py_buffer *const spans = hold(&held, offsets);
    const Py_buffer *const bytes = spans == NULL ? NULL : hold(&held, data);
    PyObject *rows = bytes == NULL ? NULL : PyList_New(0);
    for (Py_ssize_t row = 0; rows != NULL && row < count; row++) {
        uint32_t from, until;
        if (!span_of(spans, (uint64_t)row, (uint64_t)bytes->len, &from, &until)) {
            PyErr_SetString(PyExc_ValueError, "the column has fewer rows");
            goto done;
        }
        if (!goes_on_behind_object((const uint8_t *)bytes->buf + from, (const uint8_t *)bytes->buf + until))
            continue;
        PyObject *number = PyLong_FromSsize_t(row);
        const int added = number == NULL ? -1 : PyList_Append(rows, number);
        Py_XDECREF(number);
        if (added < 0)
            goto done;
    }
    found = rows == NULL ? NULL : PyList_AsTuple(rows);
done:
    Py_XDECREF(rows);
    for (int each = 0; each < held.used; each++)
        PyBuffer_Release(&held.list[each]);
    return found;
}

static PyMethodDef functions[] = {
    {"repack", repack, METH_VARARGS, repack_doc},
    {"recompress", recompress, METH_VARARGS, recompress_doc},
    {"merge", merge, METH_O, merge_doc},
    {"common_delta", common_delta, METH_VARARGS, common_delta_doc},
    {"unpack", unpack, METH_VARARGS, unpack_doc},
    {"transform", transform, METH_VARARGS, transform_doc},
    {"columns", columns, METH_VARARGS, columns_doc},
    {"with_columns", with_columns, METH_VARARGS, with_columns_doc},
    {"trailing_tokens", trailing_tokens, METH_VARARGS, trailing_tokens_doc},
    {"merge_plain", merge_plain, METH_VARARGS, merge_plain_doc},
    {"take", take, METH_VARARGS, take_doc},
    {"header", header, METH_VARARGS, header_doc},
    {NULL, NULL, 0, NULL},
};

static int add_constants(PyObject *module)
{
    make_tables();
    PyObject *checks = PyBool_FromLong(has_crc32c());
    const int failed = checks == NULL || PyModule_AddObjectRef(module, "CHECKS_CRCS", checks) < 0;
    Py_XDECREF(checks);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)add_constants}, {0, NULL}};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_compiled",
    .m_doc = "The inner loops of what reads and writes records, and what copies a batch as it is.",
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__compiled(void)
{
    return PyModuleDef_Init(&definition);
}
