/*
 * Steps the wall clock of a process, like an operator or a time server: by the number of seconds in
 * the file CLOCK_STEP, which can change at any time. Monotonic clocks are unchanged. Loaded before
 * the C library (LD_PRELOAD).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile long *step;

__attribute__((constructor)) static void begin(void)
{
    const char *name = getenv("CLOCK_STEP");
    int file = name == NULL ? -1 : open(name, O_RDONLY | O_CLOEXEC);
    void *map = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    if (map != MAP_FAILED) step = map;
}

int clock_gettime(clockid_t id, struct timespec *time)
{
    static int (*original)(clockid_t, struct timespec *);
    if (original == NULL) original = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failure = original(id, time);
    if (failure == 0 && step != NULL && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) time->tv_sec += *step;
    return failure;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    int failure = clock_gettime(CLOCK_REALTIME, &now);
    if (failure == 0) {
        time->tv_sec = now.tv_sec;
        time->tv_usec = now.tv_nsec / 1000;
    }
    return failure;
}
