/* Heap bugs of C++, by name; bugs.py has the list. Every toolkit of run.py has them behind a function of its own. */
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace cpp_bugs {

struct alignas(64) Wide {
    char bytes[64];
};

/* What the optimiser knows nothing of, so that it leaves pairs of new and delete alone. */
template <class T> T *kept(T *block) {
    asm volatile("" : "+r"(block) : : "memory");
    return block;
}

inline void nothing_wrong() {
    std::map<std::string, std::vector<double>> tables;
    for (int number = 0; number < 200; number++)
        tables[std::to_string(number)].resize(number);
    std::vector<Wide> wide(10);
    auto shared = std::make_shared<Wide>();
    delete kept(new Wide);
    delete[] kept(new Wide[3]);
    delete kept(new (std::nothrow) int);
    delete[] kept(new (std::nothrow) std::string[3]);
    delete kept(static_cast<int *>(nullptr));
    operator delete(kept(operator new(0)));
    try {
        throw std::runtime_error(std::string(100, 'x'));
    } catch (const std::exception &) {
    }
    if (kept(new (std::nothrow) char[(size_t)1 << 60]))
        throw std::logic_error("so much memory");
    try {
        kept(new char[(size_t)1 << 60]);
        throw std::logic_error("so much memory");
    } catch (const std::bad_alloc &) {
    }
}

/* Returns false if the name is not known. */
inline bool make(const std::string &name) {
    if (name == "array-deleted")
        operator delete(kept(new int[10]));
    else if (name == "deleted-as-array")
        operator delete[](kept(new int));
    else if (name == "new-freed")
        free(kept(new int));
    else if (name == "array-freed")
        free(kept(new int[10]));
    else if (name == "malloc-deleted")
        operator delete(kept(malloc(40)));
    else if (name == "malloc-deleted-as-array")
        operator delete[](kept(malloc(40)));
    else if (name == "strdup-deleted")
        delete[] kept(strdup("some text of malloc"));
    else if (name == "vector-freed")
        free((new std::vector<double>(100))->data());
    else if (name == "new-resized")
        free(realloc(kept(new int[10]), 100));
    else if (name == "aligned-deleted-plainly")
        operator delete(static_cast<void *>(kept(new Wide)));
    else if (name == "over-new") {
        char *block = kept(new char[40]);
        kept(block)[40] = 1;
        delete[] block;
    } else if (name == "over-vector") {
        std::vector<int> numbers(10);
        kept(numbers.data())[10] = 1;
    } else if (name == "read-new") {
        volatile char *block = kept(new char[48]);
        (void)block[48];
        delete[] block;
    } else if (name == "write-deleted") {
        int *block = kept(new int[10]);
        delete[] block;
        kept(block)[2] = 1;
    } else if (name == "read-deleted") {
        volatile int *block = kept(new int[10]);
        delete[] block;
        (void)kept(block)[2];
    } else if (name == "deleted-twice") {
        int *block = kept(new int);
        delete block;
        delete kept(block);
    } else if (name == "lost-new")
        kept(new char[40]);
    else if (name == "lost-vector")
        kept(new std::vector<double>(100));
    else if (name == "nothing-wrong")
        nothing_wrong();
    else
        return false;
    return true;
}

} // namespace cpp_bugs
