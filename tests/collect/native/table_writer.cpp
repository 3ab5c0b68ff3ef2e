/* Writes a few thousand rows with nulls and texts, for the tests of table_writer.h and settings.h. */
#include "../../../pasta/collect/native/settings.h"
#include "../../../pasta/collect/native/table_writer.h"

#include <cstdio>

int main(int count, char **arguments) {
    if (count != 3) return 2;
    pasta::Ring ring(arguments[1], pasta::environment_rank());
    if (ring.error()) return 1;
    pasta::Table<int32_t, int64_t, int64_t, uint64_t, uint32_t> copies{
        "copy", "device", "ts", "dur", "correlation", "kind_text"};
    const long rows = std::atol(arguments[2]);
    for (long row = 0; row < rows; ++row) {
        copies.add(ring, static_cast<int32_t>(row % 3), 1000 + row, row, static_cast<uint64_t>(row) << 40,
                   ring.text_id(row % 2 ? "HtoD" : "Gerät \xff"));
        if (row % 5 == 0) copies.set_null<2>();
    }
    copies.write(ring);
    if (std::getenv("STALLED")) { /* nobody reads, while names come in; then somebody does */
        for (int name = 0; name < 40; ++name) {
            copies.add(ring, 0, name, 0, 0, ring.text_id("name " + std::to_string(name)));
            copies.write(ring);
        }
        std::puts("full");
        std::fflush(stdout);
        std::getchar();
        for (int name = 0; name < 40; ++name) copies.add(ring, 1, name, 0, 0, ring.text_id("name " + std::to_string(name)));
        copies.write(ring);
        return 0;
    }
    if (std::getenv("NAMELESS")) { /* more names than there is room for */
        for (int name = 0; name < 40; ++name) ring.text.id({std::string(1 << 20, static_cast<char>('0' + name))});
        ring.text.take();
        copies.add(ring, 0, 0, 0, 0, ring.text_id("a name"));
        copies.add(ring, 0, 1, 0, 0, ring.reason_id("a reason"));
        copies.write(ring);
        std::printf("%llu ", static_cast<unsigned long long>(ring.text.refused));
    }
    const std::string settings = std::getenv("PASTA_COLLECT");
    std::printf("%lld %s %d\n", static_cast<long long>(pasta::json_number(settings, "offset")),
                pasta::json_text(settings, "cuda", "level").value_or("none").c_str(),
                pasta::json_flag(settings, "cuda", "stacks"));
}
