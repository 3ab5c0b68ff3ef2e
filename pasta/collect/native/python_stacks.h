/* The Python stack of the calling thread, under the id that the session in the program has for it.
 *
 * Python's functions are looked up by name, so that no header of Python is needed and any Python
 * will do. What an id stands for only Python knows (pasta/collect/target/stacks.py): it is asked
 * once for each stack. */
#ifndef PASTA_PYTHON_STACKS_H
#define PASTA_PYTHON_STACKS_H

#include "interned.h"

#include <dlfcn.h>

#include <atomic>
#include <functional>

namespace pasta {

class PythonStacks {
  public:
    using Object = void; /* Python's PyObject */

    /* Ask `callable` for the id of the stack that ends in a frame; null: ask no more. Where it is
     * called, Python's lock is held and the callable lives until the next call. */
    void ask(Object *callable) {
        ids.clear();
        asked = callable;
        wanted.store(callable && python.load());
    }

    bool are_wanted() const { return wanted.load(std::memory_order_relaxed); }

    /* 0: the thread runs no Python, or the stack is not known.
     *
     * Takes Python's lock. A thread that has none of Python's states never does, nor one of a
     * Python that ends: whoever called us from Python wants the lock after us anyway. */
    uint64_t here() {
        if (!python.state_of_thread() || !python.is_initialized() || python.is_finalizing()) return 0;
        Lock lock(python);
        Object *innermost = python.frame();
        return asked && innermost ? id_of(innermost) : 0;
    }

  private:
    static constexpr size_t DEEPEST = 256; /* as in stacks.py */

    struct Python {
        Object *(*state_of_thread)();
        int (*is_initialized)(), (*is_finalizing)();
        int (*ensure)();
        void (*release)(int);
        Object *(*frame)(); /* borrowed */
        Object *(*back)(Object *), *(*code)(Object *);
        int (*instruction)(Object *);
        void (*let_go)(Object *);
        Object *(*call)(Object *, ...);
        unsigned long long (*number)(Object *);
        void (*take_error)(Object **, Object **, Object **), (*give_error)(Object *, Object *, Object *);

        bool load() {
            bool found = find("PyGILState_GetThisThreadState", state_of_thread) && find("Py_IsInitialized", is_initialized) &&
                         find("PyGILState_Ensure", ensure) && find("PyGILState_Release", release) && find("PyEval_GetFrame", frame) &&
                         find("PyFrame_GetBack", back) && find("PyFrame_GetCode", code) && find("PyFrame_GetLasti", instruction) &&
                         find("Py_DecRef", let_go) && find("PyObject_CallFunctionObjArgs", call) &&
                         find("PyLong_AsUnsignedLongLong", number) && find("PyErr_Fetch", take_error) && find("PyErr_Restore", give_error);
            return found && (find("Py_IsFinalizing", is_finalizing) || find("_Py_IsFinalizing", is_finalizing));
        }

        template <class Function> static bool find(const char *name, Function &function) {
            return (function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name)));
        }
    };

    struct Lock {
        const Python &python;
        const int before;
        explicit Lock(const Python &of) : python(of), before(of.ensure()) {}
        ~Lock() { python.release(before); }
        Lock(const Lock &) = delete;
    };

    struct Hash {
        using is_transparent = void;
        size_t operator()(std::string_view key) const { return hash_bytes(key.data(), key.size()); }
    };

    Python python{};
    std::atomic<bool> wanted{false};
    Object *asked = nullptr; /* this and the next are for whoever has Python's lock */
    std::unordered_map<std::string, uint64_t, Hash, std::equal_to<>> ids;

    /* The callable keeps the codes of all stacks that have an id, so that an address is one code's. */
    uint64_t id_of(Object *innermost) {
        uint64_t places[2 * DEEPEST];
        size_t count = 0;
        for (Object *frame = innermost, *outer; frame; frame = outer) {
            Object *code = python.code(frame);
            places[count++] = reinterpret_cast<uintptr_t>(code);
            places[count++] = static_cast<uint64_t>(python.instruction(frame));
            python.let_go(code);
            outer = count < 2 * DEEPEST ? python.back(frame) : nullptr;
            if (frame != innermost) python.let_go(frame);
        }
        std::string_view key(reinterpret_cast<const char *>(places), count * sizeof(*places));
        if (auto known = ids.find(key); known != ids.end()) return known->second;
        uint64_t fresh = ask_for(innermost);
        if (fresh) ids.emplace(key, fresh);
        return fresh;
    }

    /* An exception that the program has raised is kept apart. */
    uint64_t ask_for(Object *innermost) {
        Object *error[3], *none[3];
        python.take_error(&error[0], &error[1], &error[2]);
        Object *answer = python.call(asked, innermost, nullptr);
        uint64_t id = answer ? python.number(answer) : 0;
        if (answer) python.let_go(answer);
        python.take_error(&none[0], &none[1], &none[2]);
        for (Object *each : none)
            if (each) python.let_go(each);
        python.give_error(error[0], error[1], error[2]);
        return id == ~0ull ? 0 : id;
    }
};

} // namespace pasta

#endif
