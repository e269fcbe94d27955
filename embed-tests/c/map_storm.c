/* Threads, a signal handler and forked children that map memory at once, as a library does. */

#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE (64 << 10)

static volatile sig_atomic_t handled;

static void *map(size_t size) {
    return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void handler(int signal) {
    (void)signal;
    void *block = map(SIZE);
    if (block != MAP_FAILED) munmap(block, SIZE);
    handled++;
}

static void *storm(void *turns) {
    for (long turn = 0; turn < (long)turns; turn++) {
        char *block = map(4 * SIZE);
        if (block == MAP_FAILED) return (void *)1;
        block[0] = 1;
        munmap(block + SIZE, SIZE);
        mprotect(block, SIZE, PROT_READ);
        block = mremap(block + 2 * SIZE, 2 * SIZE, 5 * SIZE, MREMAP_MAYMOVE) == MAP_FAILED ? NULL : block;
        if (!block) return (void *)1;
    }
    return NULL;
}

/* Maps in four threads, in a handler of a timer's signal and in children, until all are done; the handler's calls. */
long map_storm(long turns, int forks) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    pthread_t threads[4];
    sigaction(SIGPROF, &action, &old);
    setitimer(ITIMER_PROF, &often, NULL);
    for (int thread = 0; thread < 4; thread++) pthread_create(&threads[thread], NULL, storm, (void *)turns);
    long failed = 0;
    for (int turn = 0; turn < forks; turn++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            for (int block = 0; block < 50; block++) handler(0);
            _exit(handled < 50);
        }
        int status = 1;
        waitpid(child, &status, 0);
        failed += status != 0;
    }
    for (int thread = 0; thread < 4; thread++) {
        void *result;
        pthread_join(threads[thread], &result);
        failed += result != NULL;
    }
    setitimer(ITIMER_PROF, &never, NULL);
    sigaction(SIGPROF, &old, NULL);
    return failed ? -failed : handled;
}
