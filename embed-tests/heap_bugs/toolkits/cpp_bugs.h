/* Heap bugs in C++ that pybind11_bugs.cpp and nanobind_bugs.cpp bind: some of ../cpp_bugs.h, and more. Bytes are volatile: the compiler
   may neither join nor drop an access. */
#include "../cpp_bugs.h"

namespace bugs {

inline volatile char *bytes(void *place) { return static_cast<volatile char *>(place); }
inline void write(void *place, long offset) { bytes(place)[offset] = 'X'; }
inline int read(void *place, long offset) { return bytes(place)[offset]; }

using cpp_bugs::kept;

struct Node {
    long value = 7;
    Node *next = nullptr;
    char text[40] = {};
};

inline void over_new() {
    auto *node = kept(new Node);
    write(node, sizeof(Node));
    delete node;
}
inline void over_new_array(long size) {
    auto *block = kept(new char[size]);
    write(block, size);
    delete[] block;
}
inline void over_string() {
    std::string text(100, 'x');
    text.shrink_to_fit();
    write(kept(&text[0]), static_cast<long>(text.capacity()) + 1);
}
inline void under_new_array() {
    auto *block = kept(new char[40]);
    write(block, -1);
    delete[] block;
}
inline int read_vector() {
    std::vector<char> numbers(8000);
    return read(kept(numbers.data()), 8000);
}
inline int read_new_array() {
    auto *block = kept(new char[4000]);
    int found = read(block, 4000);
    delete[] block;
    return found;
}
inline void write_moved_vector() {
    std::vector<int> numbers(10);
    int *stale = kept(numbers.data());
    numbers.resize(1000);
    write(stale, 8);
}
inline void write_deleted() {
    auto *node = kept(new Node);
    delete node;
    write(node, 16);
}
inline int read_shared() {
    auto owner = std::make_shared<Node>();
    Node *borrowed = kept(owner.get());
    owner.reset();
    return read(borrowed, 8);
}
inline void two_owners() {
    auto *node = kept(new Node);
    std::unique_ptr<Node> first(node), second(kept(node));
}
inline void inside() {
    auto *block = kept(new char[400]);
    free(block + 16);
}
inline void lost_ring() {
    auto first = std::make_shared<std::shared_ptr<void>>();
    *first = first;
}
inline void lost_on_an_error() {
    auto *block = kept(new char[300]);
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
        {"over-vector", "overflow write", [] { cpp_bugs::make("over-vector"); }},
        {"over-string", "overflow write", over_string},
        {"under-new-array", "underflow", under_new_array},
        {"read-vector", "read past the end", [] { read_vector(); }},
        {"read-new-array", "read past the end", [] { read_new_array(); }},
        {"write-moved-vector", "use after free", write_moved_vector},
        {"write-deleted", "use after free", write_deleted},
        {"read-shared", "use after free", [] { read_shared(); }},
        {"twice", "double free", [] { cpp_bugs::make("deleted-twice"); }},
        {"two-owners", "double free", two_owners},
        {"new-freed", "C++ families", [] { cpp_bugs::make("array-freed"); }},
        {"malloc-deleted", "C++ families", [] { cpp_bugs::make("malloc-deleted"); }},
        {"array-deleted", "C++ families", [] { cpp_bugs::make("array-deleted"); }},
        {"one-deleted-as-array", "C++ families", [] { cpp_bugs::make("deleted-as-array"); }},
        {"vector-freed", "C++ families", [] { cpp_bugs::make("vector-freed"); }},
        {"inside", "free inside a block", inside},
        {"lost", "leak", [] { cpp_bugs::make("lost-new"); }},
        {"lost-vector", "leak", [] { cpp_bugs::make("lost-vector"); }},
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

/* What both bindings define: the bugs by name, and an object that is deleted and yet given out. `reference` is the policy that leaves
   an object to C++. */
template <class Dict, class Module, class Policy> void bind(Module &module, Policy reference) {
    module.def("borrowed", [] {
        auto *node = kept(new Node);
        delete node;
        return kept(node);
    }, reference);
    module.def("make", make);
    module.def("names", [] {
        Dict rows;
        for (const Bug &bug : all())
            rows[bug.name] = bug.row;
        return rows;
    });
}

} // namespace bugs
