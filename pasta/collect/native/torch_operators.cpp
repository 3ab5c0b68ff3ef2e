/* Operators and memory of PyTorch, as rows of the channel: the native hook of level `operators`.
 *
 * Built against the PyTorch of the recorded program by pasta/collect/target/torch/native.py, which
 * calls what is extern "C" below. No Python is needed here, and its lock only where Python stacks
 * are asked for. */
#include "python_stacks.h"
#include "row_writer.h"
#include "torch_memory.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <dlfcn.h>

#include <cctype>
#include <cstdlib>

namespace pasta {
namespace {

constexpr uint64_t SAMPLE_EVERY = 64; /* so many events share one look at what they cost */

/* What is not null is recording. */
std::atomic<RowWriter *> recording{nullptr};
PythonStacks &python_stacks = *new PythonStacks;
bool with_device_memory;
uint32_t OPERATOR, ANNOTATION, ALLOCATE, RELEASE, TENSOR; /* ids of texts */

thread_local ThreadRows *current = nullptr;
pthread_key_t at_thread_end;

void thread_ends(void *rows) {
    auto *mine = static_cast<ThreadRows *>(rows);
    current = nullptr;
    if (mine->writer == recording.load()) mine->writer->leave(mine);
}

ThreadRows &rows_of_thread(RowWriter *writer) {
    if (C10_UNLIKELY(!current || current->writer != writer)) {
        current = writer->join();
        pthread_setspecific(at_thread_end, current);
    }
    return *current;
}

/* An operator that has begun. Memory is reused, by thread. */
struct Open final : at::ObserverContext {
    RowWriter *writer;
    int64_t ts, tid, sequence, forward_tid;
    uint64_t stack = 0;
    uint32_t level, name;
    Signature signature;

    static thread_local Open *evaluating, *outermost;

    ~Open() override {
        if (evaluating == this) evaluating = nullptr;
        if (outermost == this) outermost = nullptr;
    }

    static void *operator new(size_t bytes) {
        if (!spare) return ::operator new(bytes);
        void *memory = spare;
        spare = *static_cast<void **>(memory);
        return memory;
    }
    static void operator delete(void *memory) {
        *static_cast<void **>(memory) = spare;
        spare = memory;
    }

  private:
    static thread_local void *spare;
};
thread_local Open *Open::evaluating = nullptr;
thread_local Open *Open::outermost = nullptr;
thread_local void *Open::spare = nullptr;

/* Gives access to what a tensor says of its sizes without a call into Python or a subclass. */
struct Sizes : c10::TensorImpl {
    static bool are_plain(const c10::TensorImpl &tensor) {
        return !tensor.has_symbolic_sizes_strides() &&
               !(tensor.*&Sizes::matches_policy)(SizesStridesPolicy::CustomSizes);
    }
};

/* Signatures as numbers: for each argument its kind, and for tensors their type and sizes. */
enum Kind : uint64_t { NO_TENSOR, PLAIN, OPAQUE, LIST };

uint64_t word(Kind kind, uint64_t type, uint64_t count) { return kind | type << 8 | count << 16; }

void encode_tensor(const at::Tensor &tensor, std::vector<uint64_t> &key) {
    if (!tensor.defined()) {
        key.push_back(word(NO_TENSOR, 0, 0));
        return;
    }
    const c10::TensorImpl &inside = *tensor.unsafeGetTensorImpl();
    auto type = static_cast<uint64_t>(c10::typeMetaToScalarType(inside.dtype()));
    if (!Sizes::are_plain(inside)) {
        key.push_back(word(OPAQUE, type, 0));
        return;
    }
    c10::IntArrayRef sizes = inside.sizes();
    key.push_back(word(PLAIN, type, sizes.size()));
    for (int64_t size : sizes) key.push_back(static_cast<uint64_t>(size));
}

void encode_argument(const c10::IValue &value, std::vector<uint64_t> &key) {
    if (value.isTensor()) {
        encode_tensor(value.toTensor(), key);
    } else if (value.isTensorList() || value.isOptionalTensorList()) {
        c10::ArrayRef<c10::IValue> items = value.toListRef();
        key.push_back(word(LIST, 0, items.size()));
        for (const c10::IValue &item : items)
            if (item.isTensor()) encode_tensor(item.toTensor(), key);
            else key.push_back(word(NO_TENSOR, 0, 0));
    } else {
        key.push_back(word(NO_TENSOR, 0, 0));
    }
}

/* The name that Python has for an element type. */
std::string type_name(c10::ScalarType type) {
    switch (type) {
    case c10::ScalarType::Byte: return "uint8";
    case c10::ScalarType::Char: return "int8";
    case c10::ScalarType::Short: return "int16";
    case c10::ScalarType::Int: return "int32";
    case c10::ScalarType::Long: return "int64";
    case c10::ScalarType::Half: return "float16";
    case c10::ScalarType::Float: return "float32";
    case c10::ScalarType::Double: return "float64";
    case c10::ScalarType::ComplexHalf: return "complex32";
    case c10::ScalarType::ComplexFloat: return "complex64";
    case c10::ScalarType::ComplexDouble: return "complex128";
    default: break;
    }
    std::string name = c10::toString(type);
    for (char &letter : name) letter = static_cast<char>(std::tolower(letter));
    return name;
}

/* Append shape and type of the tensor at `next`; return where the next one is. */
const uint64_t *decode_tensor(const uint64_t *next, std::string &shape, std::string &type) {
    uint64_t head = *next++;
    if ((head & 0xFF) == NO_TENSOR) return next;
    type += type_name(static_cast<c10::ScalarType>(head >> 8 & 0xFF));
    for (uint64_t left = head >> 16; left > 0; --left) {
        shape += std::to_string(static_cast<int64_t>(*next++));
        if (left > 1) shape += 'x';
    }
    return next;
}

Signature decode(RowWriter &writer, const std::vector<uint64_t> &key) {
    TextList shapes, types;
    for (const uint64_t *next = key.data(); next < key.data() + key.size();) {
        std::string shape, type;
        if ((*next & 0xFF) == LIST) {
            uint64_t items = *next++ >> 16;
            for (uint64_t item = 0; item < items; ++item) {
                if (item) shape += ';', type += ';';
                next = decode_tensor(next, shape, type);
            }
        } else {
            next = decode_tensor(next, shape, type);
        }
        shapes.push_back(std::move(shape));
        types.push_back(std::move(type));
    }
    uint32_t shapes_id = writer.texts_id(std::move(shapes));
    return {shapes_id, writer.texts_id(std::move(types))};
}

Signature signature_of(RowWriter &writer, ThreadRows &rows, const at::RecordFunction &function) {
    if (function.inputs().empty()) return {};
    rows.key.clear();
    for (const c10::IValue &value : function.inputs()) encode_argument(value, rows.key);
    std::string_view key(reinterpret_cast<const char *>(rows.key.data()),
                         rows.key.size() * sizeof(uint64_t));
    uint64_t hash = hash_bytes(key.data(), key.size());
    if (const Signature *known = rows.signatures.find(key, hash)) return *known;
    Signature fresh = decode(writer, rows.key);
    rows.signatures.add(key, hash, fresh);
    return fresh;
}

uint32_t name_of(RowWriter &writer, ThreadRows &rows, const char *name) {
    std::string_view key(name);
    uint64_t hash = hash_bytes(key.data(), key.size());
    if (const uint32_t *known = rows.names.find(key, hash)) return *known;
    uint32_t fresh = writer.text_id(key);
    rows.names.add(key, hash, fresh);
    return fresh;
}

/* What the engine does for a backward function has the numbers of that function, as in PyTorch's own
 * profiler; they are known only when the function itself begins. */
void pass_numbers(Open &open, const at::RecordFunction &function) {
    static constexpr char EVALUATE[] = "autograd::engine::evaluate_function";
    if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
        if (Open *engine = Open::evaluating; engine && engine->sequence < 0) {
            engine->sequence = open.sequence;
            engine->forward_tid = open.forward_tid;
        }
    } else if (!strncmp(function.name(), EVALUATE, sizeof(EVALUATE) - 1)) {
        Open::evaluating = &open;
    }
}

/* Operators within one of PyTorch's own have its stack, as all is C++ between them; what autograd and
 * operators of others call may well be Python. */
void find_stack(Open &open, const at::RecordFunction &function) {
    if (!python_stacks.are_wanted()) return;
    open.stack = Open::outermost ? Open::outermost->stack : python_stacks.here();
    bool encloses = function.scope() == at::RecordScope::FUNCTION && !strncmp(function.name(), "aten::", 6);
    if (encloses && !Open::outermost) Open::outermost = &open;
}

std::unique_ptr<at::ObserverContext> function_begins(const at::RecordFunction &function) {
    RowWriter *writer = recording.load(std::memory_order_acquire);
    if (!writer) return nullptr;
    ThreadRows &rows = rows_of_thread(writer);
    rows.events.add(1);
    int64_t entered = rows.events.get() % SAMPLE_EVERY ? 0 : writer->clock();
    try {
        if (with_device_memory) DeviceMemory::enter_thread();
        auto open = std::make_unique<Open>();
        bool annotated = function.scope() == at::RecordScope::USER_SCOPE;
        open->writer = writer;
        open->tid = rows.tid;
        open->level = annotated ? ANNOTATION : OPERATOR;
        open->sequence = function.seqNr();
        open->forward_tid = static_cast<int64_t>(function.forwardThreadId());
        open->name = name_of(*writer, rows, function.name());
        open->signature = annotated ? Signature{} : signature_of(*writer, rows, function);
        pass_numbers(*open, function);
        find_stack(*open, function);
        open->ts = writer->clock();
        if (entered)
            rows.sampled_ns.add(static_cast<uint64_t>(open->ts - entered) * SAMPLE_EVERY);
        return open;
    } catch (...) {
        writer->failures.fetch_add(1);
        return nullptr;
    }
}

void append(ThreadRows &rows, const Open &open, int64_t end) {
    if (C10_UNLIKELY(rows.spans.full())) rows.writer->make_room(rows);
    uint32_t at = rows.spans.next();
    SpanColumns &columns = rows.spans.columns;
    columns.tid[at] = open.tid;
    columns.ts[at] = open.ts;
    columns.dur[at] = end - open.ts;
    columns.level[at] = open.level;
    columns.name[at] = open.name;
    columns.sequence[at] = open.sequence;
    columns.has_sequence[at] = open.sequence >= 0;
    columns.forward_tid[at] = open.forward_tid;
    columns.has_forward_tid[at] = open.sequence >= 0 && open.forward_tid > 0;
    columns.shapes[at] = open.signature.shapes;
    columns.types[at] = open.signature.types;
    columns.stack[at] = open.stack;
    rows.spans.publish();
}

/* An asynchronous one may end on another thread than it began on. */
void function_ends(const at::RecordFunction &, at::ObserverContext *context) {
    const auto *open = static_cast<const Open *>(context);
    if (!open) return;
    RowWriter *writer = recording.load(std::memory_order_acquire);
    if (writer != open->writer) return;
    int64_t end = writer->clock();
    ThreadRows &rows = rows_of_thread(writer);
    append(rows, *open, end);
    if (rows.events.get() % SAMPLE_EVERY == 0)
        rows.sampled_ns.add(static_cast<uint64_t>(writer->clock() - end) * SAMPLE_EVERY);
}

/* Tell the memory collector, where one watches this process, of a tensor that comes (bytes > 0) or
 * goes; return the id under which it knows the tensor, 0 where there is none. */
uint64_t memory_collector_id(uint64_t address, int64_t bytes, int device) {
    using Tell = uint64_t (*)(uint64_t, int64_t, int);
    static const auto tell = [] {
        const char *injected = std::getenv("CUDA_INJECTION64_PATH");
        void *library = injected ? dlopen(injected, RTLD_NOW | RTLD_NOLOAD) : nullptr;
        return library ? reinterpret_cast<Tell>(dlsym(library, "pasta_memory_tensor")) : nullptr;
    }();
    return tell ? tell(address, bytes, device) : 0;
}

void append_memory(RowWriter *writer, const void *address, int64_t bytes, int64_t allocated,
                   int64_t reserved, int device) {
    ThreadRows &rows = rows_of_thread(writer);
    if (C10_UNLIKELY(rows.memory.full())) writer->make_room(rows);
    uint32_t at = rows.memory.next();
    MemoryColumns &columns = rows.memory.columns;
    columns.tid[at] = rows.tid;
    columns.ts[at] = writer->clock();
    columns.device[at] = device;
    columns.event[at] = bytes > 0 ? ALLOCATE : RELEASE;
    columns.space[at] = TENSOR;
    columns.address[at] = reinterpret_cast<uintptr_t>(address);
    columns.object[at] = device >= 0 ? memory_collector_id(columns.address[at], bytes, device) : 0;
    columns.bytes[at] = bytes > 0 ? bytes : -bytes;
    columns.total_allocated[at] = allocated;
    columns.total_reserved[at] = reserved;
    rows.memory.publish();
}

void memory_changes(const void *address, int64_t bytes, int64_t allocated, int64_t reserved,
                    int device) noexcept {
    RowWriter *writer = recording.load(std::memory_order_acquire);
    if (!writer || !bytes) return;
    try {
        append_memory(writer, address, bytes, allocated, reserved, device);
    } catch (...) { /* no memory for the queues of this thread */
        writer->failures.fetch_add(1);
    }
}

at::CallbackHandle callback() {
    static const at::CallbackHandle handle = at::addGlobalCallback(
        at::RecordFunctionCallback(&function_begins, &function_ends).needsInputs(true));
    return handle;
}

/* The child has neither the parent's writing thread nor a right to its ring, and its locks may be
 * held by threads that it does not have. */
void child_begins() {
    if (RowWriter *parents = recording.exchange(nullptr)) parents->forget();
    FrontAllocator::blocks.store(nullptr);
    current = nullptr;
    pthread_setspecific(at_thread_end, nullptr);
}

void process_exits() {
    if (RowWriter *writer = recording.load()) writer->flush();
}

bool prepare_process() {
    FrontAllocator::event = &memory_changes;
    return !pthread_key_create(&at_thread_end, &thread_ends) &&
           !pthread_atfork(nullptr, nullptr, &child_begins) && !std::atexit(&process_exits);
}

} // namespace
} // namespace pasta

using namespace pasta;

extern "C" {

/* Record into a ring of the channel in `folder`; return 0 or an errno. For one thread at a time, as
 * all below. */
int pasta_operators_start(const char *folder, int32_t rank, int64_t clock_offset, int device_memory) {
    static const bool prepared = prepare_process();
    if (recording.load()) return EALREADY;
    auto *writer = new RowWriter(folder, rank, clock_offset);
    if (!prepared || writer->error()) return prepared ? writer->error() : ENOMEM;
    OPERATOR = writer->text_id("operator");
    ANNOTATION = writer->text_id("annotation");
    ALLOCATE = writer->text_id("allocate");
    RELEASE = writer->text_id("release");
    TENSOR = writer->text_id("tensor");
    with_device_memory = device_memory;
    writer->start();
    FrontAllocator::paused.store(false);
    FrontAllocator::install();
    FrontAllocator::blocks.store(new Blocks);
    recording.store(writer);
    at::reenableCallback(callback());
    return 0;
}

/* Also for a forked child, in which nothing records: its operators cost no more than without. */
void pasta_operators_pause(void) {
    at::disableCallback(callback());
    FrontAllocator::paused.store(true);
    DeviceMemory::leave_thread();
}

void pasta_operators_resume(void) {
    if (!recording.load()) return;
    FrontAllocator::paused.store(false);
    at::reenableCallback(callback());
}

void pasta_operators_stop(void) {
    RowWriter *writer = recording.load();
    if (!writer) return;
    at::disableCallback(callback());
    FrontAllocator::blocks.store(nullptr);
    DeviceMemory::leave_thread();
    recording.store(nullptr);
    writer->stop();
}

void pasta_operators_flush(void) {
    if (RowWriter *writer = recording.load()) writer->flush();
}

/* Give operators the Python stack that `callable` has a number for; null: give none. For a caller
 * that holds Python's lock. */
void pasta_operators_stacks(void *callable) { python_stacks.ask(callable); }

/* Leave the calling thread to a profiler of the program; the next operator after it comes back. */
void pasta_operators_leave_thread(void) { DeviceMemory::leave_thread(); }

int pasta_operators_counters(uint64_t *values) {
    RowWriter *writer = recording.load();
    if (!writer) return ENOTCONN;
    writer->counters(values);
    return 0;
}
}
