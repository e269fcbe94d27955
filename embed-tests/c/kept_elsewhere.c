/* Blocks whose only address lies where the leak check must look for it: with the loader, with libc, in a map. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* More than the loader keeps in its own memory for libraries that are loaded later. */
static __thread char data[40000];

char *touch(void)
{
    data[0] = 1;
    return data;
}

/* By the key's number alone libc finds it. */
void keep_by_key(void)
{
    pthread_key_t key;
    if (pthread_key_create(&key, NULL) == 0)
        pthread_setspecific(key, malloc(5000));
}

void keep_in_map(void)
{
    void **map = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map != MAP_FAILED)
        map[70000] = malloc(6000);
}

static void *change(void *unused)
{
    for (;;) {
        size_t size = 8 << 20;
        char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (map == MAP_FAILED)
            return unused;
        for (size_t at = 0; at < size; at += 4096)
            map[at] = 1;
        usleep(1000);
        munmap(map, size);
    }
}

/* A thread maps memory and unmaps it again, until the process ends. */
void keep_changing(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, change, NULL);
}

static void __attribute__((noinline)) clear_stack(void)
{
    volatile char room[1 << 16];
    for (size_t at = 0; at < sizeof room; at++)
        room[at] = 0;
}

#if defined(__x86_64__)
static volatile int is_waiting;

static void __attribute__((noinline)) lose_block(void)
{
    void *volatile block = malloc(8000);
    block = NULL;
}

static void *wait_with_block(void *is_kept)
{
    register void *block __asm__("rbx") = NULL;
    if (is_kept)
        block = malloc(8000);
    else
        lose_block();
    clear_stack();
    is_waiting = 1;
    /* Without what malloc has left in the others. */
    __asm__ volatile("xor %%edx, %%edx\n\t"
                     "xor %%esi, %%esi\n\t"
                     "xor %%edi, %%edi\n\t"
                     "xor %%r8d, %%r8d\n\t"
                     "xor %%r9d, %%r9d\n\t"
                     "xor %%r10d, %%r10d\n"
                     "1: mov %1, %%eax\n\t"
                     "syscall\n\t"
                     "jmp 1b"
                     :
                     : "r"(block), "i"(34)
                     : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory");
    return NULL;
}

/* A thread that waits in pause(2), and has its block in a register alone, or nowhere. */
void wait_in_thread(int is_kept)
{
    pthread_t thread;
    pthread_create(&thread, NULL, wait_with_block, is_kept ? "kept" : NULL);
    while (!is_waiting)
        usleep(1000);
    usleep(10000);
}
#endif

void lose(void)
{
    void *volatile block = malloc(7000);
    block = NULL;
}
