/* Regions of a C program with threads: each worker factors its share and solves it in parts.
 *
 *     cc -O2 -I"$(pasta include)" regions.c -o regions -pthread
 *     pasta collect -o t -- ./regions
 */
#include <pasta.h>

#include <pthread.h>
#include <stdio.h>
#include <time.h>

enum { WORKERS = 3, PARTS = 4 };

static void work(long milliseconds) {
    struct timespec pause = {0, milliseconds * 1000000};
    nanosleep(&pause, NULL);
}

static void *worker(void *number) {
    char name[32];
    snprintf(name, sizeof(name), "worker %d", *(int *)number);
    pasta_begin(name);
    pasta_begin("factor");
    work(4);
    pasta_end();
    for (int part = 0; part < PARTS; ++part) {
        pasta_begin("solve");
        work(1);
        pasta_begin("solve"); /* one that calls itself */
        work(2);
        pasta_end();
        pasta_end();
    }
    pasta_end();
    return NULL;
}

int main(void) {
    pthread_t threads[WORKERS];
    int numbers[WORKERS];
    pasta_begin("main");
    for (int index = 0; index < WORKERS; ++index) {
        numbers[index] = index;
        pthread_create(&threads[index], NULL, &worker, &numbers[index]);
    }
    for (int index = 0; index < WORKERS; ++index) pthread_join(threads[index], NULL);
    pasta_end();
    puts("solved");
    return 0;
}
