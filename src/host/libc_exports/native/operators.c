/* C++'s operators new and delete, which tell their blocks from malloc's if blocks are checked (`--debug-hooks`, `--guard`).

   They are exported by names that no library asks for, as long as the right ones and of the same hash, so that a library
   finds those of its C++ runtime, or its own, as without the host. operators.rs writes the right names into the table of
   names before Python starts, if blocks are checked. In C, because an exception passes through the frames. */

#include <stddef.h>

/* Of `Family`, src/heap/checks/families.rs. */
enum { NEW = 1, NEW_ARRAY, ALIGNED_NEW, ALIGNED_NEW_ARRAY };

void *pyhost_new(size_t size, size_t alignment, unsigned char family);
void pyhost_delete(void *block, unsigned char family);

/* The C++ runtime's: throws std::bad_alloc, whatever it may free before, since nobody has that many bytes. */
void *(*pyhost_next_new(void))(size_t);
#define THROW pyhost_next_new()(~(size_t)0)

/* Further arguments stay in their registers: the tag std::nothrow, and the size and the alignment that a delete gets. */
#define OPERATOR_NEW(symbol, name, family, alignment, otherwise, ...) \
    void *name(__VA_ARGS__) __asm__("_Zn" symbol); \
    void *name(__VA_ARGS__) { \
        void *block = pyhost_new(size, alignment, family); \
        return block ? block : otherwise; \
    }
#define OPERATORS_NEW(letters, name, plain, aligned) \
    OPERATOR_NEW(letters, name, plain, 1, THROW, size_t size) \
    OPERATOR_NEW(letters "RKSt9nothrow_t", name##_or_null, plain, 1, NULL, size_t size) \
    OPERATOR_NEW(letters "St11align_val_t", name##_aligned, aligned, alignment, THROW, size_t size, size_t alignment) \
    OPERATOR_NEW(letters "St11align_val_tRKSt9nothrow_t", name##_aligned_or_null, aligned, alignment, NULL, size_t size, \
                 size_t alignment)
OPERATORS_NEW("xL", pyhost_operator_new, NEW, ALIGNED_NEW)
OPERATORS_NEW("bL", pyhost_operator_new_array, NEW_ARRAY, ALIGNED_NEW_ARRAY)

#define OPERATOR_DELETE(symbol, name, family) \
    void name(void *block) __asm__("_Zd" symbol); \
    void name(void *block) { pyhost_delete(block, family); }
#define OPERATORS_DELETE(letters, name, plain, aligned) \
    OPERATOR_DELETE(letters, name, plain) \
    OPERATOR_DELETE(letters "m", name##_sized, plain) \
    OPERATOR_DELETE(letters "RKSt9nothrow_t", name##_nothrow, plain) \
    OPERATOR_DELETE(letters "St11align_val_t", name##_aligned, aligned) \
    OPERATOR_DELETE(letters "mSt11align_val_t", name##_sized_aligned, aligned) \
    OPERATOR_DELETE(letters "St11align_val_tRKSt9nothrow_t", name##_aligned_nothrow, aligned)
OPERATORS_DELETE("lQU", pyhost_operator_delete, NEW, ALIGNED_NEW)
OPERATORS_DELETE("aQU", pyhost_operator_delete_array, NEW_ARRAY, ALIGNED_NEW_ARRAY)
