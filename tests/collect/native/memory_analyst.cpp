/* Stands for a GPU: a launch is given a place, leaves marks there as patches would, and is drained.
 *
 *     memory_analyst CHANNEL objects|whole|whole mapped loads|tallies|mapped loads|mapped stores|mapped both|moving|stuck|polling
 *
 * With the last three, launches hold all banks: for 0.3 s, while records are read (`moving`) or not, or for good, while
 * records are read (`polling`). The exit status tells whether the next launch had a place (0) or not (5), and of one that had
 * none whether the launch after it was waited for (6).
 *
 * Compute Sanitizer's calls are stand-ins on memory of the host. The rows go to the channel. */
#include "../../../pasta/collect/native/memory_analyst.h"

#include <cstdlib>
#include <cstring>

using namespace pasta;

namespace {

constexpr uint64_t PAGE = 0x7F0000000000; /* begins a page */

void stand_in(SanitizerLibrary &library) {
    library.allocate = [](CUcontext, void **made, size_t bytes) { return *made = std::calloc(1, bytes), SANITIZER_SUCCESS; };
    library.allocate_host = library.allocate;
    library.release = [](CUcontext, void *memory) { return std::free(memory), SANITIZER_SUCCESS; };
    library.copy_to_device = [](void *to, void *from, size_t bytes, Sanitizer_StreamHandle) {
        return std::memcpy(to, from, bytes), SANITIZER_SUCCESS;
    };
    library.copy_to_host = library.copy_to_device;
    library.set_memory = [](void *to, int value, size_t bytes, Sanitizer_StreamHandle) {
        return std::memset(to, value, bytes), SANITIZER_SUCCESS;
    };
    library.synchronize = [](Sanitizer_StreamHandle) { return SANITIZER_SUCCESS; };
    library.result_string = [](SanitizerResult, const char **text) { return *text = "failed", SANITIZER_SUCCESS; };
}

/* What patches do, one granule at a time. */
struct Device {
    Slot &slot;
    bool counts;

    uint32_t *leaf(uint32_t page) {
        if (slot.pages[page] == UNTOUCHED) {
            uint32_t number = slot.bank->leaves++;
            slot.pages[page] = number + LEAF;
            slot.leaves[number * slot.leaf_words] = slot.id;
            slot.leaves[number * slot.leaf_words + 1] = page;
        }
        return slot.leaves + (slot.pages[page] - LEAF) * slot.leaf_words + OWNER_WORDS;
    }

    void access(uint32_t page, uint64_t offset, Kind kind, uint32_t times) {
        uint32_t granule = static_cast<uint32_t>(offset >> slot.granule_shift);
        uint32_t marks = kind == READ ? MARK_READ : kind == WRITE ? MARK_WRITTEN : MARK_READ | MARK_WRITTEN;
        slot.totals->global[granule % SHARDS][kind][2] += times;
        leaf(page)[granule / GRANULES_OF_WORD] |= marks << granule % GRANULES_OF_WORD * 2;
        if (counts) leaf(page)[mark_words(slot.granule_shift) + granule * KINDS + kind] += times;
    }

    void tally(uint32_t place, uint32_t event, uint64_t offset, uint64_t count) {
        slot.tallies[place] = {tally_key(slot.id, event, offset), count};
    }
};

void objects(Device device) {
    device.access(0, 0, READ, 5);           /* first object */
    device.access(0, 1024, WRITE, 3);       /* its last 476 bytes, and 36 beyond */
    device.access(0, 66 * 512, ATOMIC, 2);  /* no object */
    device.access(0, 1 << 20, READ, 7);     /* second object, first tensor */
    device.access(1, 64 << 10, WRITE, 11);  /* second object, no tensor */
    device.access(1, 128 << 10, READ, 1);   /* was released, and is again part of nothing */
    Totals &totals = *device.slot.totals;
    totals.near[SHARED][WRITE][3] = 13;
    totals.global[0][READ][OTHER_SIZE] = 1;
    totals.other_bytes[GLOBAL][READ] = 4096;
    totals.unknown[READ] = 17;
    totals.unsized_tensor_loads = 2;
}

void whole_pages(Device device) {
    device.access(0, 0, READ, 5);
    device.slot.pages[1] = WHOLE_PAGE | MARK_WRITTEN;
    device.slot.totals->without_leaf = 1;
    device.slot.bank->leaves = device.slot.leaf_count + 1;
}

void tallies(Device device) {
    device.tally(3, 1 + WRITE * SIZES + 4, 0x120, 8);
    device.tally(9, 1 + READ * SIZES + OTHER_SIZE, 0x130, 2);
    device.tally(70, BARRIER, 0x140, 256);
    device.tally(71, MATRIX_PRODUCT, 0x150, 4);
    device.slot.bank->tallies_lost = 6;
}

/* A matrix of floats in rows of 256 bytes, of which a copy can touch so many. */
TensorMap matrix(uint64_t address, uint32_t rows, uint32_t bytes_between) {
    TensorMap map{};
    map.words[0] = static_cast<uint32_t>(address);
    map.words[1] = static_cast<uint32_t>(address >> 32);
    map.words[2] = 1 << 4 | 7 << 7;
    map.words[3] = bytes_between >> 4;
    map.words[8] = 256 / 4 - 1;
    map.words[9] = rows - 1;
    return map;
}

/* All of the second object's first tensor and 60 KiB beyond, and three granules of the third object. */
std::shared_ptr<const MappedTensors> mapped(const std::string &what) {
    MappedTensors tensors{{!what.ends_with("mapped stores"), !what.ends_with("mapped loads"), false}, {}};
    tensors.maps = {matrix(PAGE + (1 << 20), 256, 256), matrix(PAGE + PAGE_BYTES, 3, 4096)};
    return std::make_shared<const MappedTensors>(tensors);
}

void tell(MemoryAnalyst &analyst, HostEvent::What what, uint64_t moment, uint64_t address, uint64_t bytes, uint64_t object) {
    HostEvent event{.what = what, .moment = moment, .ts = 100, .tid = 9, .device = 1, .text = "device", .address = address, .bytes = bytes, .object = object};
    analyst.take(event);
}

/* Have a launch in each bank, one bank after the other, and then ask for a place while none of them ends. */
int ask_while_none_ends(MemoryContext &context, const Launch &launch, const std::string &what) {
    std::vector<Place> held;
    int64_t now = 0;
    for (uint32_t bank = 0; bank < MemoryContext::BANKS; ++bank, now += 60'000'000)
        held.push_back(context.take(nullptr, nullptr, now, [] {}));
    const uint64_t end = pasta_clock(CLOCK_MONOTONIC) + 300'000'000;
    Place next = context.take(nullptr, nullptr, now, [&] {
        if (what != "stuck") context.ring_host->tail = context.ring_host->tail + 1;
        if (what != "polling" && pasta_clock(CLOCK_MONOTONIC) > end && !held.empty()) {
            context.launched(held.front(), launch);
            held.clear();
        }
        for (const Drained &drained : context.take_drained()) drained.bank->state = Bank::FREE;
    });
    if (next.bank) return context.not_watched ? 7 : 0;
    bool waited = false;
    context.take(nullptr, nullptr, now, [&] { waited = true; });
    return waited ? 6 : 5;
}

} // namespace

int main(int, char **arguments) {
    const std::string what = arguments[2];
    MemoryOptions options = MemoryOptions::from(std::getenv("PASTA_COLLECT"));
    Sanitizer call;
    stand_in(call.library);
    MemoryRows rows(arguments[1], 0, 0);
    MemoryAnalyst analyst(rows, options);
    MemoryContext context(nullptr, 1, 1, options, call, true);
    context.set_capture_test([](CUstream) { return false; });
    if (!context.make(nullptr)) return 1;
    for (uint64_t page = 0; page < 2; ++page) context.pages.add((PAGE >> PAGE_SHIFT) + page);

    tell(analyst, HostEvent::ALLOCATION, 1, PAGE, 1500, 1);
    tell(analyst, HostEvent::ALLOCATION, 2, PAGE + (1 << 20), 1 << 20, 2);
    tell(analyst, HostEvent::ALLOCATION, 3, PAGE + PAGE_BYTES, 128 << 10, 3);
    tell(analyst, HostEvent::ALLOCATION, 4, PAGE + PAGE_BYTES + (128 << 10), 4096, 4);
    tell(analyst, HostEvent::RELEASE, 5, PAGE + PAGE_BYTES + (128 << 10), 4096, 4);
    tell(analyst, HostEvent::TENSOR, 6, PAGE + (1 << 20), 4096, 1);

    KernelOfLaunch kernel{.name = "kernel"};
    Launch launch{42, 7, 1000, 9, 1, 1, 1, &kernel, {1, 1, 1}, {32, 1, 1}, 0, 0, 0};
    if (what == "moving" || what == "stuck" || what == "polling") return ask_while_none_ends(context, launch, what);
    Place place = context.take(nullptr, nullptr, 0, [] {});
    if (!place.bank) return 2;
    Device device{*const_cast<Slot *>(place.bank->on_device(place.slot)), options.counts};
    if (what.find("mapped") != what.npos) launch.mapped = mapped(what);
    if (what == "objects" || what.starts_with("mapped")) objects(device);
    else if (what.starts_with("whole")) whole_pages(device);
    else tallies(device);
    context.launched(place, launch);
    tell(analyst, HostEvent::RELEASE, 8, PAGE, 1500, 1); /* after the launch: it does not matter */
    if (context.finish(1'000'000'000, [] { return 0ull; })) return 3;
    for (const Drained &drained : context.take_drained()) analyst.take(drained);
    if (!call.failed().empty() || *device.slot.pages != UNTOUCHED || device.slot.totals->unknown[READ]) return 4; /* all is cleared */
    rows.write();
    return 0;
}
