/* Rows of tables, gathered column by column by one thread at a time, on their way into a ring. */
#ifndef PASTA_TABLE_WRITER_H
#define PASTA_TABLE_WRITER_H

#include "interned.h"
#include "pasta_channel.h"

#include <string_view>
#include <vector>

namespace pasta {

/* A ring, and the texts that it has met. For one thread at a time. */
class Ring {
  public:
    Interned text;

    /* `patience`: for how many ns a full ring is waited for, beyond what the channel asks of everybody. */
    Ring(const char *folder, int32_t rank, uint64_t its_patience = 0) : patience(its_patience) {
        failed = pasta_ring_open(&ring, folder, rank);
    }
    ~Ring() { pasta_ring_close(&ring); }
    Ring(const Ring &) = delete;
    Ring &operator=(const Ring &) = delete;

    int error() const { return failed; }

    size_t slot_bytes() const { return ring.header ? ring.header->slot_bytes : 0; }

    bool of_this_process() const { return ring.pid == getpid(); }

    uint32_t text_id(std::string_view value) {
        return text.id({clean(value, slot_bytes() / 4)});
    }

    /* Of why something was lost, which is told also where there is no room for names. */
    uint32_t reason_id(std::string_view value) { return text.id({clean(value, slot_bytes() / 4)}, true); }

    int table(const char *name) const { return pasta_find_table(&ring, name); }
    int column(int table, const char *name) const { return pasta_find_column(&ring, table, name); }

    void write(int table, const std::vector<pasta_column> &columns, size_t rows) {
        wait_for_room();
        write_texts();
        pasta_write(&ring, table, columns.data(), columns.size(), rows);
    }

  private:
    pasta_ring ring;
    const uint64_t patience;
    int failed;

    bool has_room() const {
        uint64_t released = __atomic_load_n(&ring.header->released, __ATOMIC_ACQUIRE);
        return ring.next - released + 2 < ring.header->slots;
    }

    void wait_for_room() const {
        if (!patience || !ring.header || ring.header->slots == 0) return;
        uint64_t give_up = pasta_clock(CLOCK_MONOTONIC) + patience;
        while (!has_room() && !__atomic_load_n(&ring.header->closed, __ATOMIC_RELAXED) && pasta_clock(CLOCK_MONOTONIC) < give_up)
            usleep(200);
    }

    uint64_t dropped() const { return ring.header ? ring.header->full_rows + ring.header->large_rows : ring.unplaced_rows; }

    /* Texts for which there is no room go on waiting: rows to come may name them too. */
    void write_texts() {
        Interned::Pending pending = text.take();
        if (pending.lists.empty()) return;
        if (ring.header && !pasta_wait_for_slot(&ring)) return text.put_back(std::move(pending));
        std::vector<uint32_t> ids;
        std::vector<int32_t> ends{0};
        std::string bytes;
        for (const TextList &list : pending.lists) {
            ids.push_back(pending.first + static_cast<uint32_t>(ids.size()));
            bytes += list.front();
            ends.push_back(static_cast<int32_t>(bytes.size()));
        }
        int named = table("text");
        const pasta_column columns[] = {
            {column(named, "id"), ids.data(), nullptr, nullptr, nullptr},
            {column(named, "text"), bytes.data(), ends.data(), nullptr, nullptr},
        };
        uint64_t before = dropped();
        pasta_write(&ring, named, columns, 2, ids.size());
        if (dropped() != before) text.put_back(std::move(pending));
    }
};

/* A column of numbers that may be null. */
template <class Number> class Column {
  public:
    explicit Column(const char *column_name) : name(column_name) {}

    void add(Number value, bool known = true) {
        values.push_back(value);
        valid.push_back(known);
        nulls |= !known;
    }

  private:
    template <class...> friend class Table;
    const char *name;
    std::vector<Number> values;
    std::vector<uint8_t> valid;
    bool nulls = false;
};

/* The columns of one table. Rows are appended by giving every column a value, and written when
 * there are MOST_ROWS of them and one more comes, or on demand. */
template <class... Numbers> class Table {
  public:
    static constexpr size_t MOST_ROWS = 2048;

    template <class... Names>
    explicit Table(const char *table_name, Names... names) : name(table_name), columns(Column<Numbers>(names)...) {
        static_assert(sizeof...(Names) == sizeof...(Numbers), "a name for each column");
    }

    void add(Ring &ring, Numbers... values) {
        if (rows == MOST_ROWS) write(ring);
        std::apply([&](auto &...each) { (each.add(values), ...); }, columns);
        ++rows;
    }

    /* Make the value of the column at `index` in the last row null. */
    template <size_t index> void set_null() {
        auto &column = std::get<index>(columns);
        column.valid.back() = 0;
        column.nulls = true;
    }

    void write(Ring &ring) {
        if (!rows) return;
        int table = ring.table(name);
        std::vector<pasta_column> written;
        std::apply([&](auto &...each) { (append(ring, table, each, written), ...); }, columns);
        ring.write(table, written, rows);
        std::apply([](auto &...each) { (clear(each), ...); }, columns);
        rows = 0;
    }

  private:
    const char *name;
    std::tuple<Column<Numbers>...> columns;
    size_t rows = 0;

    template <class Number>
    static void append(Ring &ring, int table, Column<Number> &column, std::vector<pasta_column> &to) {
        int found = ring.column(table, column.name);
        if (found >= 0)
            to.push_back({found, column.values.data(), nullptr, nullptr,
                          column.nulls ? column.valid.data() : nullptr});
    }

    template <class Number> static void clear(Column<Number> &column) {
        column.values.clear();
        column.valid.clear();
        column.nulls = false;
    }
};

} // namespace pasta

#endif
