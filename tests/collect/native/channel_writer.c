/* Writes known batches into a channel: channel_writer all|many|counted|fork FOLDER */
#define _GNU_SOURCE
#include "pasta_channel.h"

#include <stdlib.h>
#include <sys/wait.h>

static pasta_ring ring;

static int column(int table, const char *name) { return pasta_find_column(&ring, table, name); }

/* Three rows of every type; the second one is null. */
static int write_all(void) {
    static const char *numbers[] = {"u8",  "u16", "u32", "u64", "i8",
                                    "i16", "i32", "i64", "f32", "f64"};
    static const uint8_t u8[] = {1, 0, 255}, flag[] = {1, 0, 1}, valid[] = {1, 0, 1};
    static const uint16_t u16[] = {1, 0, 65535};
    static const uint32_t u32[] = {1, 0, 4294967295u};
    static const uint64_t u64[] = {1, 0, UINT64_MAX};
    static const int8_t i8[] = {1, 0, -128};
    static const int16_t i16[] = {1, 0, -32768};
    static const int32_t i32[] = {1, 0, INT32_MIN};
    static const int64_t i64[] = {1, 0, INT64_MIN};
    static const float f32[] = {0.5f, 0, -2.0f};
    static const double f64[] = {0.25, 0, -3.0};
    const void *values[] = {u8, u16, u32, u64, i8, i16, i32, i64, f32, f64};
    static const int32_t text[] = {0, 2, 2, 5}, lists[] = {0, 2, 2, 3}, items[] = {0, 3, 3, 5};
    static const int64_t integers[] = {7, -8, 9};
    int table = pasta_find_table(&ring, "all");
    pasta_column columns[14];
    memset(columns, 0, sizeof(columns));
    for (int index = 0; index < 10; ++index) {
        columns[index].column = column(table, numbers[index]);
        columns[index].values = values[index];
    }
    columns[10] = (pasta_column){.column = column(table, "flag"), .values = flag};
    columns[11] = (pasta_column){.column = column(table, "text"), .values = "\xc3\xbc" "abc", .offsets = text};
    columns[12] = (pasta_column){.column = column(table, "texts"), .values = "1x2ab", .offsets = lists, .item_offsets = items};
    columns[13] = (pasta_column){.column = column(table, "integers"), .values = integers, .offsets = lists};
    for (int index = 0; index < 14; ++index) columns[index].valid = valid;
    return pasta_write(&ring, table, columns, 14, 3) || pasta_write(&ring, table, columns, 14, 0);
}

/* 2,000 rows that do not fit into a slot, and among them one that fits into none. */
static int write_many(void) {
    enum { ROWS = 2000, LARGE = 1000, LARGE_BYTES = 9000 };
    static int64_t i64[ROWS];
    static int32_t offsets[ROWS + 1];
    static uint8_t valid[ROWS];
    static char text[ROWS * 8 + LARGE_BYTES];
    for (int row = 0; row < ROWS; ++row) {
        int bytes = row == LARGE ? LARGE_BYTES : row % 8;
        i64[row] = row;
        valid[row] = row % 3 != 0;
        memset(text + offsets[row], 'a' + row % 26, (size_t)bytes);
        offsets[row + 1] = offsets[row] + bytes;
    }
    int table = pasta_find_table(&ring, "all");
    pasta_column columns[] = {
        {.column = column(table, "i64"), .values = i64, .valid = valid},
        {.column = column(table, "text"), .values = text, .offsets = offsets},
    };
    return pasta_write(&ring, table, columns, 2, ROWS);
}

/* Batches that tell by their content which they are, without end. */
static void write_counted(void) {
    int table = pasta_find_table(&ring, "counted");
    uint64_t batches[40];
    int64_t rows[40];
    char text[40 * 20];
    int32_t offsets[41] = {0};
    for (uint64_t batch = 0;; ++batch) {
        char number[21];
        int count = (int)(batch * 7919 % 40), digits = snprintf(number, sizeof(number), "%llu", (unsigned long long)batch);
        for (int row = 0; row < count; ++row) {
            batches[row] = batch;
            rows[row] = row;
            memcpy(text + offsets[row], number, (size_t)digits);
            offsets[row + 1] = offsets[row] + digits;
        }
        pasta_column columns[] = {
            {.column = column(table, "batch"), .values = batches},
            {.column = column(table, "row"), .values = rows},
            {.column = column(table, "text"), .values = text, .offsets = offsets},
        };
        pasta_write(&ring, table, columns, 3, (uint64_t)count);
    }
}

/* A child must not write into the ring of its parent. */
static int write_forked(void) {
    int table = pasta_find_table(&ring, "all");
    int64_t value = 1;
    pasta_column columns[] = {{.column = column(table, "i64"), .values = &value}};
    if (fork() == 0) {
        int refused = pasta_write(&ring, table, columns, 1, 1) == ENOTCONN && ring.unplaced_rows == 1;
        pasta_ring_close(&ring);
        value = 2;
        _exit(!refused || pasta_ring_open(&ring, getenv("CHANNEL"), 1) || pasta_write(&ring, table, columns, 1, 1));
    }
    int status = 1;
    wait(&status);
    return status || pasta_write(&ring, table, columns, 1, 1);
}

int main(int count, char **arguments) {
    if (count < 3 || setenv("CHANNEL", arguments[2], 1)) return 2;
    if (pasta_ring_open(&ring, arguments[2], 5)) {
        pasta_column none = {.column = 0};
        return pasta_write(&ring, 0, &none, 1, 4) == ENOTCONN && ring.unplaced_rows == 4 ? 42 : 3;
    }
    int failed = 0;
    if (!strcmp(arguments[1], "all")) failed = write_all();
    if (!strcmp(arguments[1], "many")) failed = write_many();
    if (!strcmp(arguments[1], "fork")) failed = write_forked();
    if (!strcmp(arguments[1], "counted")) write_counted();
    pasta_column unknown = {.column = column(0, "nothing")};
    if (pasta_find_table(&ring, "nothing") != -1 || pasta_write(&ring, 0, &unknown, 1, 1) != EINVAL) return 4;
    pasta_ring_close(&ring);
    return failed;
}
