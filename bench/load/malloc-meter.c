/*
 * Reports malloc's memory: each second, writes the bytes in use and the free bytes that malloc
 * keeps to the file MALLOC_METER with the process id appended. If a file with that name and ".trim"
 * appended exists, malloc returns all free pages to the system, and the file is removed. Loaded
 * before the C library (LD_PRELOAD).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *measure(void *path)
{
    char text[64], asked[4096 + 8];
    int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    snprintf(asked, sizeof asked, "%s.trim", (char *)path);
    while (file >= 0) {
        int isAsked = access(asked, F_OK) == 0;
        if (isAsked) malloc_trim(0);
        struct mallinfo2 info = mallinfo2();
        int length = snprintf(text, sizeof text, "%20zu %20zu\n", info.uordblks + info.hblkhd, info.fordblks);
        if (pwrite(file, text, length, 0) < 0) break;
        if (isAsked) unlink(asked);
        sleep(1);
    }
    return NULL;
}

__attribute__((constructor)) static void begin(void)
{
    static char path[4096];
    const char *name = getenv("MALLOC_METER");
    pthread_t thread;
    sigset_t all, old;
    if (name == NULL) return;
    snprintf(path, sizeof path, "%s.%d", name, getpid());
    /* Leave signals to the threads of the program. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_create(&thread, NULL, measure, path);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}
