/* Rows of `frame` for native stacks. For one thread at a time, which is none that is recorded. */
#ifndef PASTA_STACK_ROWS_H
#define PASTA_STACK_ROWS_H

#include "code_names.h"
#include "native_stacks.h"
#include "table_writer.h"

namespace pasta {

class StackRows {
  public:
    explicit StackRows(NativeStacks &of) : stacks(of) {}

    /* Add what is new; tell `count_loss` (reason, count) what is not known. */
    template <class CountLoss> void add(Ring &ring, CountLoss count_loss) {
        for (const NativeStacks::Stack &stack : stacks.take()) {
            auto depth = static_cast<int32_t>(stack.calls.size());
            for (uintptr_t call : stack.calls) {
                const CodeName &code = names.of(call);
                frames.add(ring, stack.id, --depth, ring.text_id(code.function), ring.text_id(""), 0, ring.text_id("c++"), ring.text_id(code.library));
            }
        }
        NativeStacks::Lost lost = stacks.take_lost();
        if (lost.unwalked) count_loss("native call stacks that could not be walked out of the driver: not recorded", lost.unwalked);
        if (lost.too_deep) count_loss("native call stacks of more than 256 frames: the outermost frames are left out", lost.too_deep);
        if (lost.too_many) count_loss("native call stacks beyond the first 65536 different ones: not recorded", lost.too_many);
    }

    void write(Ring &ring) { frames.write(ring); }

  private:
    NativeStacks &stacks;
    CodeNames names;
    Table<uint64_t, int32_t, uint32_t, uint32_t, int32_t, uint32_t, uint32_t> frames{
        "frame", "stack_id", "depth", "function_text", "file_text", "line", "language_text", "library_text"};
};

} // namespace pasta

#endif
