/* Loads the collector as CUDA would, and launches: COLLECTOR FAKE_CUPTI LAUNCHES PAUSE_MS AT_LAUNCH. */
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

template <class Function> static Function *find(void *library, const char *name) {
    auto *function = reinterpret_cast<Function *>(dlsym(library, name));
    if (!function) std::exit(3);
    return function;
}

int main(int count, char **arguments) {
    if (count != 6) return 2;
    void *fake = dlopen(arguments[2], RTLD_NOW | RTLD_GLOBAL);
    if (find<int()>(dlopen(arguments[1], RTLD_NOW), "InitializeInjection")() != 1) return 1;
    find<void()>(fake, "fake_context")();
    auto *launch = find<void()>(fake, "fake_launch");
    for (int made = 0; made < std::atoi(arguments[3]); ++made) {
        if (made == std::atoi(arguments[5])) std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(arguments[4])));
        launch();
    }
    if (pid_t child = fork()) waitpid(child, nullptr, 0);
}
