// Preloaded: a process that the first one makes is late. It sleeps where it would block signals or begin a
// session, as it would on a machine that does not get round to run it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

static pid_t first;

__attribute__((constructor)) static void begin(void) { first = getpid(); }

static void be_late(void) {
    if (getpid() != first) usleep(300000);
}

int sigprocmask(int how, const sigset_t *set, sigset_t *old) {
    static int (*next)(int, const sigset_t *, sigset_t *);
    if (!next) next = (int (*)(int, const sigset_t *, sigset_t *))dlsym(RTLD_NEXT, "sigprocmask");
    be_late();
    return next(how, set, old);
}

pid_t setsid(void) {
    be_late();
    return (pid_t)syscall(SYS_setsid);
}
