/* A small program that counts words: what pictures of tools on samples and threads show.
   A reader fetches pages slowly, two workers count the words of each, and the main thread waits for all. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

enum { PAGES = 30, WORDS = 150000, ROOM = 2, WORKERS = 2, COUNTERS = 1 << 12 };

struct page {
  uint32_t words[WORDS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct page *queue[ROOM];
static int queued, fetched;
static uint64_t counts[COUNTERS];

__attribute__((noinline)) static void wait_for_disk(void) {
  usleep(12000);
  __asm__ volatile("");
}

__attribute__((noinline)) static struct page *fetch(unsigned number) {
  struct page *page = malloc(sizeof *page);
  wait_for_disk();
  for (int at = 0; at < WORDS; at++) page->words[at] = rand_r(&number);
  return page;
}

__attribute__((noinline)) static void put(struct page *page) {
  pthread_mutex_lock(&lock);
  while (queued == ROOM) pthread_cond_wait(&changed, &lock);
  queue[queued++] = page;
  fetched++;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}

__attribute__((noinline)) static struct page *take(void) {
  pthread_mutex_lock(&lock);
  while (queued == 0 && fetched < PAGES) pthread_cond_wait(&changed, &lock);
  struct page *page = queued ? queue[--queued] : 0;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  return page;
}

__attribute__((noinline)) static uint32_t stem(uint32_t word) {
  for (int letter = 0; letter < 24; letter++) word = (word ^ (word >> 7)) * 0x9E3779B1u;
  return word;
}

__attribute__((noinline)) static void count(const struct page *page) {
  uint64_t own[COUNTERS] = {0};
  for (int at = 0; at < WORDS; at++) own[stem(page->words[at]) % COUNTERS]++;
  pthread_mutex_lock(&lock);
  for (int at = 0; at < COUNTERS; at++) counts[at] += own[at];
  pthread_mutex_unlock(&lock);
}

static void *read_pages(void *unused) {
  pthread_setname_np(pthread_self(), "reader");
  for (unsigned number = 0; number < PAGES; number++) put(fetch(number));
  return unused;
}

static void *work(void *unused) {
  pthread_setname_np(pthread_self(), "worker");
  for (struct page *page; (page = take());) {
    count(page);
    free(page);
  }
  return unused;
}

int main(void) {
  pthread_t threads[WORKERS + 1];
  pthread_create(&threads[WORKERS], 0, read_pages, 0);
  for (int worker = 0; worker < WORKERS; worker++) pthread_create(&threads[worker], 0, work, 0);
  for (int each = 0; each <= WORKERS; each++) pthread_join(threads[each], 0);
  usleep(300000); /* who watches it reads its names while it lives */
  return 0;
}
