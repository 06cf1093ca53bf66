/* Preloaded into the processes of the chaos suite: the faults of a disk and of a clock, switched while they run.
 *
 * CHAOS_CONTROL names a file of one page that the suite writes and this maps; CHAOS_FOLDER the folder whose files it
 * concerns. Sockets and other files are never touched. Fields: see `Control` in tests/chaos/shim.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct control {
    volatile int64_t clock_offset_ns;
    volatile int32_t write_errno;  /* of write, pwrite, writev, pwritev, ftruncate */
    volatile int32_t sync_errno;   /* of fsync, fdatasync */
    volatile int32_t sync_hangs;   /* fsync and fdatasync wait until this is 0 */
    volatile int32_t read_errno;   /* of read, pread, readv, preadv */
    volatile int32_t all_hangs;    /* all of these wait until this is 0 */
};

static struct control idle;
static struct control *control = &idle;
static const char *folder = "";

__attribute__((constructor)) static void map_control(void) {
    const char *name = getenv("CHAOS_CONTROL");
    const char *of = getenv("CHAOS_FOLDER");
    if (name == NULL || of == NULL) return;
    int file = open(name, O_RDWR | O_CLOEXEC);
    if (file < 0) return;
    void *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (page == MAP_FAILED) return;
    folder = of;
    control = page;
}

/* Whether a descriptor is a file below the folder. */
static int concerns(int fd) {
    char link[64], path[4096];
    int saved = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    errno = saved;
    if (length <= 0) return 0;
    path[length] = 0;
    return strncmp(path, folder, strlen(folder)) == 0;
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (real == NULL) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static void hang(volatile int32_t *field, int fd) {
    if (*field != 0 && concerns(fd))
        while (*field != 0) usleep(20000);
}

/* A call that waits while everything hangs and fails with the error of its kind. `fd` is among the parameters. */
#define FAILING(type, name, field, before, parameters, arguments) \
    type name parameters { \
        REAL(name); \
        before; \
        hang(&control->all_hangs, fd); \
        if (control->field != 0 && concerns(fd)) { errno = control->field; return -1; } \
        return real arguments; \
    }
#define WRITING(type, name, parameters, arguments) FAILING(type, name, write_errno, , parameters, arguments)
#define READING(name, parameters, arguments) FAILING(ssize_t, name, read_errno, , parameters, arguments)
#define SYNCING(name) FAILING(int, name, sync_errno, hang(&control->sync_hangs, fd), (int fd), (fd))

WRITING(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
WRITING(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
WRITING(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
WRITING(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
WRITING(ssize_t, pwritev, (int fd, const struct iovec *parts, int count, off_t at), (fd, parts, count, at))
WRITING(ssize_t, pwritev64, (int fd, const struct iovec *parts, int count, off64_t at), (fd, parts, count, at))
WRITING(int, ftruncate, (int fd, off_t size), (fd, size))
WRITING(int, ftruncate64, (int fd, off64_t size), (fd, size))

READING(read, (int fd, void *data, size_t size), (fd, data, size))
READING(pread, (int fd, void *data, size_t size, off_t at), (fd, data, size, at))
READING(pread64, (int fd, void *data, size_t size, off64_t at), (fd, data, size, at))
READING(readv, (int fd, const struct iovec *parts, int count), (fd, parts, count))
READING(preadv, (int fd, const struct iovec *parts, int count, off_t at), (fd, parts, count, at))
READING(preadv64, (int fd, const struct iovec *parts, int count, off64_t at), (fd, parts, count, at))

SYNCING(fsync)
SYNCING(fdatasync)

static void shift(struct timespec *time) {
    int64_t offset = control->clock_offset_ns;
    int64_t nanoseconds = time->tv_nsec + offset % 1000000000;
    time->tv_sec += offset / 1000000000;
    if (nanoseconds < 0) { nanoseconds += 1000000000; time->tv_sec -= 1; }
    if (nanoseconds >= 1000000000) { nanoseconds -= 1000000000; time->tv_sec += 1; }
    time->tv_nsec = nanoseconds;
}

/* Only the wall clock jumps: the monotonic clock of a machine never does. */
int clock_gettime(clockid_t clock, struct timespec *time) {
    REAL(clock_gettime);
    int outcome = real(clock, time);
    if (outcome == 0 && control->clock_offset_ns != 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        shift(time);
    return outcome;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    if (result != NULL) *result = now.tv_sec;
    return now.tv_sec;
}
