/* Preloaded: a kernel whose pages have PAGE_BYTES bytes, 16384 or 65536, as far as a process can tell by what
   libc offers. It is asked for its page, and its mappings begin and end on multiples of it: a length is rounded
   up, and an address that is not a multiple is EINVAL (mmap(2), mremap(2), munmap(2), madvise(2), mincore(2)).

   What libc and the loader do for themselves stays on real pages. A host that was built for tests takes this library's
   functions where its own calls lead to libc itself, and `kernel_call` for system calls. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static long call(long number, const void *a, size_t b, long c, long d, long e, long f);

/* By the environment as the kernel passed it: libc's copy is not there before the first constructor. */
static size_t page(void) {
  static size_t found;
  if (!found) {
    static const char name[] = "PAGE_BYTES=";
    const size_t length = sizeof name - 1;
    size_t bytes = 0, matched = 0;
    char text[4096];
    long count, file = call(SYS_openat, (void *)(long)AT_FDCWD, (size_t)"/proc/self/environ", O_RDONLY, 0, 0, 0);
    while (file >= 0 && (count = call(SYS_read, (void *)file, (size_t)text, sizeof text, 0, 0, 0)) > 0)
      for (long at = 0; at < count; at++) {
        const char letter = text[at];
        if (!letter) matched = 0;
        else if (matched < length) matched = letter == name[matched] ? matched + 1 : length + 1;
        else if (matched == length) bytes = bytes * 10 + (size_t)(letter - '0');
      }
    if (file >= 0) call(SYS_close, (void *)file, 0, 0, 0, 0, 0);
    found = bytes ? bytes : 4096;
  }
  return found;
}

static size_t rounded(size_t length) { return (length + page() - 1) & ~(page() - 1); }
static int is_unaligned(const void *address) { return ((uintptr_t)address & (page() - 1)) != 0; }
static void *fail(void) {
  errno = EINVAL;
  return MAP_FAILED;
}

/* The real calls, past every library that defines functions of these names. */
static long call(long number, const void *a, size_t b, long c, long d, long e, long f) {
  long result;
#if defined(__x86_64__)
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = (long)a;
  register long x1 __asm__("x1") = (long)b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  result = x0;
#else
#error "x86-64 or aarch64"
#endif
  if (result < 0 && result > -4096) {
    errno = (int)-result;
    return -1;
  }
  return result;
}

/* Behind the end of a file the rest of its last page has zeros: real pages beyond it would be a SIGBUS. */
static void *with_whole_pages(void *start, size_t wanted, int access, int flags, int file, off_t offset) {
  void *mapped = (void *)call(SYS_mmap, start, wanted, access, flags, file, offset);
  struct stat about;
  if (mapped == MAP_FAILED || flags & MAP_ANONYMOUS || call(SYS_fstat, (void *)(long)file, (size_t)&about, 0, 0, 0, 0))
    return mapped;
  const off_t size = S_ISREG(about.st_mode) && about.st_size > offset ? about.st_size - offset : 0;
  const size_t from = ((size_t)size + 4095) & ~(size_t)4095, to = rounded((size_t)size);
  if (from < to && to <= rounded(wanted))
    call(SYS_mmap, (char *)mapped + from, to - from, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  return mapped;
}

void *mmap(void *address, size_t length, int access, int flags, int file, off_t offset) {
  if (address && (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) && is_unaligned(address)) return fail();
  if (offset & (off_t)(page() - 1)) return fail();
  const int is_placed = flags & (MAP_FIXED | MAP_FIXED_NOREPLACE);
  if (is_placed || !length) return with_whole_pages(address, length, access, flags, file, offset);
  /* Of a longer piece of address space the part that begins on a multiple. */
  const size_t wanted = rounded(length), whole = wanted + page();
  char *hint = is_unaligned(address) ? NULL : address;
  char *found = (char *)call(SYS_mmap, hint, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return MAP_FAILED;
  char *start = (char *)(((uintptr_t)found + page() - 1) & ~(page() - 1));
  if (start > found) call(SYS_munmap, found, (size_t)(start - found), 0, 0, 0, 0);
  if (start + wanted < found + whole) call(SYS_munmap, start + wanted, (size_t)(found + whole - start - wanted), 0, 0, 0, 0);
  void *mapped = with_whole_pages(start, wanted, access, flags | MAP_FIXED, file, offset);
  if (mapped == MAP_FAILED) {
    const int error = errno;
    call(SYS_munmap, start, wanted, 0, 0, 0, 0);
    errno = error;
  }
  return mapped;
}

void *mmap64(void *address, size_t length, int access, int flags, int file, off64_t offset) {
  return mmap(address, length, access, flags, file, offset);
}

int munmap(void *address, size_t length) {
  if (is_unaligned(address)) return fail(), -1;
  return (int)call(SYS_munmap, address, rounded(length), 0, 0, 0, 0);
}

/* A shorter length is rounded up, too: what lies behind it in its page goes with it. */
void *mremap(void *old, size_t old_length, size_t new_length, int flags, ...) {
  va_list more;
  va_start(more, flags);
  void *to = flags & (MREMAP_FIXED | 4) ? va_arg(more, void *) : NULL;
  va_end(more);
  if (is_unaligned(old) || (flags & MREMAP_FIXED && is_unaligned(to))) return fail();
  return (void *)call(SYS_mremap, old, rounded(old_length), (long)rounded(new_length), flags, (long)to, 0);
}

int madvise(void *address, size_t length, int advice) {
  if (is_unaligned(address)) return fail(), -1;
  return (int)call(SYS_madvise, address, rounded(length), advice, 0, 0, 0);
}

/* A byte for each page: whether any part of it is resident. */
int mincore(void *address, size_t length, unsigned char *resident) {
  if (is_unaligned(address)) return fail(), -1;
  for (size_t at = 0; at < length; at += page()) {
    unsigned char parts[65536 / 4096] = {0};
    if (call(SYS_mincore, (char *)address + at, page(), (long)parts, 0, 0, 0)) return -1;
    unsigned char any = 0;
    for (size_t part = 0; part < sizeof parts; part++) any |= parts[part] & 1;
    resident[at / page()] = any;
  }
  return 0;
}

/* A system call; an error is its number below 0, and `errno` stays. */
long kernel_call(long number, long a, long b, long c, long d, long e, long f) {
  const int before = errno;
  long result;
  switch (number) {
    case SYS_mmap: result = (long)mmap((void *)a, (size_t)b, (int)c, (int)d, (int)e, (off_t)f); break;
    case SYS_munmap: result = munmap((void *)a, (size_t)b); break;
    case SYS_mremap: result = (long)mremap((void *)a, (size_t)b, (size_t)c, (int)d, (void *)e); break;
    case SYS_madvise: result = madvise((void *)a, (size_t)b, (int)c); break;
    case SYS_mincore: result = mincore((void *)a, (size_t)b, (unsigned char *)c); break;
    default: result = call(number, (void *)a, (size_t)b, c, d, e, f);
  }
  if (result == -1) result = -errno;
  errno = before;
  return result;
}

int getpagesize(void) { return (int)page(); }

/* libc's own function, not by `dlsym`, which a program may define itself. A version that libc lacks must not be
   asked for: dlvsym makes a message of it, and that would be the program's first allocation. */
static void *of_libc(const char *name, const char *version) {
#if defined(__aarch64__)
  version = "GLIBC_2.17";
#endif
  return dlvsym(RTLD_NEXT, name, version);
}

long sysconf(int name) {
  static long (*next)(int);
  if (name == _SC_PAGESIZE) return (long)page();
  if (!next) next = (long (*)(int))of_libc("sysconf", "GLIBC_2.2.5");
  return next(name);
}

unsigned long getauxval(unsigned long type) {
  static unsigned long (*next)(unsigned long);
  if (type == AT_PAGESZ) return page();
  if (!next) next = (unsigned long (*)(unsigned long))of_libc("getauxval", "GLIBC_2.16");
  return next(type);
}
