/* Does to Lives what stdin says, and prints the objects that each look-up finds.
 *
 *     a ADDRESS BYTES ID NOW | r ADDRESS NOW | f MOMENT | q BEGIN END MOMENT */
#include "../../../pasta/collect/native/memory_objects.h"

#include <iostream>

using namespace pasta;

int main() {
    Lives lives;
    char what;
    uint64_t address, end, id, now;
    while (std::cin >> what) {
        if (what == 'a') {
            std::cin >> address >> end >> id >> now;
            lives.allocate(address, end, id, now, 7, 1);
        } else if (what == 'r') {
            std::cin >> address >> now;
            lives.release(address, now);
        } else if (what == 'f') {
            std::cin >> now;
            lives.forget(now);
        } else {
            std::cin >> address >> end >> now;
            lives.each(address, end, now, [](const Life &life) { std::cout << life.id << ' '; });
            std::cout << '\n';
        }
    }
    return 0;
}
