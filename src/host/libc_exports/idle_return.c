/* The functions by which a thread waits, as the executable exports them; see idle_return.rs. In C, because the caller's address
   is known here alone. */

#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>

int pyhost_poll(struct pollfd *files, nfds_t count, int timeout, const void *caller);
int pyhost_ppoll(
    struct pollfd *files, nfds_t count, const struct timespec *time, const sigset_t *signals, const void *caller);
int pyhost_epoll_pwait(
    int file, struct epoll_event *events, int most, int timeout, const sigset_t *signals, const void *caller);
int pyhost_select(
    int count, fd_set *reading, fd_set *writing, fd_set *exceptions, struct timeval *time, const void *caller);
int pyhost_clock_nanosleep(
    clockid_t clock, int flags, const struct timespec *time, struct timespec *left, const void *caller);

int poll(struct pollfd *files, nfds_t count, int timeout) {
    return pyhost_poll(files, count, timeout, __builtin_return_address(0));
}

int ppoll(struct pollfd *files, nfds_t count, const struct timespec *time, const sigset_t *signals) {
    return pyhost_ppoll(files, count, time, signals, __builtin_return_address(0));
}

int epoll_wait(int file, struct epoll_event *events, int most, int timeout) {
    return pyhost_epoll_pwait(file, events, most, timeout, NULL, __builtin_return_address(0));
}

int epoll_pwait(int file, struct epoll_event *events, int most, int timeout, const sigset_t *signals) {
    return pyhost_epoll_pwait(file, events, most, timeout, signals, __builtin_return_address(0));
}

int select(int count, fd_set *reading, fd_set *writing, fd_set *exceptions, struct timeval *time) {
    return pyhost_select(count, reading, writing, exceptions, time, __builtin_return_address(0));
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left) {
    return pyhost_clock_nanosleep(clock, flags, time, left, __builtin_return_address(0));
}
