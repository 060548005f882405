/* Compresses records of which little has changed, without a search: the matches of the LZ4 frame that they came in are taken
   over. A search takes three times as long. There is no substitute in Python: what returns None is compressed anew.

   A frame says for each match how far back the same bytes are. Between both places numbers and headers may have become
   longer or shorter, so the distance changes. Where bytes are not the same any more, a match ends, or it begins behind them.
   What stays of a record is found by comparing its old bytes with the new ones. Sequences in it are copied from the frame
   as they are, if the sources of their matches stay, too. So the old bytes have to be all that the frame decompresses to.
   Any other match is compared with the new bytes, and other literals are written from them.

   Blocks end where those of the source do. They need no other block, as Kafka's Java reader wants it. A frame of other
   kinds (linked blocks, a dictionary, several frames) is left to the caller. */

#include "_records.h"

enum { MAGIC_SIZE = 4, FLAGS_AT = 4, VERSION = 0x40, VERSION_BITS = 0xC0 };
enum { INDEPENDENT = 0x20, BLOCK_CHECKSUM = 0x10, CONTENT_SIZE = 0x08, CONTENT_CHECKSUM = 0x04, DICTIONARY = 0x01 };
enum { CHECKSUM_SIZE = 4, CONTENT_SIZE_SIZE = 8, BLOCK_HEAD = 4, END_MARK = 4, HEAD_SIZE = 7 };
enum { SHORTEST_MATCH = 4, FARTHEST_MATCH = 0xFFFF };
/* A block's last bytes are literals, and no match begins in its last twelve, by the description of the format. */
enum { LAST_LITERALS = 5, LAST_MATCH = 12 };
enum { LONG_LENGTH = 15, LENGTH_BYTE = 255, AT_ONCE = 16 };
/* Without more bytes for a length: a match, and a whole sequence with the next token. */
enum { LONGEST_SHORT_MATCH = SHORTEST_MATCH + LONG_LENGTH - 1, LONGEST_SHORT = 1 + LONG_LENGTH - 1 + 2 + 1 };
/* Codes of the largest block: 4 is 64 KiB, and 7 is 4 MiB. */
enum { FIRST_CODE = 4, LARGEST_CODE = 3 };
#define SMALLEST_BLOCK (64u << 10)
#define STORED 0x80000000u
/* Positions are kept in 32 bits. */
#define MOST_BYTES 0x40000000

/* Independent blocks, no checksums. */
static const uint8_t heads[4][HEAD_SIZE] = {
    {0x04, 0x22, 0x4D, 0x18, 0x60, 0x40, 0x82},
    {0x04, 0x22, 0x4D, 0x18, 0x60, 0x50, 0xFB},
    {0x04, 0x22, 0x4D, 0x18, 0x60, 0x60, 0x51},
    {0x04, 0x22, 0x4D, 0x18, 0x60, 0x70, 0x73},
};

/* Where an old record and its rest begin, and where that ends which stays of the rest; where the former two are now. */
typedef struct {
    uint32_t old_at, old_rest, old_end;
    uint32_t new_at, new_rest;
} Place;

/* For each 64 old bytes: `number`, the record that the first of them belongs to, and `moved`, by how much a short match
   moves that begins here; MIXED: what does not stay is near. */
enum { NEARBY_BITS = 6, NEARBY = 1 << NEARBY_BITS };
#define MIXED INT32_MIN

typedef struct {
    uint32_t number;
    int32_t moved;
} Nearby;

typedef struct {
    const uint8_t *now; /* the new bytes */
    Place *places;      /* of the records, and of one behind the last */
    Nearby *nearby;
    uint32_t old_size, new_size;
} Records;

typedef struct {
    uint8_t *at;
    uint32_t begins, ends; /* of the new block */
    uint32_t anchor;       /* new bytes up to here are written */
} Block;

static inline int32_t moved(const Place *place)
{
    return (int32_t)(place->new_rest - place->old_rest);
}

/* How many bytes are the same, at most `limit`. At both places are `there`, which may be more. */
static inline uint32_t same_bytes(const uint8_t *one, const uint8_t *other, uint32_t limit, uint32_t there)
{
    uint32_t same = 0;
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (uint64_t first, second; same < limit && there - same >= sizeof(first); same += sizeof(first)) {
        memcpy(&first, one + same, sizeof(first));
        memcpy(&second, other + same, sizeof(second));
        if (first != second) {
            same += (uint32_t)__builtin_ctzll(first ^ second) / 8;
            break;
        }
    }
    if (same >= limit)
        return limit;
#else
    (void)there;
#endif
    while (same < limit && one[same] == other[same])
        same++;
    return same;
}

/* -1: they are not valid. */
static Py_ssize_t count_records(const uint8_t *at, const uint8_t *end)
{
    Py_ssize_t count = 0;
    for (; at < end; count++) {
        Record record;
        if ((at = read_record(at, end, &record)) == NULL)
            return -1;
    }
    return count;
}

/* Finds the new one of each old record, up to `new_end`, and sets the new size. 0: they are too few, or less than half of a
   record stays. */
static int find_places(Records *records, const uint8_t *old, Py_ssize_t count, const uint8_t *new_end)
{
    const uint8_t *was = old, *const old_end = old + records->old_size;
    const uint8_t *is = records->now;
    uint32_t nearby = 0;
    for (Py_ssize_t number = 0; number < count; number++) {
        Record before = {0, 0, NULL, 0}, after = before;
        const uint8_t *const was_end = read_record(was, old_end, &before), *const is_end = read_record(is, new_end, &after);
        if (was_end == NULL || is_end == NULL)
            return 0;
        const uint32_t limit = (uint32_t)(before.size < after.size ? before.size : after.size);
        const uint32_t same = same_bytes(before.rest, after.rest, limit, limit);
        if (before.size - same > same)
            return 0;
        Place *const place = &records->places[number];
        const uint32_t rest = (uint32_t)(before.rest - old), until = (uint32_t)(was_end - old);
        *place = (Place){(uint32_t)(was - old), rest, rest + same, (uint32_t)(is - records->now),
                         (uint32_t)(after.rest - records->now)};
        for (uint32_t at = nearby << NEARBY_BITS; at < until; at += NEARBY, nearby++) {
            const int alone = at >= rest && at + NEARBY + LONGEST_SHORT_MATCH <= place->old_end;
            records->nearby[nearby] = (Nearby){(uint32_t)number, alone ? moved(place) : MIXED};
        }
        was = was_end;
        is = is_end;
    }
    records->new_size = (uint32_t)(is - records->now);
    records->places[count] =
        (Place){records->old_size, records->old_size, records->old_size, records->new_size, records->new_size};
    return was == old_end;
}

/* The record at an old position, which is not the end. */
static inline const Place *place_of(const Records *records, uint32_t old)
{
    const Place *place = &records->places[records->nearby[old >> NEARBY_BITS].number];
    while (place[1].old_at <= old)
        place++;
    return place;
}

/* About where an old position is now; exactly in what stays. */
static inline uint32_t now_at(const Place *place, uint32_t old)
{
    if (old >= place->old_rest) {
        const uint32_t now = place->new_rest + (old - place->old_rest);
        return now < place[1].new_at ? now : place[1].new_at;
    }
    const uint32_t into = old - place->old_at, size = place->new_rest - place->new_at;
    return place->new_at + (into < size ? into : size);
}

/* Where the next part begins that stays, as an old position. */
static inline uint32_t next_rest(const Place *place, uint32_t old)
{
    return old < place->old_rest ? place->old_rest : place[1].old_rest;
}

static inline uint8_t *put_length(uint8_t *out, uint32_t left)
{
    for (; left >= LENGTH_BYTE; left -= LENGTH_BYTE)
        *out++ = LENGTH_BYTE;
    *out++ = (uint8_t)left;
    return out;
}

/* What a token says of a length. */
static inline uint32_t short_length(uint32_t length)
{
    return length < LONG_LENGTH ? length : LONG_LENGTH;
}

/* The literals from the anchor on, and a token for them and a match of `beyond` bytes more than the shortest. */
static inline void put_literals(const Records *records, Block *block, uint32_t until, uint32_t beyond)
{
    const uint32_t literals = until - block->anchor;
    *block->at++ = (uint8_t)(short_length(literals) << 4 | short_length(beyond));
    if (literals >= LONG_LENGTH)
        block->at = put_length(block->at, literals - LONG_LENGTH);
    /* Most are few. There is room for more behind what is written. */
    if (literals <= AT_ONCE && records->new_size - block->anchor >= AT_ONCE)
        memcpy(block->at, records->now + block->anchor, AT_ONCE);
    else
        memcpy(block->at, records->now + block->anchor, literals);
    block->at += literals;
}

static inline void put_match(const Records *records, Block *block, uint32_t at, uint32_t distance, uint32_t length)
{
    const uint32_t beyond = length - SHORTEST_MATCH;
    put_literals(records, block, at, beyond);
    *block->at++ = (uint8_t)distance;
    *block->at++ = (uint8_t)(distance >> 8);
    if (beyond >= LONG_LENGTH)
        block->at = put_length(block->at, beyond - LONG_LENGTH);
    block->anchor = at + length;
}

/* Takes over of a match what the new bytes bear out. `old`, `until`: its old positions; `place`: of `old`. */
static void take_match(const Records *records, Block *block, const Place *place, uint32_t old, uint32_t until,
                       uint32_t distance)
{
    while (until - old >= SHORTEST_MATCH) {
        while (place[1].old_at <= old)
            place++;
        const Place *const from = place_of(records, old - distance);
        const uint32_t at = now_at(place, old), source = now_at(from, old - distance);
        if (at < block->anchor) {
            old += block->anchor - at; /* the match before reached further than it did */
            if (old >= until)
                return;
            continue;
        }
        if (block->ends - block->begins < LAST_MATCH || at > block->ends - LAST_MATCH)
            return;
        if (source >= block->begins && source < at && at - source <= FARTHEST_MATCH) {
            const uint32_t room = block->ends - LAST_LITERALS - at, left = until - old;
            const uint32_t limit = left < room ? left : room, there = records->new_size - at;
            const uint32_t same = same_bytes(records->now + source, records->now + at, limit, there);
            if (same >= SHORTEST_MATCH) {
                put_match(records, block, at, at - source, same);
                old += same;
                continue;
            }
        }
        const uint32_t here = next_rest(place, old), there = next_rest(from, old - distance) + distance;
        old = here < there ? here : there;
        if (old >= until)
            return;
    }
}

/* NULL: the length has no end within the block, or is more than any. */
static inline const uint8_t *read_length(const uint8_t *in, const uint8_t *end, uint64_t *length)
{
    uint8_t byte = LENGTH_BYTE;
    while (byte == LENGTH_BYTE) {
        if (in == end)
            return NULL;
        byte = *in++;
        *length += byte;
    }
    return in;
}

/* Whether what a match refers to stays, too, and both have moved together. */
static inline int stays(const Records *records, const Place *place, uint32_t source, uint32_t length)
{
    const Nearby *const nearby = &records->nearby[source >> NEARBY_BITS];
    if (nearby->moved != MIXED && length <= LONGEST_SHORT_MATCH)
        return nearby->moved == moved(place);
    const Place *const from = place_of(records, source);
    return source >= from->old_rest && source + length <= from->old_end && moved(from) == moved(place);
}

/* Takes over a match of which all stays, and all that it refers to; 0: it is not such a match. They may have moved apart. */
static inline int take_whole(const Records *records, Block *block, const Place *place, uint32_t match, uint32_t length,
                             uint32_t distance, uint32_t last_end)
{
    const Place *const from = place_of(records, match - distance);
    if (match < place->old_rest || match + length > place->old_end || match - distance < from->old_rest ||
        match - distance + length > from->old_end)
        return 0;
    const uint32_t at = now_at(place, match), apart = at - now_at(from, match - distance);
    if (at < block->anchor || at + length > last_end || apart > FARTHEST_MATCH)
        return 0;
    put_match(records, block, at, apart, length);
    return 1;
}

/* Passes over sequences that stay: those with short lengths, up to the old position `until`, whose matches refer to places
   where all stays. These are nearly all. Returns where the first other one is. */
static inline const uint8_t *pass_over(const Records *records, const Place *place, const uint8_t *in, const uint8_t *end,
                                       uint32_t begins, uint32_t until, uint32_t *old)
{
    const int32_t together = moved(place);
    uint32_t at = *old;
    while (end - in > LONGEST_SHORT) {
        const uint32_t literals = *in >> 4, beyond = *in & 0x0F;
        const uint8_t *const behind = in + 1 + literals;
        const uint32_t distance = (uint32_t)behind[0] | (uint32_t)behind[1] << 8;
        const uint32_t match = at + literals, ends = match + beyond + SHORTEST_MATCH;
        if (literals == LONG_LENGTH || beyond == LONG_LENGTH || ends > until || distance == 0 || distance > match - begins ||
            records->nearby[(match - distance) >> NEARBY_BITS].moved != together)
            break;
        in = behind + 2;
        at = ends;
    }
    *old = at;
    return in;
}

/* Follows an old block. Returns the old position of its end; 0 if it is not valid. That does not depend on `block->ends`,
   which may be wrong. What is not written yet are literals. */
static uint32_t follow(const Records *records, Block *block, const uint8_t *in, const uint8_t *end, const uint32_t begins)
{
    if (begins == records->old_size)
        return in + 1 == end && *in == 0 ? begins : 0;
    const Place *place = place_of(records, begins);
    /* Sequences that stay as they are, from here on; all of one record. */
    const uint8_t *same_from = NULL;
    const uint32_t last_end = block->ends - block->begins < LAST_MATCH ? 0 : block->ends - LAST_MATCH;
    uint32_t old = begins;
    while (in < end) {
        const uint8_t *sequence = in;
        /* Up to where sequences may stay; 0: not here. */
        uint32_t same_until = 0;
        /* Behind the last record, `place` is still that one. */
        if (old >= place->old_rest && old < place->old_end && (same_from != NULL || block->anchor == now_at(place, old))) {
            const uint32_t left = last_end > now_at(place, old) ? last_end - now_at(place, old) : 0;
            same_until = place->old_end - old < left ? place->old_end : old + left;
            in = pass_over(records, place, in, end, begins, same_until, &old);
            if (in != sequence && same_from == NULL)
                same_from = sequence;
            sequence = in;
        }
        const uint8_t token = *in++;
        uint64_t literals = token >> 4, length = token & 0x0F;
        if (literals == LONG_LENGTH && (in = read_length(in, end, &literals)) == NULL)
            return 0;
        if (literals > (uint64_t)(end - in) || literals > records->old_size - old)
            return 0;
        in += literals;
        const uint32_t match = old + (uint32_t)literals;
        const int is_last = in == end;
        uint32_t distance = 0;
        if (!is_last) {
            if (end - in < 2)
                return 0;
            distance = (uint32_t)in[0] | (uint32_t)in[1] << 8;
            in += 2;
            if (length == LONG_LENGTH && (in = read_length(in, end, &length)) == NULL)
                return 0;
            length += SHORTEST_MATCH;
            if (distance == 0 || distance > match - begins || length > records->old_size - match)
                return 0;
            if (match + (uint32_t)length <= same_until && stays(records, place, match - distance, (uint32_t)length)) {
                same_from = same_from == NULL ? sequence : same_from;
                old = match + (uint32_t)length;
                continue;
            }
        }
        if (same_from != NULL) {
            memcpy(block->at, same_from, (size_t)(sequence - same_from));
            block->at += sequence - same_from;
            block->anchor = now_at(place, old);
            same_from = NULL;
        }
        if (is_last)
            return match;
        while (place[1].old_at <= match)
            place++;
        old = match + (uint32_t)length;
        if (!take_whole(records, block, place, match, (uint32_t)length, distance, last_end))
            take_match(records, block, place, match, old, distance);
        while (place[1].old_at <= old && old < records->old_size)
            place++;
    }
    return 0;
}

static inline uint32_t little_endian(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline void put_little_endian(uint8_t *at, uint32_t number)
{
    for (int byte = 0; byte < 4; byte++)
        at[byte] = (uint8_t)(number >> 8 * byte);
}

/* What the head of a frame says: where its blocks are, what a full one has, and how many bytes follow each. */
typedef struct {
    const uint8_t *blocks;
    uint32_t full, checksum;
} Head;

/* How many blocks a frame has; -1: it is none that is followed, it is cut off, or something is behind it. */
static Py_ssize_t read_head(const uint8_t *frame, const uint8_t *end, Head *head)
{
    if (end - frame < HEAD_SIZE || memcmp(frame, heads[0], MAGIC_SIZE) != 0)
        return -1;
    const uint8_t flags = frame[FLAGS_AT];
    const unsigned code = frame[FLAGS_AT + 1] >> 4 & 7;
    if ((flags & VERSION_BITS) != VERSION || !(flags & INDEPENDENT) || flags & DICTIONARY || code < FIRST_CODE)
        return -1;
    head->full = SMALLEST_BLOCK << 2 * (code - FIRST_CODE);
    head->checksum = flags & BLOCK_CHECKSUM ? CHECKSUM_SIZE : 0;
    const Py_ssize_t behind = END_MARK + (flags & CONTENT_CHECKSUM ? CHECKSUM_SIZE : 0);
    const Py_ssize_t size = HEAD_SIZE + (flags & CONTENT_SIZE ? CONTENT_SIZE_SIZE : 0);
    if (end - frame < size)
        return -1;
    const uint8_t *in = head->blocks = frame + size;
    for (Py_ssize_t blocks = 0; end - in >= BLOCK_HEAD; blocks++) {
        const uint32_t block = little_endian(in) & ~STORED;
        if (little_endian(in) == 0)
            return end - in == behind ? blocks : -1;
        in += BLOCK_HEAD;
        if (block > (uint64_t)(end - in) || head->checksum > (uint64_t)(end - in) - block)
            return -1;
        in += block + head->checksum;
    }
    return -1;
}

/* Writes a block that had `size` bytes and began at an old position. Returns the old position of its end; 0: it is not
   valid. Where it ends has to be known before. Nearly all blocks but the last are full. */
static uint32_t write_block(const Records *records, Block *block, const uint8_t *in, uint32_t size, uint32_t begins,
                            uint32_t full)
{
    const Block before = *block;
    uint32_t expected = records->old_size - begins < full ? records->old_size : begins + full;
    for (int attempt = 0; attempt < 2; attempt++) {
        *block = before;
        block->ends = expected == records->old_size ? records->new_size : now_at(place_of(records, expected), expected);
        const uint32_t ends = follow(records, block, in, in + size, begins);
        if (ends == 0 || ends == expected)
            return ends;
        expected = ends;
    }
    return 0;
}

/* Writes the blocks of a frame. Returns their end; NULL: the old ones are not valid. `largest`: what a block has at most. */
static uint8_t *write_blocks(const Records *records, uint8_t *out, const uint8_t *in, const Head *old_head,
                             uint32_t *largest)
{
    uint32_t old = 0, begins = 0;
    for (uint32_t head; (head = little_endian(in)) != 0; in += (head & ~STORED) + old_head->checksum) {
        const uint32_t size = head & ~STORED;
        in += BLOCK_HEAD;
        Block block = {out + BLOCK_HEAD, begins, 0, begins};
        if (head & STORED) {
            if (size > records->old_size - old)
                return NULL;
            old += size;
            block.ends = old == records->old_size ? records->new_size : now_at(place_of(records, old), old);
        } else if ((old = write_block(records, &block, in, size, old, old_head->full)) == 0) {
            return NULL;
        }
        uint32_t now = block.ends - begins;
        if (now == 0)
            continue;
        *largest = now > *largest ? now : *largest;
        if (!(head & STORED))
            put_literals(records, &block, block.ends, 0);
        const uint32_t packed = (uint32_t)(block.at - out) - BLOCK_HEAD;
        if (head & STORED || packed >= now) {
            memcpy(out + BLOCK_HEAD, records->now + begins, now);
            put_little_endian(out, now | STORED);
        } else {
            put_little_endian(out, packed);
            now = packed;
        }
        out += BLOCK_HEAD + now;
        begins = block.ends;
    }
    return old == records->old_size && begins == records->new_size ? out : NULL;
}

/* A frame, and the records that it decompresses to. */
typedef struct {
    const uint8_t *frame, *end;
    const uint8_t *old;
    Py_ssize_t old_size, records;
    Head head;
} Part;

/* 0 with an exception: the item is not a tuple of these types. */
static int take_part(PyObject *item, Part *part)
{
    PyObject *frame, *old;
    char *content;
    Py_ssize_t size;
    if (!PyTuple_Check(item)) {
        PyErr_SetString(PyExc_TypeError, "a part is a tuple");
        return 0;
    }
    if (!PyArg_ParseTuple(item, "SS", &frame, &old) || PyBytes_AsStringAndSize(frame, &content, &size) < 0)
        return 0;
    part->frame = (const uint8_t *)content;
    part->end = part->frame + size;
    if (PyBytes_AsStringAndSize(old, &content, &part->old_size) < 0)
        return 0;
    part->old = (const uint8_t *)content;
    return 1;
}

/* Reads the heads of all parts and counts their records. Returns the room for the result; 0: a part is none that is
   followed, or they have more records than fit into so many new bytes. */
static size_t prepare_parts(Part *parts, Py_ssize_t count, size_t new_size)
{
    /* Each sequence stands for new bytes of its own, and is longer than these only by a byte for each 255 literals. A block
       has a head, and a token more. */
    size_t records = 0;
    size_t room = new_size + new_size / LENGTH_BYTE + HEAD_SIZE + END_MARK + 2 * AT_ONCE;
    for (Part *part = parts; part < parts + count; part++) {
        const Py_ssize_t blocks = read_head(part->frame, part->end, &part->head);
        if (blocks < 1 || part->old_size < 1 || part->old_size > MOST_BYTES || part->end - part->frame > MOST_BYTES)
            return 0;
        part->records = count_records(part->old, part->old + part->old_size);
        if (part->records < 1 || (records += (size_t)part->records) > new_size / (1 + FEWEST_BYTES))
            return 0;
        room += (size_t)blocks * (BLOCK_HEAD + AT_ONCE);
    }
    return room;
}

/* Writes the frame. Returns its end; NULL: there is none. `memory`: whether there was enough. */
static uint8_t *write_frame(uint8_t *const frame, const Part *parts, Py_ssize_t count, const uint8_t *now,
                            const uint8_t *const new_end, int *memory)
{
    uint8_t *out = frame + HEAD_SIZE;
    uint32_t largest = 0;
    for (const Part *part = parts; out != NULL && part < parts + count; part++) {
        Records records = {now, NULL, NULL, (uint32_t)part->old_size, 0};
        records.places = malloc(((size_t)part->records + 1) * sizeof(Place));
        records.nearby = malloc((((size_t)part->old_size >> NEARBY_BITS) + 1) * sizeof(Nearby));
        *memory = records.places != NULL && records.nearby != NULL;
        if (*memory && find_places(&records, part->old, part->records, new_end))
            out = write_blocks(&records, out, part->head.blocks, &part->head, &largest);
        else
            out = NULL;
        now += records.new_size;
        free(records.places);
        free(records.nearby);
    }
    unsigned code = 0;
    while (code < LARGEST_CODE && largest > SMALLEST_BLOCK << 2 * code)
        code++;
    if (out == NULL || now != new_end || largest > SMALLEST_BLOCK << 2 * code)
        return NULL;
    memcpy(frame, heads[code], HEAD_SIZE);
    put_little_endian(out, 0);
    return out + END_MARK;
}

const char recompress_doc[] = PyDoc_STR(
"recompress([(frame, old), …], new) -> frame | None\n\n"
"`old`: the records that the LZ4 frame decompresses to, all of them; `new`: those of all of them with\n"
"other numbers, or also with other headers.\n"
"None if they differ more, or if the result would be an eighth larger than the frames.");

PyObject *recompress(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *given, *records;
    char *content;
    Py_ssize_t size, before = 0;
    if (!PyArg_ParseTuple(args, "OS", &given, &records) || PyBytes_AsStringAndSize(records, &content, &size) < 0)
        return NULL;
    PyObject *const listed = PySequence_Tuple(given); /* keeps the bytes alive while others run */
    if (listed == NULL)
        return NULL;
    const Py_ssize_t count = PyTuple_Size(listed);
    PyObject *result = NULL;
    uint8_t *out = NULL;
    Part *const parts = calloc((size_t)count + 1, sizeof(Part));
    if (parts == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    for (Py_ssize_t each = 0; each < count; each++) {
        if (!take_part(PyTuple_GetItem(listed, each), &parts[each]))
            goto done;
        before += parts[each].end - parts[each].frame;
    }
    const uint8_t *const now = (const uint8_t *)content;
    size_t room = 0;
    Py_BEGIN_ALLOW_THREADS
    if (size >= 1 && size <= MOST_BYTES)
        room = prepare_parts(parts, count, (size_t)size);
    Py_END_ALLOW_THREADS
    if (room != 0 && (out = malloc(room)) == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    const uint8_t *written = NULL;
    int memory = 1;
    if (room != 0) {
        Py_BEGIN_ALLOW_THREADS
        written = write_frame(out, parts, count, now, now + size, &memory);
        Py_END_ALLOW_THREADS
    }
    if (!memory) {
        PyErr_NoMemory();
    } else if (written == NULL || written - out > before + before / 8) {
        Py_INCREF(Py_None);
        result = Py_None;
    } else {
        result = PyBytes_FromStringAndSize((const char *)out, written - out);
    }
done:
    free(out);
    free(parts);
    Py_DECREF(listed);
    return result;
}
