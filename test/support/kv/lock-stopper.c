/*
 * Library to be preloaded before the C library (LD_PRELOAD). Once a thread holds one of LMDB's
 * interprocess locks, the library prints a line and suspends the thread permanently. STOP_WITH
 * selects the lock of the reader table ("readers") or of the writer ("writer").
 *
 * Both locks are robust, process-shared mutexes at the start of a mapped file. The readers' lock is
 * in the first 64 bytes of the file, one cache line.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROBUST 0x10
#define SHARED 0x80
#define PAGE_BYTES 4096
#define FIRST_LINE_BYTES 64

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static int (*lock)(pthread_mutex_t *);
    if (lock == NULL) lock = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
    int result = lock(mutex);
    int kind = mutex->__data.__kind;
    const char *name = getenv("STOP_WITH");
    if (result != 0 || name == NULL || (kind & ROBUST) == 0 || (kind & SHARED) == 0) return result;
    int isReaders = (uintptr_t)mutex % PAGE_BYTES < FIRST_LINE_BYTES;
    if (strcmp(name, isReaders ? "readers" : "writer") != 0) return result;
    if (write(STDOUT_FILENO, "stopped\n", 8) < 0) abort();
    for (;;) pause();
}
