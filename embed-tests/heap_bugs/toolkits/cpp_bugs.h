/* Heap bugs in C++ that pybind11_bugs.cpp and nanobind_bugs.cpp bind. Bytes are volatile: the compiler may neither join nor drop an access. */
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace bugs {

inline volatile char *bytes(void *place) { return static_cast<volatile char *>(place); }
inline void write(void *place, long offset) { bytes(place)[offset] = 'X'; }
inline int read(void *place, long offset) { return bytes(place)[offset]; }

/* What the compiler must not know: that a block of `new` is the one of `delete`. */
template <typename T> T *hidden(T *pointer) {
    T *volatile kept = pointer;
    return kept;
}

struct Node {
    long value = 7;
    Node *next = nullptr;
    char text[40] = {};
};

inline void over_new() {
    auto *node = hidden(new Node);
    write(node, sizeof(Node));
    delete node;
}
inline void over_new_array(long size) {
    auto *block = hidden(new char[size]);
    write(block, size);
    delete[] block;
}
inline void over_vector() {
    std::vector<int> numbers(10);
    write(hidden(numbers.data()), 40);
}
inline void over_string() {
    std::string text(100, 'x');
    text.shrink_to_fit();
    write(hidden(&text[0]), static_cast<long>(text.capacity()) + 1);
}
inline void under_new_array() {
    auto *block = hidden(new char[40]);
    write(block, -1);
    delete[] block;
}
inline int read_vector() {
    std::vector<char> numbers(8000);
    return read(hidden(numbers.data()), 8000);
}
inline int read_new_array() {
    auto *block = hidden(new char[4000]);
    int found = read(block, 4000);
    delete[] block;
    return found;
}
inline void write_moved_vector() {
    std::vector<int> numbers(10);
    int *stale = hidden(numbers.data());
    numbers.resize(1000);
    write(stale, 8);
}
inline void write_deleted() {
    auto *node = hidden(new Node);
    delete node;
    write(node, 16);
}
inline int read_shared() {
    auto owner = std::make_shared<Node>();
    Node *borrowed = hidden(owner.get());
    owner.reset();
    return read(borrowed, 8);
}
inline void twice() {
    auto *node = hidden(new Node);
    Node *again = hidden(node);
    delete node;
    delete again;
}
inline void two_owners() {
    auto *node = hidden(new Node);
    std::unique_ptr<Node> first(node), second(hidden(node));
}
inline void new_freed() { free(hidden(new char[40])); }
inline void malloc_deleted() { delete hidden(static_cast<long *>(malloc(40))); }
inline void array_deleted() { delete hidden(new int[10]); }
inline void one_deleted_as_array() { delete[] hidden(new int); }
inline void vector_freed() {
    std::vector<long> numbers(20);
    free(hidden(numbers.data()));
    new (&numbers) std::vector<long>();
}
inline void inside() {
    auto *block = hidden(new char[400]);
    free(block + 16);
}
inline void lost() { hidden(new Node); }
inline void lost_vector() { hidden(new std::vector<long>(100)); }
inline void lost_ring() {
    auto first = std::make_shared<std::shared_ptr<void>>();
    *first = first;
}
inline void lost_on_an_error() {
    auto *block = hidden(new char[300]);
    write(block, 0);
    throw std::runtime_error("on the way");
}

/* A name, its row, and what makes the bug; those that throw are caught. */
struct Bug {
    const char *name, *row;
    void (*make)();
};
inline void catching(void (*make)()) {
    try {
        make();
    } catch (const std::runtime_error &) {
    }
}
inline const std::vector<Bug> &all() {
    static const std::vector<Bug> found = {
        {"over-new", "overflow write", over_new},
        {"over-new-array", "overflow write", [] { over_new_array(40); }},
        {"over-new-array-8000", "overflow write", [] { over_new_array(8000); }},
        {"over-vector", "overflow write", over_vector},
        {"over-string", "overflow write", over_string},
        {"under-new-array", "underflow", under_new_array},
        {"read-vector", "read past the end", [] { read_vector(); }},
        {"read-new-array", "read past the end", [] { read_new_array(); }},
        {"write-moved-vector", "use after free", write_moved_vector},
        {"write-deleted", "use after free", write_deleted},
        {"read-shared", "use after free", [] { read_shared(); }},
        {"twice", "double free", twice},
        {"two-owners", "double free", two_owners},
        {"new-freed", "C++ families", new_freed},
        {"malloc-deleted", "C++ families", malloc_deleted},
        {"array-deleted", "C++ families", array_deleted},
        {"one-deleted-as-array", "C++ families", one_deleted_as_array},
        {"vector-freed", "C++ families", vector_freed},
        {"inside", "free inside a block", inside},
        {"lost", "leak", lost},
        {"lost-vector", "leak", lost_vector},
        {"lost-ring", "leak", lost_ring},
        {"lost-on-an-error", "leak", [] { for (int n = 0; n < 5; n++) catching(lost_on_an_error); }},
    };
    return found;
}

inline void make(const std::string &name) {
    for (const Bug &bug : all())
        if (name == bug.name)
            return bug.make();
    throw std::out_of_range(name);
}

} // namespace bugs
