/* Write batches of rows into a ring in shared memory: the C side of pasta's channel.
 *
 * One ring belongs to one thread. C11 or C++ with the atomics of GCC and Clang, Linux, little
 * endian; no library is needed. The bytes and the guarantees are described in docs/channel.md;
 * pasta/collect/target/channel_layout.py holds the same numbers for Python.
 *
 *     pasta_ring ring;
 *     pasta_ring_open(&ring, folder, rank);
 *     int table = pasta_find_table(&ring, "memory");
 *     pasta_column columns[] = {
 *         {.column = pasta_find_column(&ring, table, "address"), .values = addresses},
 *         {.column = pasta_find_column(&ring, table, "space"), .values = text, .offsets = ends},
 *     };
 *     pasta_write(&ring, table, columns, 2, rows);
 *     pasta_ring_close(&ring);
 *
 * Define _GNU_SOURCE (or _DEFAULT_SOURCE) before the first include.
 */
#ifndef PASTA_CHANNEL_H
#define PASTA_CHANNEL_H

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PASTA_VERSION 1u
#define PASTA_ALIGNMENT 64u
#define PASTA_PATH_BYTES 4096

enum pasta_type {
    PASTA_U8 = 1, PASTA_U16, PASTA_U32, PASTA_U64, PASTA_I8, PASTA_I16, PASTA_I32, PASTA_I64,
    PASTA_F32, PASTA_F64, PASTA_BOOL, PASTA_UTF8, PASTA_LIST_UTF8, PASTA_LIST_I64
};

/* The header of a ring, followed by its table records and its column records. */
typedef struct {
    char magic[8]; /* "PASTARNG" */
    uint32_t version, header_bytes, slot_bytes, slots, tables, columns;
    uint32_t checksum; /* CRC-32 of the records */
    int32_t rank;
    uint64_t pid, tid;
    int64_t created; /* ns since the epoch */
    /* written by the producer only */
    uint64_t full_batches, full_rows, full_since, large_rows, large_since;
    uint64_t producer_reserved[3];
    /* written by the reader only, save block_ns, which the owner sets */
    uint64_t released, closed;
    uint64_t block_ns;
    uint64_t reader_reserved[5];
} pasta_header;

typedef struct {
    char name[48];
    uint32_t first_column, columns, regions, reserved;
} pasta_table_record;

typedef struct {
    char name[56];
    uint32_t type, region;
} pasta_column_record;

/* The header of a slot, followed by its regions: offset in the slot | length << 32. */
typedef struct {
    uint64_t commit, begun; /* sequence + 1 */
    uint64_t sequence;
    uint32_t table, rows, regions, used;
    uint32_t checksum; /* CRC-32 of sequence to used, and of the regions */
    uint32_t reserved[5];
} pasta_slot;

#ifdef __cplusplus
#define PASTA_ASSERT static_assert
#else
#define PASTA_ASSERT _Static_assert
#endif
PASTA_ASSERT(sizeof(pasta_header) == 192, "pasta_header");
PASTA_ASSERT(offsetof(pasta_header, full_batches) == 64, "producer line");
PASTA_ASSERT(offsetof(pasta_header, released) == 128, "reader line");
PASTA_ASSERT(sizeof(pasta_table_record) == 64, "pasta_table_record");
PASTA_ASSERT(sizeof(pasta_column_record) == 64, "pasta_column_record");
PASTA_ASSERT(sizeof(pasta_slot) == 64, "pasta_slot");
PASTA_ASSERT(offsetof(pasta_slot, checksum) == 40, "checksum");
PASTA_ASSERT(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are little endian");

typedef struct {
    pasta_header *header; /* NULL: there is no ring; what is written is only counted below */
    uint64_t unplaced_rows;
    uint64_t next, stalled_at;
    size_t bytes;
    pid_t pid;
    int fd;
} pasta_ring;

/* One column of a batch; columns that are not given are absent. */
typedef struct {
    int column;                   /* from pasta_find_column */
    const void *values;           /* numbers; one byte for each bool; text; items of lists */
    const int32_t *offsets;       /* text and lists: where each row begins, and where the last ends */
    const int32_t *item_offsets;  /* lists of text: the same for each item */
    const uint8_t *valid;         /* one byte for each row, 0: null; NULL: no row is null */
} pasta_column;

static inline uint32_t pasta_crc32(uint32_t crc, const void *data, size_t bytes) {
    const uint8_t *next = (const uint8_t *)data;
    crc = ~crc;
    while (bytes--) {
        crc ^= *next++;
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1u)));
    }
    return ~crc;
}

static inline uint64_t pasta_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t pasta_align(uint64_t size) {
    return (size + PASTA_ALIGNMENT - 1) / PASTA_ALIGNMENT * PASTA_ALIGNMENT;
}

static inline uint32_t pasta_width(uint32_t type) {
    static const uint8_t widths[] = {0, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8};
    return type <= PASTA_F64 ? widths[type] : 0;
}

static inline pasta_table_record *pasta_table(const pasta_ring *ring, int table) {
    return (pasta_table_record *)(ring->header + 1) + table;
}

static inline pasta_column_record *pasta_column_of(const pasta_ring *ring, int table, int column) {
    pasta_column_record *first =
        (pasta_column_record *)pasta_table(ring, (int)ring->header->tables);
    return first + pasta_table(ring, table)->first_column + column;
}

/* Return the index of a table, or -1. */
static inline int pasta_find_table(const pasta_ring *ring, const char *name) {
    if (!ring->header) return -1;
    for (uint32_t table = 0; table < ring->header->tables; ++table)
        if (!strncmp(pasta_table(ring, (int)table)->name, name, sizeof(((pasta_table_record *)0)->name)))
            return (int)table;
    return -1;
}

/* Return the index of a column in its table, or -1. */
static inline int pasta_find_column(const pasta_ring *ring, int table, const char *name) {
    if (!ring->header || table < 0) return -1;
    for (uint32_t column = 0; column < pasta_table(ring, table)->columns; ++column) {
        pasta_column_record *record = pasta_column_of(ring, table, (int)column);
        if (!strncmp(record->name, name, sizeof(record->name))) return (int)column;
    }
    return -1;
}

/* Let go of the ring; what was committed stays readable. */
static inline void pasta_ring_close(pasta_ring *ring) {
    if (ring->header) munmap(ring->header, ring->bytes);
    if (ring->fd >= 0) close(ring->fd);
    ring->header = NULL;
    ring->fd = -1;
}

/* Read the channel's layout into the new ring's file, and give that its size. */
static inline int pasta_ring_fill(pasta_ring *ring, const char *folder, int32_t rank) {
    char path[PASTA_PATH_BYTES];
    char page[4096];
    ssize_t got;
    off_t at = 0;
    snprintf(path, sizeof(path), "%.3900s/layout", folder);
    int layout = open(path, O_RDONLY | O_CLOEXEC);
    if (layout < 0) return errno;
    while ((got = read(layout, page, sizeof(page))) > 0) {
        if (pwrite(ring->fd, page, (size_t)got, at) != got) break;
        at += got;
    }
    close(layout);
    if (got != 0) return EIO;
    pasta_header head;
    if (pread(ring->fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head)) return EINVAL;
    if (memcmp(head.magic, "PASTARNG", 8) || head.version != PASTA_VERSION) return EINVAL;
    if (head.header_bytes != (uint64_t)at) return EINVAL;
    ring->bytes = head.header_bytes + (size_t)head.slots * head.slot_bytes;
    int failed;
    do failed = posix_fallocate(ring->fd, 0, (off_t)ring->bytes);
    while (failed == EINTR);
    if (failed) { /* a ring without slots still counts what is dropped */
        head.slots = 0;
        ring->bytes = head.header_bytes;
        if (ftruncate(ring->fd, (off_t)ring->bytes)) return errno;
    }
    head.rank = rank;
    head.pid = (uint64_t)getpid();
    head.tid = (uint64_t)syscall(SYS_gettid);
    head.created = (int64_t)pasta_clock(CLOCK_REALTIME);
    return pwrite(ring->fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head) ? 0 : EIO;
}

/* Make this thread's ring in the channel's folder. Returns 0, or an errno: then everything that is
 * written is dropped and counted in unplaced_rows. */
static inline int pasta_ring_open(pasta_ring *ring, const char *folder, int32_t rank) {
    char hidden[PASTA_PATH_BYTES], path[PASTA_PATH_BYTES], name[96];
    memset(ring, 0, sizeof(*ring));
    ring->stalled_at = UINT64_MAX;
    ring->pid = getpid();
    snprintf(name, sizeof(name), "ring-%ld-%ld-%llu", (long)ring->pid, (long)syscall(SYS_gettid),
             (unsigned long long)pasta_clock(CLOCK_MONOTONIC));
    snprintf(hidden, sizeof(hidden), "%.3900s/.%s", folder, name);
    snprintf(path, sizeof(path), "%.3900s/%s", folder, name);
    ring->fd = open(hidden, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (ring->fd < 0) return errno;
    int failed = flock(ring->fd, LOCK_EX) ? errno : pasta_ring_fill(ring, folder, rank);
    if (!failed) {
        void *memory = mmap(NULL, ring->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
        if (memory != MAP_FAILED) ring->header = (pasta_header *)memory;
        failed = memory == MAP_FAILED || rename(hidden, path) ? errno : 0;
    }
    if (failed) pasta_ring_close(ring);
    else if (ring->header->slots == 0) ring->stalled_at = 0;
    return failed;
}

static inline pasta_slot *pasta_next_slot(const pasta_ring *ring) {
    size_t at = ring->next % ring->header->slots * ring->header->slot_bytes;
    return (pasta_slot *)((char *)ring->header + ring->header->header_bytes + at);
}

/* Wait for a free slot as long as the channel allows; not for a reader seen standing still. */
static inline int pasta_wait_for_slot(pasta_ring *ring) {
    pasta_header *header = ring->header;
    struct timespec pause = {0, 50000};
    uint64_t give_up = 0;
    for (;;) {
        uint64_t released = __atomic_load_n(&header->released, __ATOMIC_ACQUIRE);
        if (__atomic_load_n(&header->closed, __ATOMIC_RELAXED)) return 0;
        if (ring->next - released < header->slots) return 1;
        if (released == ring->stalled_at) return 0;
        uint64_t now = pasta_clock(CLOCK_MONOTONIC);
        if (!give_up) give_up = now + header->block_ns;
        if (now >= give_up) {
            ring->stalled_at = released;
            return 0;
        }
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 800000) pause.tv_nsec *= 2;
    }
}

static inline void pasta_add(uint64_t *counter, uint64_t by) {
    uint64_t now = __atomic_load_n(counter, __ATOMIC_RELAXED);
    __atomic_store_n(counter, now + by, __ATOMIC_RELAXED);
}

static inline void pasta_count(uint64_t *rows, uint64_t *since, uint64_t by) {
    if (!__atomic_load_n(rows, __ATOMIC_RELAXED))
        __atomic_store_n(since, pasta_clock(CLOCK_REALTIME), __ATOMIC_RELAXED);
    pasta_add(rows, by);
}

/* Put the next region into the slot, or with slot NULL only add its size; return where it ends. */
static inline uint64_t pasta_put(pasta_slot *slot, uint32_t region, uint64_t at, const void *data,
                                 uint64_t bytes) {
    if (slot) {
        ((uint64_t *)(slot + 1))[region] = at | bytes << 32;
        if (bytes) memcpy((char *)slot + at, data, bytes);
    }
    return at + pasta_align(bytes);
}

static inline uint64_t pasta_put_bits(pasta_slot *slot, uint32_t region, uint64_t at,
                                      const uint8_t *flags, uint64_t rows) {
    uint64_t bytes = (rows + 7) / 8;
    if (slot) {
        uint8_t *bits = (uint8_t *)slot + at;
        ((uint64_t *)(slot + 1))[region] = at | bytes << 32;
        memset(bits, 0, bytes);
        for (uint64_t row = 0; row < rows; ++row) bits[row / 8] |= (uint8_t)(!!flags[row] << row % 8);
    }
    return at + pasta_align(bytes);
}

static inline uint64_t pasta_put_offsets(pasta_slot *slot, uint32_t region, uint64_t at,
                                         const int32_t *offsets, uint64_t rows) {
    uint64_t bytes = 4 * (rows + 1);
    if (slot) {
        int32_t *from_zero = (int32_t *)((char *)slot + at);
        ((uint64_t *)(slot + 1))[region] = at | bytes << 32;
        for (uint64_t row = 0; row <= rows; ++row) from_zero[row] = offsets[row] - offsets[0];
    }
    return at + pasta_align(bytes);
}

/* Put rows start to stop of one column; with slot NULL only add their size. */
static inline uint64_t pasta_put_column(pasta_slot *slot, const pasta_column_record *record,
                                        const pasta_column *column, uint64_t at, uint64_t start,
                                        uint64_t stop) {
    const char *values = (const char *)column->values;
    const int32_t *offsets = column->offsets;
    uint32_t region = record->region, type = record->type;
    if (column->valid) at = pasta_put_bits(slot, region, at, column->valid + start, stop - start);
    ++region;
    if (type == PASTA_BOOL)
        return pasta_put_bits(slot, region, at, (const uint8_t *)values + start, stop - start);
    if (type < PASTA_BOOL) {
        uint64_t width = pasta_width(type);
        return pasta_put(slot, region, at, values + width * start, width * (stop - start));
    }
    at = pasta_put_offsets(slot, region++, at, offsets + start, stop - start);
    int32_t first = offsets[start], last = offsets[stop];
    if (type == PASTA_LIST_UTF8) {
        const int32_t *items = column->item_offsets;
        at = pasta_put_offsets(slot, region++, at, items + first, (uint64_t)(last - first));
        first = items[first], last = items[last];
    }
    uint64_t width = type == PASTA_LIST_I64 ? 8 : 1;
    return pasta_put(slot, region, at, values + width * (uint64_t)first, width * (uint64_t)(last - first));
}

static inline uint64_t pasta_put_columns(const pasta_ring *ring, pasta_slot *slot, int table,
                                         const pasta_column *columns, size_t count, uint64_t start,
                                         uint64_t stop) {
    uint32_t regions = pasta_table(ring, table)->regions;
    uint64_t at = pasta_align(sizeof(pasta_slot) + 8ull * regions);
    if (slot) memset(slot + 1, 0, 8ull * regions);
    for (size_t index = 0; index < count; ++index) {
        const pasta_column_record *record = pasta_column_of(ring, table, columns[index].column);
        at = pasta_put_column(slot, record, columns + index, at, start, stop);
    }
    return at;
}

/* Fill the next slot; its commit mark, stored last, makes it visible. */
static inline void pasta_commit(pasta_ring *ring, int table, const pasta_column *columns,
                                size_t count, uint64_t start, uint64_t stop) {
    pasta_slot *slot = pasta_next_slot(ring);
    slot->sequence = ring->next;
    slot->table = (uint32_t)table;
    slot->rows = (uint32_t)(stop - start);
    slot->regions = pasta_table(ring, table)->regions;
    __atomic_store_n(&slot->begun, ring->next + 1, __ATOMIC_RELEASE);
    slot->used = (uint32_t)pasta_put_columns(ring, slot, table, columns, count, start, stop);
    slot->checksum = pasta_crc32(pasta_crc32(0, &slot->sequence, 24), slot + 1, 8ull * slot->regions);
    __atomic_store_n(&slot->commit, ++ring->next, __ATOMIC_RELEASE);
}

static inline void pasta_write_rows(pasta_ring *ring, int table, const pasta_column *columns,
                                    size_t count, uint64_t start, uint64_t stop) {
    uint64_t rows = stop - start, room = ring->header->slot_bytes;
    uint64_t size = pasta_put_columns(ring, NULL, table, columns, count, start, stop);
    if (size > room && rows > 1) { /* parts of rows of average size fit */
        uint32_t regions = pasta_table(ring, table)->regions;
        uint64_t overhead = pasta_align(sizeof(pasta_slot) + 8ull * regions) + PASTA_ALIGNMENT * regions;
        uint64_t step = rows * (room - overhead) / size;
        step = step < 1 ? 1 : step > rows / 2 ? rows / 2 : step;
        for (; start < stop; start += step)
            pasta_write_rows(ring, table, columns, count, start,
                             stop - start < step ? stop : start + step);
    } else if (size > room) {
        pasta_count(&ring->header->large_rows, &ring->header->large_since, 1);
    } else if (pasta_wait_for_slot(ring)) {
        pasta_commit(ring, table, columns, count, start, stop);
    } else {
        pasta_add(&ring->header->full_batches, 1);
        pasta_count(&ring->header->full_rows, &ring->header->full_since, rows);
    }
}

/* Write rows, as one batch or, where they do not fit into a slot, as several. What finds no slot in
 * time is dropped and counted. Returns 0; EINVAL: no such table or column; ENOTCONN: there is no
 * ring, or it belongs to the process that forked this one, which opens a ring of its own. */
static inline int pasta_write(pasta_ring *ring, int table, const pasta_column *columns, size_t count,
                              uint64_t rows) {
    if (!ring->header || ring->pid != getpid()) {
        ring->unplaced_rows += rows;
        return ENOTCONN;
    }
    if (table < 0 || (uint32_t)table >= ring->header->tables || rows > UINT32_MAX) return EINVAL;
    for (size_t index = 0; index < count; ++index)
        if (columns[index].column < 0 ||
            (uint32_t)columns[index].column >= pasta_table(ring, table)->columns)
            return EINVAL;
    pasta_write_rows(ring, table, columns, count, 0, rows);
    return 0;
}

#endif
