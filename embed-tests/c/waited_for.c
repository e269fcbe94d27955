/* A library whose own threads allocate and map while the caller waits, as those of data frames do. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct work {
    size_t count, bytes;
    int maps;
};

/* One block or map a millisecond; all of them stay. */
static void *work(void *given)
{
    struct work *work = given;
    for (size_t made = 0; made < work->count; made++) {
        void *memory = work->maps ? mmap(NULL, work->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                  : malloc(work->bytes);
        __asm__ volatile("" : : "r"(memory) : "memory");
        usleep(1000);
    }
    return NULL;
}

/* Waits for a thread that works. */
void wait_for(size_t count, size_t bytes, int maps)
{
    struct work own = {count, bytes, maps};
    pthread_t thread;
    pthread_create(&thread, NULL, work, &own);
    pthread_join(thread, NULL);
}

/* Computes until a thread has done its work. */
void compute_with(size_t count, size_t bytes, int maps)
{
    struct work own = {count, bytes, maps};
    pthread_t thread;
    pthread_create(&thread, NULL, work, &own);
    while (pthread_tryjoin_np(thread, NULL) != 0)
        ;
}

static void *work_later(void *given)
{
    usleep(50 * 1000);
    return work(given);
}

/* Has a thread work, after a while, that nobody waits for. */
void begin(size_t count, size_t bytes, int maps)
{
    static struct work own;
    own = (struct work){count, bytes, maps};
    pthread_t thread;
    pthread_create(&thread, NULL, work_later, &own);
    pthread_detach(thread);
}

static void *churn(void *unused)
{
    for (unsigned turn = 0;; turn++) {
        void *volatile block = malloc(3000);
        free(block);
        if (turn % 16 == 0)
            usleep(10);
    }
    return unused;
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

static pthread_mutex_t nap_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t nap_over = PTHREAD_COND_INITIALIZER;

/* Waits for something of the library's own, for a moment. */
void nap(int microseconds)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += microseconds * 1000L;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    pthread_mutex_lock(&nap_mutex);
    pthread_cond_timedwait(&nap_over, &nap_mutex, &end);
    pthread_mutex_unlock(&nap_mutex);
}
