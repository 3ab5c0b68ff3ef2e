/* Name regions of a program, in any language, for `pasta collect`.
 *
 *     #include <pasta.h>            cc -I"$(pasta include)" program.c
 *
 *     pasta_begin("assemble");      regions nest, on each thread for itself
 *     ...
 *     pasta_end();
 *
 *     { pasta::region here("assemble"); ... }     the same in C++17
 *
 * Under `pasta collect` a region becomes a row of `span`, as `pasta.annotate` and ranges of NVTX do;
 * elsewhere a call is one look at a variable. C11 or C++17 with GCC or Clang, Linux, little endian,
 * libc alone (with -pthread before glibc 2.34); on other systems the functions do nothing.
 * docs/regions.md says what is recorded and what is not. */
#ifndef PASTA_H
#define PASTA_H

#if defined(__linux__) && defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__

#if !defined(_DEFAULT_SOURCE)
#define _DEFAULT_SOURCE
#endif
#include "../collect/native/pasta_channel.h"

#if defined(__GLIBC__) && !defined(__USE_MISC)
#error "pasta.h: include it first, or compile with -std=gnu11 or -D_DEFAULT_SOURCE"
#endif

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>

/* One definition for a whole program: whichever the linker meets, in C or C++, is everybody's. */
#define PASTA_SHARED __attribute__((weak, visibility("default")))
#define PASTA_APART static __attribute__((noinline))

#define PASTA_DEPTH 256u            /* open regions of a thread that are recorded */
#define PASTA_ROWS 2048u            /* ended regions that wait in a thread */
#define PASTA_CACHED 128u           /* names that a thread finds without a lock; a power of two */
#define PASTA_NAMES 65536u          /* names that are told apart */
#define PASTA_PLACES (2 * PASTA_NAMES)
#define PASTA_NAME_BYTES 4096u
#define PASTA_FLUSH_NS 100000000
#define PASTA_PATIENCE 1000         /* looks at a lock, 0.1 ms apart, before the program's end goes on without it */

#ifdef __cplusplus
extern "C" {
#endif

enum pasta_state { PASTA_UNKNOWN, PASTA_OFF, PASTA_ON };
enum pasta_lost { PASTA_TOO_DEEP, PASTA_NO_BEGIN, PASTA_LONG_NAME, PASTA_MANY_NAMES, PASTA_INTERRUPTED, PASTA_NO_MEMORY, PASTA_LOSSES };

/* A name as the program gave it, which its id stands for in the ring. */
typedef struct {
    uint64_t hash; /* 0: free; stored last */
    const char *text;
    uint32_t bytes, id;
} pasta_name;

/* What a thread has of its own. Others look at it when the program ends, so it has a lock. */
typedef struct pasta_thread {
    struct pasta_thread *next, *next_idle;
    int lock, told;
    int64_t tid, flushed;
    char comm[16]; /* its name, as the system knows it */
    uint32_t depth, inherited; /* open regions; those of them that belong to the process before a fork */
    uint32_t rows;
    int64_t open_ts[PASTA_DEPTH];
    uint32_t open_name[PASTA_DEPTH];
    int64_t ts[PASTA_ROWS], dur[PASTA_ROWS];
    uint32_t name[PASTA_ROWS];
    pasta_name cache[PASTA_CACHED];
} pasta_thread;

/* What a process has. Locks are taken in this order: joining, a thread's, writing. */
typedef struct {
    int state, joining, writing;
    int32_t rank;
    int64_t offset;
    char folder[PASTA_PATH_BYTES];
    pthread_key_t key;
    pasta_thread *threads, *idle;
    /* guarded by `writing` */
    int opened;
    pasta_ring ring;
    pasta_name *places;     /* open addressing, never full */
    pasta_name **names;     /* by id - 1 */
    uint32_t known, written;
    uint64_t lost[PASTA_LOSSES], lost_told[PASTA_LOSSES];
    int64_t tids[PASTA_ROWS];
    uint32_t levels[PASTA_ROWS];
    uint64_t zeros[PASTA_ROWS];
} pasta_process;

PASTA_SHARED pasta_process pasta_regions;
PASTA_SHARED __thread pasta_thread *pasta_here;
PASTA_SHARED __thread volatile int pasta_busy; /* a signal handler must not wait for the thread that it interrupts */

static inline int64_t pasta_now(void) {
    return (int64_t)pasta_clock(CLOCK_MONOTONIC) + pasta_regions.offset;
}

/* Take a lock; with `looks` above 0 give up after so many and return 0. */
static inline int pasta_take(int *lock, int looks) {
    struct timespec pause = {0, 100000};
    for (int tried = 0; __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE); ++tried) {
        if (looks && tried >= looks) return 0;
        if (looks || tried > 100) nanosleep(&pause, NULL);
        else sched_yield();
    }
    return 1;
}

static inline void pasta_let_go(int *lock) { __atomic_store_n(lock, 0, __ATOMIC_RELEASE); }

static inline void pasta_lose(enum pasta_lost what) {
    __atomic_fetch_add(&pasta_regions.lost[what], 1, __ATOMIC_RELAXED);
}

static inline uint64_t pasta_hash(const char *text, size_t bytes) {
    uint64_t hash = bytes * 0x9E3779B97F4A7C15u, word;
    for (; bytes >= 8; bytes -= 8, text += 8) {
        memcpy(&word, text, 8);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 32;
    }
    word = 0;
    memcpy(&word, text, bytes);
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    return (hash ^ hash >> 29) | 1;
}

static inline int pasta_is(const pasta_name *name, uint64_t hash, const char *text, size_t bytes) {
    return name->hash == hash && name->bytes == bytes && !memcmp(name->text, text, bytes);
}

/* Return a name's entry, made if it is new; NULL: there are too many. `writing` is held. */
static inline pasta_name *pasta_intern(uint64_t hash, const char *text, size_t bytes) {
    pasta_process *all = &pasta_regions;
    uint64_t at = hash % PASTA_PLACES;
    while (all->places[at].hash && !pasta_is(&all->places[at], hash, text, bytes)) at = (at + 1) % PASTA_PLACES;
    pasta_name *place = &all->places[at];
    if (place->hash) return place;
    char *copy = all->known < PASTA_NAMES ? (char *)malloc(bytes + 1) : NULL;
    if (!copy) return NULL;
    memcpy(copy, text, bytes);
    place->text = copy;
    place->bytes = (uint32_t)bytes;
    place->id = all->known + 1;
    all->names[all->known] = place;
    __atomic_store_n(&place->hash, hash, __ATOMIC_RELEASE);
    ++all->known;
    return place;
}

static inline uint32_t pasta_text(const char *text) {
    size_t bytes = strlen(text);
    pasta_name *name = pasta_intern(pasta_hash(text, bytes), text, bytes);
    return name ? name->id : 0;
}

/* Return the id of a region's name, by what it says: its memory may be anything's by and by. */
static inline uint32_t pasta_name_id(pasta_thread *thread, const char *text) {
    if (!text) text = "";
    size_t bytes = strnlen(text, PASTA_NAME_BYTES + 1);
    int is_long = bytes > PASTA_NAME_BYTES;
    if (is_long) bytes = PASTA_NAME_BYTES;
    uint64_t hash = pasta_hash(text, bytes);
    pasta_name *cached = &thread->cache[(hash >> 8) % PASTA_CACHED];
    if (is_long) pasta_lose(PASTA_LONG_NAME);
    if (pasta_is(cached, hash, text, bytes)) return cached->id;
    pasta_take(&pasta_regions.writing, 0);
    pasta_name *known = pasta_intern(hash, text, bytes);
    if (known) *cached = *known;
    pasta_let_go(&pasta_regions.writing);
    if (!known) pasta_lose(PASTA_MANY_NAMES);
    return known ? known->id : 0;
}

/* Return how many bytes the UTF-8 character at `text` has; 0: it is none. */
static inline size_t pasta_utf8(const uint8_t *text, size_t left) {
    size_t bytes = *text < 0x80 ? 1 : *text >= 0xC2 && *text < 0xE0 ? 2 : *text >> 4 == 0xE ? 3 : *text >= 0xF0 && *text < 0xF5 ? 4 : 0;
    if (!bytes || bytes > left) return 0;
    for (size_t next = 1; next < bytes; ++next)
        if (text[next] >> 6 != 2) return 0;
    unsigned head = bytes > 2 ? (unsigned)text[0] << 8 | text[1] : 0;
    if (bytes == 3 && (head < 0xE0A0 || (head >= 0xEDA0 && head < 0xEE80))) return 0;
    return bytes == 4 && (head < 0xF090 || head >= 0xF490) ? 0 : bytes;
}

static inline void pasta_clean(char *text, size_t bytes) {
    for (size_t at = 0, step; at < bytes; at += step) {
        step = pasta_utf8((const uint8_t *)text + at, bytes - at);
        if (!step) text[at] = '?', step = 1;
    }
}

typedef struct {
    const char *name;
    const void *values;
    const uint8_t *valid;
} pasta_given;

/* Write rows of a table. `writing` is held, here and below. */
static inline void pasta_put_table(const char *name, const pasta_given *given, size_t count, size_t rows) {
    pasta_ring *ring = &pasta_regions.ring;
    pasta_column columns[8];
    size_t found = 0;
    int table = pasta_find_table(ring, name);
    memset(columns, 0, sizeof(columns));
    for (size_t index = 0; index < count; ++index) {
        int column = pasta_find_column(ring, table, given[index].name);
        if (column < 0) continue;
        columns[found].column = column;
        columns[found].values = given[index].values;
        columns[found++].valid = given[index].valid;
    }
    pasta_write(ring, table, columns, found, rows);
}

/* Write the names that are not in the ring yet; what a full ring refuses is tried again. */
static inline void pasta_put_names(void) {
    pasta_process *all = &pasta_regions;
    uint32_t first = all->written, count = all->known - first;
    size_t bytes = 0;
    if (!count || !all->ring.header) return;
    for (uint32_t index = 0; index < count; ++index) bytes += all->names[first + index]->bytes;
    uint32_t *ids = (uint32_t *)malloc(count * sizeof(*ids));
    int32_t *ends = (int32_t *)malloc((count + 1) * sizeof(*ends));
    char *text = (char *)malloc(bytes + 1);
    if (ids && ends && text) {
        ends[0] = 0;
        for (uint32_t index = 0; index < count; ++index) {
            const pasta_name *name = all->names[first + index];
            ids[index] = name->id;
            memcpy(text + ends[index], name->text, name->bytes);
            pasta_clean(text + ends[index], name->bytes);
            ends[index + 1] = ends[index] + (int32_t)name->bytes;
        }
        int table = pasta_find_table(&all->ring, "text");
        pasta_column columns[2];
        memset(columns, 0, sizeof(columns));
        columns[0].column = pasta_find_column(&all->ring, table, "id");
        columns[0].values = ids;
        columns[1].column = pasta_find_column(&all->ring, table, "text");
        columns[1].values = text;
        columns[1].offsets = ends;
        uint64_t dropped = all->ring.header->full_rows;
        pasta_write(&all->ring, table, columns, 2, count);
        if (all->ring.header->full_rows == dropped) all->written = first + count;
    }
    free(ids);
    free(ends);
    free(text);
}

static inline void pasta_put_process(void) {
    char host[256] = "", command[PASTA_NAME_BYTES] = "";
    int64_t parent = getppid();
    int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? 0 : read(file, command, sizeof(command) - 1);
    if (file >= 0) close(file);
    for (ssize_t at = 0; at + 1 < got; ++at)
        if (!command[at]) command[at] = ' ';
    gethostname(host, sizeof(host) - 1);
    uint32_t host_id = pasta_text(host), command_id = pasta_text(command);
    pasta_given given[] = {{"parent_pid", &parent, NULL}, {"host_text", &host_id, NULL}, {"command_text", &command_id, NULL}};
    pasta_put_names();
    pasta_put_table("process", given, 3, 1);
}

static inline void pasta_put_thread(const pasta_thread *thread) {
    uint32_t name_id = pasta_text(thread->comm);
    pasta_given given[] = {{"tid", &thread->tid, NULL}, {"name_text", &name_id, NULL}};
    pasta_put_names();
    pasta_put_table("thread", given, 2, 1);
}

static inline void pasta_put_losses(void) {
    static const char *const reasons[PASTA_LOSSES] = {
        "regions nested deeper than 256: left out",
        "ends of regions without a begin: left out",
        "regions with names of more than 4,096 bytes: their names are cut",
        "regions of more than 65,536 names: without a name",
        "regions of signal handlers that interrupted the recording of another: left out",
        "regions of threads that got no memory: left out",
    };
    uint32_t collector = pasta_text("regions");
    for (int what = 0; what < PASTA_LOSSES; ++what) {
        uint64_t lost = __atomic_load_n(&pasta_regions.lost[what], __ATOMIC_RELAXED);
        int64_t count = (int64_t)(lost - pasta_regions.lost_told[what]);
        if (!count) continue;
        uint32_t reason = pasta_text(reasons[what]);
        pasta_given given[] = {{"collector_text", &collector, NULL}, {"reason_text", &reason, NULL}, {"count", &count, NULL}};
        pasta_put_names();
        pasta_put_table("loss", given, 3, 1);
        pasta_regions.lost_told[what] = lost;
    }
}

/* Open the ring where there is none: it takes memory, which a process without regions need not. */
static inline int pasta_opened(void) {
    pasta_process *all = &pasta_regions;
    if (!all->opened) {
        all->opened = 1;
        if (pasta_ring_open(&all->ring, all->folder, all->rank)) __atomic_store_n(&all->state, PASTA_OFF, __ATOMIC_RELEASE);
        else pasta_put_process();
    }
    return all->ring.header != NULL;
}

static inline void pasta_put_spans(const pasta_thread *thread, const int64_t *ts, const int64_t *dur, const uint32_t *name, size_t rows, const uint8_t *valid) {
    pasta_process *all = &pasta_regions;
    uint32_t level = pasta_text("annotation");
    for (size_t row = 0; row < rows; ++row) all->tids[row] = thread->tid, all->levels[row] = level;
    pasta_given given[] = {
        {"tid", all->tids, NULL},   {"ts", ts, NULL},
        {"dur", dur, valid},        {"level_text", all->levels, NULL},
        {"name_text", name, NULL},  {"external_id", all->zeros, NULL},
        {"stack_id", all->zeros, NULL},
    };
    pasta_put_names();
    pasta_put_table("span", given, 7, rows);
}

/* Write what waits in a thread, whose lock is held, and with `is_over` its open regions as unfinished. */
static inline void pasta_put_waiting(pasta_thread *thread, int is_over, int looks) {
    static const uint8_t unknown[PASTA_DEPTH] = {0};
    if (!pasta_take(&pasta_regions.writing, looks)) return;
    uint32_t most = thread->depth < PASTA_DEPTH ? thread->depth : PASTA_DEPTH;
    uint32_t unfinished = is_over && most > thread->inherited ? most - thread->inherited : 0;
    if ((thread->rows || unfinished) && pasta_opened()) {
        if (!thread->told) pasta_put_thread(thread);
        thread->told = 1;
        if (thread->rows) pasta_put_spans(thread, thread->ts, thread->dur, thread->name, thread->rows, NULL);
        if (unfinished)
            pasta_put_spans(thread, thread->open_ts + thread->inherited, thread->open_ts, thread->open_name + thread->inherited, unfinished, unknown);
    }
    thread->rows = 0;
    if (is_over) thread->depth = thread->inherited = 0;
    pasta_let_go(&pasta_regions.writing);
}

/* Write what waits in all threads. */
static inline void pasta_put_all(int is_over) {
    pasta_process *all = &pasta_regions;
    if (!pasta_take(&all->joining, PASTA_PATIENCE)) return;
    for (pasta_thread *thread = all->threads; thread; thread = thread->next) {
        if (!pasta_take(&thread->lock, PASTA_PATIENCE)) continue;
        pasta_put_waiting(thread, is_over, PASTA_PATIENCE);
        pasta_let_go(&thread->lock);
    }
    if (pasta_take(&all->writing, PASTA_PATIENCE)) {
        uint64_t lost = 0;
        for (int what = 0; what < PASTA_LOSSES; ++what) lost += all->lost[what] - all->lost_told[what];
        if (lost && pasta_opened()) pasta_put_losses();
        pasta_let_go(&all->writing);
    }
    pasta_let_go(&all->joining);
}

PASTA_APART void pasta_at_exit(void) {
    if (__atomic_exchange_n(&pasta_regions.state, PASTA_OFF, __ATOMIC_ACQ_REL) != PASTA_ON) return;
    pthread_key_delete(pasta_regions.key); /* this may be a library that is unloaded now, before threads end */
    pasta_put_all(1);
}

PASTA_APART void pasta_thread_ended(void *mine) {
    pasta_thread *thread = (pasta_thread *)mine;
    pasta_busy = 1;
    pasta_here = NULL;
    pasta_take(&thread->lock, 0);
    pasta_put_waiting(thread, 1, 0);
    pasta_let_go(&thread->lock);
    pasta_take(&pasta_regions.joining, 0);
    thread->next_idle = pasta_regions.idle;
    pasta_regions.idle = thread;
    pasta_let_go(&pasta_regions.joining);
    pasta_busy = 0;
}

/* In a child after a fork: what waits and what is open belongs to the parent, and so does the ring. */
PASTA_APART void pasta_in_child(void) {
    pasta_process *all = &pasta_regions;
    if (all->state != PASTA_ON) return;
    if (all->opened) pasta_ring_close(&all->ring);
    all->opened = all->joining = all->writing = 0;
    all->written = 0;
    all->idle = NULL;
    all->threads = pasta_here;
    memcpy(all->lost_told, all->lost, sizeof(all->lost));
    if (!pasta_here) return;
    pasta_here->next = NULL;
    pasta_here->lock = pasta_here->told = 0;
    pasta_here->rows = 0;
    pasta_here->inherited = pasta_here->depth;
    pasta_here->tid = (int64_t)syscall(SYS_gettid);
}

/* The rank, as pasta/collect/target/ranks.py finds it. */
static inline int32_t pasta_rank(void) {
    static const char *const launchers[][2] = {
        {"RANK", "WORLD_SIZE"},
        {"SLURM_PROCID", "SLURM_NTASKS"},
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
        {"PMI_RANK", "PMI_SIZE"},
        {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
    };
    for (size_t index = 0; index < sizeof(launchers) / sizeof(*launchers); ++index) {
        long numbers[2] = {-1, -1};
        for (int which = 0; which < 2; ++which) {
            const char *text = getenv(launchers[index][which]);
            size_t digits = text ? strspn(text, "0123456789") : 0;
            if (digits && digits < 10 && !text[digits]) numbers[which] = strtol(text, NULL, 10);
        }
        if (numbers[0] >= 0 && numbers[0] < numbers[1]) return (int32_t)numbers[0];
    }
    return 0;
}

static inline int pasta_prepare(void) {
    pasta_process *all = &pasta_regions;
    const char *folder = getenv("PASTA_CHANNEL"), *settings = getenv("PASTA_COLLECT");
    if (!folder || !settings || !*folder || strlen(folder) >= sizeof(all->folder) || access(folder, W_OK)) return 0;
    const char *offset = strstr(settings, "\"offset\": ");
    memcpy(all->folder, folder, strlen(folder) + 1);
    all->offset = offset ? strtoll(offset + 10, NULL, 10) : 0;
    all->rank = pasta_rank();
    all->places = (pasta_name *)calloc(PASTA_PLACES, sizeof(*all->places));
    all->names = (pasta_name **)calloc(PASTA_NAMES, sizeof(*all->names));
    return all->places && all->names && !pthread_key_create(&all->key, &pasta_thread_ended) &&
           !pthread_atfork(NULL, NULL, &pasta_in_child) && !atexit(&pasta_at_exit);
}

/* Find out, once, whether anybody collects. */
static inline int pasta_collected(void) {
    pasta_process *all = &pasta_regions;
    if (__atomic_load_n(&all->state, __ATOMIC_ACQUIRE) == PASTA_UNKNOWN) {
        pasta_take(&all->joining, 0);
        if (all->state == PASTA_UNKNOWN) __atomic_store_n(&all->state, pasta_prepare() ? PASTA_ON : PASTA_OFF, __ATOMIC_RELEASE);
        pasta_let_go(&all->joining);
    }
    return __atomic_load_n(&all->state, __ATOMIC_ACQUIRE) == PASTA_ON;
}

/* Return the calling thread's own, made at its first region. */
static inline pasta_thread *pasta_join(void) {
    pasta_process *all = &pasta_regions;
    pasta_take(&all->joining, 0);
    pasta_thread *thread = all->idle;
    if (thread) {
        all->idle = thread->next_idle;
    } else if ((thread = (pasta_thread *)calloc(1, sizeof(*thread)))) {
        thread->next = all->threads;
        all->threads = thread;
    }
    pasta_let_go(&all->joining);
    if (!thread) return NULL;
    thread->tid = (int64_t)syscall(SYS_gettid);
    thread->told = 0;
    prctl(PR_GET_NAME, thread->comm);
    thread->flushed = pasta_now();
    pthread_setspecific(all->key, thread);
    return pasta_here = thread;
}

static inline void pasta_leave(pasta_thread *thread) {
    if (thread) pasta_let_go(&thread->lock);
    pasta_busy = 0;
}

/* Lock the calling thread's own; NULL: nothing records, or a signal handler asks in the middle of it. */
static inline pasta_thread *pasta_enter(void) {
    if (pasta_busy) {
        pasta_lose(PASTA_INTERRUPTED);
        return NULL;
    }
    pasta_busy = 1;
    pasta_thread *thread = NULL;
    if (pasta_collected()) {
        thread = pasta_here ? pasta_here : pasta_join();
        if (!thread) pasta_lose(PASTA_NO_MEMORY);
        else pasta_take(&thread->lock, 0);
    }
    if (thread && __atomic_load_n(&pasta_regions.state, __ATOMIC_RELAXED) == PASTA_ON) return thread;
    pasta_leave(thread);
    return NULL;
}

PASTA_APART void pasta_record_begin(const char *name) {
    pasta_thread *thread = pasta_enter();
    if (!thread) return;
    uint32_t depth = thread->depth++;
    if (depth < PASTA_DEPTH) {
        thread->open_name[depth] = pasta_name_id(thread, name);
        thread->open_ts[depth] = pasta_now();
    } else {
        pasta_lose(PASTA_TOO_DEEP);
    }
    pasta_leave(thread);
}

PASTA_APART void pasta_record_end(void) {
    int64_t now = pasta_now();
    pasta_thread *thread = pasta_enter();
    if (!thread) return;
    if (!thread->depth) {
        pasta_lose(PASTA_NO_BEGIN);
    } else if (--thread->depth < thread->inherited) {
        thread->inherited = thread->depth;
    } else if (thread->depth < PASTA_DEPTH) {
        uint32_t row = thread->rows++;
        thread->ts[row] = thread->open_ts[thread->depth];
        thread->dur[row] = now - thread->ts[row];
        thread->name[row] = thread->open_name[thread->depth];
    }
    if (thread->rows == PASTA_ROWS || now - thread->flushed > PASTA_FLUSH_NS) {
        thread->flushed = now;
        pasta_put_waiting(thread, 0, 0);
    }
    pasta_leave(thread);
}

/* Begin a region of the calling thread. `name` is read now and not kept. */
PASTA_SHARED void pasta_begin(const char *name) {
    if (__atomic_load_n(&pasta_regions.state, __ATOMIC_RELAXED) != PASTA_OFF) pasta_record_begin(name);
}

/* End the innermost open region of the calling thread. */
PASTA_SHARED void pasta_end(void) {
    if (__atomic_load_n(&pasta_regions.state, __ATOMIC_RELAXED) != PASTA_OFF) pasta_record_end();
}

/* Write what waits, which `exit` does by itself: for use before `_exit` and `exec`. */
PASTA_SHARED void pasta_flush(void) {
    if (__atomic_load_n(&pasta_regions.state, __ATOMIC_ACQUIRE) != PASTA_ON || pasta_busy) return;
    pasta_busy = 1;
    pasta_put_all(0);
    pasta_busy = 0;
}

#ifdef __cplusplus
}
#endif

#else

static inline void pasta_begin(const char *name) { (void)name; }
static inline void pasta_end(void) {}
static inline void pasta_flush(void) {}

#endif

#ifdef __cplusplus
namespace pasta {

/* A region for as long as the object lives. */
class [[nodiscard]] region {
  public:
    explicit region(const char *name) { pasta_begin(name); }
    ~region() { pasta_end(); }
    region(const region &) = delete;
    region &operator=(const region &) = delete;
};

} // namespace pasta
#endif

#endif
