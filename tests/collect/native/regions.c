/* Marks regions in the ways that its argument names, and says what it saw of their times:
 * thread, name, least and greatest duration of each region, by clocks read around its ends. */
#include <pasta.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ll + time.tv_nsec;
}

static long long least = 0; /* something to do */

static void nested(int depth, int width) {
    char name[32];
    snprintf(name, sizeof(name), "level %d", depth);
    long long before = now();
    pasta_begin(name);
    long long began = now();
    memset(name, 'x', sizeof(name) - 1); /* the name was data of that moment */
    for (int turn = 0; turn < 2000; ++turn) __atomic_fetch_add(&least, turn, __ATOMIC_RELAXED);
    for (int child = 0; child < width && depth < 4; ++child) nested(depth + 1, width);
    long long ending = now();
    pasta_end();
    printf("%ld\tlevel %d\t%lld\t%lld\n", (long)syscall(SYS_gettid), depth, ending - began, now() - before);
}

static void *in_thread(void *width) {
    nested(0, *(int *)width);
    return NULL;
}

static void *leaves_open(void *name) {
    pasta_begin((const char *)name);
    return NULL;
}

static void *never_ends(void *ready) {
    pasta_begin("waits");
    pasta_begin("ended");
    pasta_end();
    __atomic_store_n((int *)ready, 1, __ATOMIC_RELEASE);
    pause();
    return NULL;
}

static void on_signal(int signal) {
    (void)signal;
    pasta_begin("handler");
    pasta_end();
}

static void threads(void) {
    pthread_t all[8];
    int widths[8];
    for (int index = 0; index < 8; ++index) {
        widths[index] = 1 + index % 3;
        pthread_create(&all[index], NULL, &in_thread, &widths[index]);
    }
    nested(0, 2);
    for (int index = 0; index < 8; ++index) pthread_join(all[index], NULL);
}

static void left_open(void) {
    pthread_t thread;
    int ready = 0;
    char name[] = "of a thread";
    pasta_begin("of main");
    pthread_create(&thread, NULL, &leaves_open, name);
    pthread_join(thread, NULL);
    pthread_create(&thread, NULL, &never_ends, &ready);
    while (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE)) usleep(100);
    exit(3);
}

static void forked(void) {
    pasta_begin("parent");
    pasta_begin("before");
    pasta_end();
    for (int child = 0; child < 2; ++child) {
        if (fork()) continue;
        pasta_begin("child");
        pasta_end();
        pasta_end(); /* of "parent", which is the parent's */
        pasta_begin("outermost");
        pasta_end();
        if (child == 0) exit(0);
        pasta_flush();
        _exit(0);
    }
    while (wait(NULL) > 0) {}
    pasta_end();
}

static void names(void) {
    static char text[6001];
    memset(text, 'n', 6000);
    pasta_begin(text);
    pasta_end();
    pasta_begin("a\xff" "b\xed\xa0\x80" "c");
    pasta_end();
    pasta_begin("gr\xc3\xb6\xc3\x9f" "e \xf0\x9f\x8d\x9d");
    pasta_end();
    pasta_begin("");
    pasta_end();
    pasta_begin("'; drop\ttable\n\"%s%n");
    pasta_end();
    pasta_begin(NULL);
    pasta_end();
}

static void unbalanced(void) {
    pasta_end();
    pasta_end();
    for (int depth = 0; depth < 300; ++depth) pasta_begin("deep");
    for (int depth = 0; depth < 300; ++depth) pasta_end();
    pasta_begin("after");
    pasta_end();
}

static void many(void) {
    char name[32];
    for (int index = 0; index < 20000; ++index) {
        snprintf(name, sizeof(name), "name %d", index % 5000);
        pasta_begin(name);
        pasta_end();
    }
}

static void interrupted(void) {
    struct itimerspec often = {{0, 50000}, {0, 50000}};
    timer_t timer;
    signal(SIGALRM, &on_signal);
    timer_create(CLOCK_MONOTONIC, NULL, &timer);
    timer_settime(timer, 0, &often, NULL);
    for (int index = 0; index < 20000; ++index) {
        pasta_begin("work");
        pasta_end();
    }
    timer_delete(timer);
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    if (!strcmp(what, "nested")) nested(0, 3);
    if (!strcmp(what, "threads")) threads();
    if (!strcmp(what, "open")) left_open();
    if (!strcmp(what, "fork")) forked();
    if (!strcmp(what, "names")) names();
    if (!strcmp(what, "unbalanced")) unbalanced();
    if (!strcmp(what, "many")) many();
    if (!strcmp(what, "interrupted")) interrupted();
    if (!strcmp(what, "killed")) {
        pasta_begin("kept");
        pasta_end();
        pasta_flush();
        pasta_begin("open");
        raise(SIGKILL);
    }
    if (!strcmp(what, "exec")) {
        pasta_begin("first program");
        pasta_end();
        pasta_flush();
        execl(arguments[0], arguments[0], "names", (char *)NULL);
    }
    return 0;
}
