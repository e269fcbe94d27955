/* Allocates below known native calls: nested functions, threads, callbacks, deep recursion, a stack of its own, signal
   handlers. No function may be inlined, or leave its stack before the call in it: */
#define CALL __attribute__((noinline))
#define STAY(value) __asm__ volatile("" : "+r"(value) : : "memory")

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

CALL static void *c_inner(size_t size)
{
    void *block = malloc(size);
    STAY(block);
    return block;
}

CALL static void *b_middle(size_t size)
{
    void *block = c_inner(size);
    STAY(block);
    return block;
}

CALL void *a_outer(size_t size)
{
    void *block = b_middle(size);
    STAY(block);
    return block;
}

static void *in_thread(void *size)
{
    void *block = a_outer(*(size_t *)size);
    STAY(block);
    return NULL;
}

/* In a thread that runs no Python. */
void thread_outer(size_t size)
{
    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, &size);
    pthread_join(thread, NULL);
}

/* Calls back before it allocates, as a sort does. */
CALL int sort_outer(int (*compare)(int), size_t size)
{
    int answer = compare(7);
    STAY(answer);
    a_outer(size);
    return answer;
}

CALL size_t recurse(size_t depth, size_t size)
{
    size_t below = depth == 0 ? (size_t)a_outer(size) : recurse(depth - 1, size);
    STAY(below);
    return below + 1;
}

static ucontext_t outside, inside;
static size_t wanted;

static void on_own_stack(void)
{
    void *block = a_outer(wanted);
    STAY(block);
}

/* On a stack that no thread has. */
void coroutine_outer(size_t size)
{
    enum { STACK = 1 << 16 };
    wanted = size;
    void *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = STACK;
    inside.uc_link = &outside;
    makecontext(&inside, on_own_stack, 0);
    swapcontext(&outside, &inside);
    munmap(stack, STACK);
}

static void handler(int number)
{
    void *block = a_outer(wanted);
    STAY(block);
    (void)number;
}

/* In a handler of a signal that interrupts this function, and not the allocator; `aside`: on a stack of its own. */
CALL void signal_outer(size_t size, int aside)
{
    stack_t none = {.ss_flags = SS_DISABLE}, own = {.ss_size = 1 << 16};
    struct sigaction action = {.sa_handler = handler, .sa_flags = aside ? SA_ONSTACK : 0};
    own.ss_sp = malloc(own.ss_size);
    wanted = size;
    sigaltstack(&own, NULL);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    sigaltstack(&none, NULL);
}

static volatile int ticks;
static void tick(int number)
{
    (void)number;
    ticks++;
}

/* Has a signal interrupt the process again and again. */
void storm_of_signals(void)
{
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    struct itimerval every = {{0, 200}, {0, 200}};
    sigaction(SIGPROF, &action, NULL);
    setitimer(ITIMER_PROF, &every, NULL);
}

int signals(void) { return ticks; }

static void *churn(void *unused)
{
    (void)unused;
    for (;;)
        free(a_outer(100));
    return NULL;
}

/* Threads that allocate until the process ends. */
void start_churn(int threads)
{
    pthread_t thread;
    while (threads-- > 0) {
        pthread_create(&thread, NULL, churn, NULL);
        pthread_detach(thread);
    }
}

static char library[4096];

static void *reload(void *unused)
{
    (void)unused;
    for (;;) {
        void *handle = dlopen(library, RTLD_NOW);
        void *(*outer)(size_t) = (void *(*)(size_t))dlsym(handle, "a_outer");
        free(outer(100));
        dlclose(handle);
    }
    return NULL;
}

/* A thread that loads a library, allocates in it and unloads it, until the process ends. */
void start_reloading(const char *path)
{
    pthread_t thread;
    for (size_t at = 0; at + 1 < sizeof library && path[at] != 0; at++)
        library[at] = path[at];
    pthread_create(&thread, NULL, reload, NULL);
    pthread_detach(thread);
}
