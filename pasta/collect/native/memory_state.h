/* What the memory collector's host side and its device patches share: the layout of device memory.
 *
 * Memory is looked at in pages of 2 MiB. The host numbers the pages in which the program has memory,
 * and gives each launch a slot. A page that a launch touches gets a leaf out of its bank's pool: marks
 * for each granule, and where asked for counters. So device memory follows what
 * launches touch, not what the program allocates, and only leaves in use travel to the host. */
#ifndef PASTA_MEMORY_STATE_H
#define PASTA_MEMORY_STATE_H

#include <cstdint>

#ifdef __CUDACC__
#define PASTA_EVERYWHERE __host__ __device__
#else
#define PASTA_EVERYWHERE
#endif

namespace pasta {

constexpr uint32_t PAGE_SHIFT = 21;
constexpr uint64_t PAGE_BYTES = 1ull << PAGE_SHIFT;
constexpr uint32_t CHUNK_SHIFT = 35; /* a chunk of the page table covers so much of the address space */
constexpr uint32_t CHUNK_PAGES = 1u << (CHUNK_SHIFT - PAGE_SHIFT);
constexpr uint32_t CHUNKS_OF_SPACE = 1u << 14; /* addresses of 49 bits */
constexpr uint16_t NO_CHUNK = 0xFFFF;
constexpr uint32_t NO_PAGE = 0xFFFFFFFFu;

/* What a launch's word for a page says: no leaf yet, one is being made, the leaf's number + LEAF, or,
 * where the pool had none left, the marks for the whole page. */
constexpr uint32_t UNTOUCHED = 0, BEING_MADE = 1, WHOLE_PAGE = 1u << 31, LEAF = 2;

enum Kind : uint32_t { READ, WRITE, ATOMIC, KINDS };
enum Space : uint32_t { GLOBAL, SHARED, LOCAL, REMOTE_SHARED, SPACES };
constexpr uint32_t SIZES = 6; /* 1, 2, 4, 8, 16 bytes, and any other, whose bytes are summed apart */
constexpr uint32_t OTHER_SIZE = SIZES - 1;
constexpr uint32_t SHARDS = 16; /* counters of the global space, so that warps do not wait for each other */

constexpr uint32_t MARK_READ = 1, MARK_WRITTEN = 2;
constexpr uint32_t GRANULES_OF_WORD = 16; /* two bits each */

/* Results of one launch that are not about single pages. */
struct Totals {
    uint64_t global[SHARDS][KINDS][SIZES];
    uint64_t near[SPACES][KINDS][SIZES]; /* of the other spaces; GLOBAL's is not used */
    uint64_t other_bytes[SPACES][KINDS]; /* bytes of accesses of other sizes */
    uint64_t unknown[KINDS];             /* accesses outside every numbered page */
    uint64_t unsized_tensor_loads;       /* tensor copies whose tensor map is not read */
    uint64_t without_leaf;               /* pages that got no leaf: marked as a whole */
};

/* How often an instruction ran, or an event happened, in a launch. */
struct Tally {
    uint64_t key; /* 0: free; else tally_key() */
    uint64_t count;
};
constexpr uint32_t TALLY_TRIES = 64;
constexpr uint32_t TALLIES = 1u << 16; /* of each bank */

enum Event : uint32_t {
    NO_EVENT, /* 1 + kind * SIZES + size is that of an access */
    FIRST_EVENT = 32,
    BLOCK_ENTRY = FIRST_EVENT, BLOCK_EXIT, BARRIER, WARP_BARRIER, SHUFFLE, DEVICE_CALL, DEVICE_RETURN,
    DEVICE_MALLOC, DEVICE_FREE, CUDA_BARRIER, PIPELINE_COMMIT, PIPELINE_WAIT, CLUSTER_ARRIVE,
    CLUSTER_WAIT, MATRIX_PRODUCT, LAST_EVENT
};

/* slot: 16 bits, event: 8, offset of the instruction in its kernel: 40; never 0. */
PASTA_EVERYWHERE constexpr uint64_t tally_key(uint32_t slot, uint32_t event, uint64_t offset) {
    return static_cast<uint64_t>(slot) << 48 | static_cast<uint64_t>(event & 0xFF) << 40 | (offset & 0xFFFFFFFFFFull);
}

struct BankControl {
    uint32_t leaves;      /* taken from the pool, also beyond its end */
    uint32_t tallies_lost;
};

/* A box of a tensor that a launch has copied, and what each copy of it counts. The table holds what fits, for
 * its launches together: a box that another has taken the place of is looked at anew. */
struct alignas(16) Box {
    uint64_t key;     /* 0: free; else its BoxKey, or the complement of that while it is looked at */
    uint32_t bytes;   /* of it within the tensor; and OUTSIDE_PAGES, if it begins in no numbered page */
    uint32_t counter; /* which word of the leaves counts reads where it begins; NO_COUNTER: none does */
};
constexpr uint32_t BOXES_SHIFT = 17;
constexpr uint32_t BOXES = 1u << BOXES_SHIFT; /* of each bank */
constexpr uint32_t OUTSIDE_PAGES = 1u << 31;
constexpr uint32_t NO_COUNTER = 0xFFFFFFFFu;

/* A warp's access, as it stands in the ring of raw records. Each part is written at once and bears the
 * lap of the ring in which it was written, so that no order between parts is needed. */
struct alignas(16) HeadPart {
    uint32_t word[3];
    uint32_t lap;
};
struct alignas(8) LanePart {
    uint32_t distance; /* of the lane's address from the base, signed */
    uint32_t lap;
};
struct Record {
    HeadPart head[4]; /* lanes, offset, launch; base, bytes; block, warp, what; request */
    LanePart lane[32];
};
static_assert(sizeof(Record) == 320, "whole lines of 64 bytes");
constexpr uint32_t RING_RECORDS_SHIFT = 17;
constexpr uint64_t RING_RECORDS = 1ull << RING_RECORDS_SHIFT;
constexpr uint32_t RING_TRIES = 1u << 20; /* some seconds */
constexpr uint32_t PREFETCH = 3;          /* an operation beside the kinds */
constexpr uint64_t NO_RECORD = ~0ull;

struct RingControl { /* on the device */
    uint64_t head, known_tail, dropped_accesses, waits;
    uint32_t dead;
};
struct RingHost { /* pinned */
    volatile uint64_t tail;
    volatile uint32_t dead;
};

/* What a patch is given: the slot of its launch. */
struct Slot {
    const uint16_t *chunk_of;  /* address >> CHUNK_SHIFT -> chunk */
    const uint32_t *page_of;   /* chunk, page in it -> page number */
    uint32_t *pages;           /* page number -> what this launch knows of it */
    Totals *totals;
    BankControl *bank;
    uint32_t *leaves;
    Tally *tallies;
    Box *boxes;                /* BOXES, of the bank */
    RingControl *ring;
    RingHost *ring_host;
    Record *records;
    uint64_t code;             /* where the kernel's code begins */
    uint32_t id;               /* of the slot in its bank */
    uint32_t launch;           /* low bits of the launch's number, for records */
    uint32_t page_count;       /* pages that have a number */
    uint32_t leaf_count;       /* leaves of the pool */
    uint32_t leaf_words;       /* size of a leaf, its owner included */
    uint32_t granule_shift;
    uint32_t reads_tensor_maps; /* whether they are laid out as TensorMap says */
    uint32_t every_space;      /* whether memory other than global is looked at */
    uint32_t some_blocks;      /* whether only these blocks of the grid are recorded: */
    uint64_t first_block, last_block;
};

/* A leaf: the slot and the page that it belongs to, two bits for each granule, then at levels that
 * count its reads, writes and atomics. */
constexpr uint32_t OWNER_WORDS = 2;
PASTA_EVERYWHERE constexpr uint32_t mark_words(uint32_t granule_shift) {
    return ((1u << (PAGE_SHIFT - granule_shift)) + GRANULES_OF_WORD - 1) / GRANULES_OF_WORD;
}
PASTA_EVERYWHERE constexpr uint32_t counter_words(uint32_t granule_shift) {
    return KINDS << (PAGE_SHIFT - granule_shift);
}

} // namespace pasta

#endif
