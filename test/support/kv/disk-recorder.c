/*
 * Library to be preloaded before the C library (LD_PRELOAD). It records in order the operations of
 * processes on files named data.mdb, and the folders that the processes sync. It makes syncs and
 * writes fail on request. No sync reaches the disk, whose contents are computed from the record.
 *
 *   DISK_TRACE    the record, to which all processes append
 *   DISK_CONTROL  six numbers of four bytes, shared by all processes; see `struct control`
 *
 * A failed sync is reported as Linux does it: once to each file descriptor open at the time.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE, SYNC, SYNC_FAILED, RANGE_SYNC, RANGE_SYNC_FAILED, NOTE, FOLDER_SYNC, PRESENT };
enum { FILE_COUNT_MAX = 4096, ROOTS_END = 16384 };

struct entry {
  uint32_t kind;
  uint32_t process;
  uint64_t offset;
  uint64_t length;
};

struct control {
  int32_t lock;
  int32_t failing_syncs;       /* number of next fdatasync calls to fail */
  int32_t failing_root_writes; /* number of next synchronous writes to fail */
  int32_t full_writes;         /* number of next writes after the roots to fail with ENOSPC */
  int32_t error_sequence;      /* incremented by each failure */
  int32_t is_begun;            /* whether the initial contents are recorded */
};

static struct control *control;
static int trace_file = -1;
static struct { char is_data, is_notes, waits; int32_t seen; } files[FILE_COUNT_MAX];

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void) {
  const char *trace = getenv("DISK_TRACE"), *shared = getenv("DISK_CONTROL");
  if (trace == NULL || shared == NULL) return;
  int file = REAL(open64)(shared, O_RDWR | O_CLOEXEC);
  void *memory = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) abort();
  control = memory;
  trace_file = REAL(open64)(trace, O_WRONLY | O_APPEND | O_CLOEXEC);
  if (trace_file < 0) abort();
}

static void lock(void) {
  while (__sync_lock_test_and_set(&control->lock, 1)) sched_yield();
}

static void unlock(void) { __sync_lock_release(&control->lock); }

static void record(uint32_t kind, uint64_t offset, const void *bytes, uint64_t length) {
  struct entry entry = {kind, (uint32_t)getpid(), offset, length};
  struct iovec parts[] = {{&entry, sizeof entry}, {(void *)bytes, bytes == NULL ? 0 : length}};
  ssize_t expected = (ssize_t)(parts[0].iov_len + parts[1].iov_len);
  if (REAL(writev)(trace_file, parts, 2) != expected) abort();
}

static int is_data(int file) { return control != NULL && file >= 0 && file < FILE_COUNT_MAX && files[file].is_data; }

/* Returns whether the sync succeeds. Call it with the lock held. */
static int wait_for_disk(int file, int32_t *failing, int is_range, uint64_t offset, uint64_t length) {
  if (*failing > 0) {
    --*failing;
    files[file].seen = ++control->error_sequence;
    record(is_range ? RANGE_SYNC_FAILED : SYNC_FAILED, offset, NULL, length);
    return 0;
  }
  record(is_range ? RANGE_SYNC : SYNC, offset, NULL, length);
  if (files[file].seen == control->error_sequence) return 1;
  files[file].seen = control->error_sequence;
  return 0;
}

/* Records the initial contents of the file, which are on the disk. */
static void record_beginning(int file) {
  struct stat status;
  lock();
  if (!control->is_begun && fstat(file, &status) == 0 && status.st_size > 0) {
    char *bytes = malloc((size_t)status.st_size);
    if (bytes == NULL || pread64(file, bytes, (size_t)status.st_size, 0) != status.st_size) abort();
    record(PRESENT, 0, bytes, (uint64_t)status.st_size);
    free(bytes);
  }
  control->is_begun = 1;
  unlock();
}

int open64(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  int file = REAL(open64)(path, flags, mode);
  if (control == NULL || file < 0 || file >= FILE_COUNT_MAX) return file;
  const char *slash = strrchr(path, '/');
  const char *name = slash == NULL ? path : slash + 1;
  files[file].is_data = strcmp(name, "data.mdb") == 0;
  files[file].is_notes = strcmp(name, "notes") == 0;
  files[file].waits = (flags & O_DSYNC) != 0;
  files[file].seen = control->error_sequence;
  if (files[file].is_data) record_beginning(file);
  return file;
}

int close(int file) {
  if (file >= 0 && file < FILE_COUNT_MAX) files[file].is_data = files[file].is_notes = 0;
  return REAL(close)(file);
}

ssize_t pwrite64(int file, const void *bytes, size_t length, off64_t offset) {
  if (!is_data(file)) return REAL(pwrite64)(file, bytes, length, offset);
  lock();
  ssize_t written = -1;
  if (offset >= ROOTS_END && control->full_writes > 0) {
    control->full_writes--;
    errno = ENOSPC;
  } else {
    written = REAL(pwrite64)(file, bytes, length, offset);
    if (written > 0) record(WRITE, (uint64_t)offset, bytes, (uint64_t)written);
    if (written > 0 && files[file].waits &&
        !wait_for_disk(file, &control->failing_root_writes, 1, (uint64_t)offset, (uint64_t)written)) {
      errno = EIO;
      written = -1;
    }
  }
  unlock();
  return written;
}

/* Like pwrite64 for each part: no caller depends on a single write. */
ssize_t writev(int file, const struct iovec *parts, int count) {
  if (!is_data(file)) return REAL(writev)(file, parts, count);
  off64_t offset = lseek64(file, 0, SEEK_CUR);
  ssize_t total = 0;
  for (int index = 0; index < count; index++) {
    ssize_t written = pwrite64(file, parts[index].iov_base, parts[index].iov_len, offset + total);
    if (written < 0) return -1;
    total += written;
  }
  lseek64(file, offset + total, SEEK_SET);
  return total;
}

ssize_t write(int file, const void *bytes, size_t length) {
  if (is_data(file)) {
    struct iovec part = {(void *)bytes, length};
    return writev(file, &part, 1);
  }
  ssize_t written = REAL(write)(file, bytes, length);
  if (control != NULL && written > 0 && file >= 0 && file < FILE_COUNT_MAX && files[file].is_notes) {
    lock();
    record(NOTE, 0, bytes, (uint64_t)written);
    unlock();
  }
  return written;
}

/* Syncs of folders are recorded with the name. */
int fsync(int file) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = control == NULL ? -1 : readlink(link, path, sizeof path);
  struct stat status;
  if (length < 0 || fstat(file, &status) != 0 || !S_ISDIR(status.st_mode)) return REAL(fsync)(file);
  lock();
  record(FOLDER_SYNC, 0, path, (uint64_t)length);
  unlock();
  return 0;
}

int fdatasync(int file) {
  if (!is_data(file)) return REAL(fdatasync)(file);
  lock();
  int succeeded = wait_for_disk(file, &control->failing_syncs, 0, 0, 0);
  unlock();
  if (succeeded) return 0;
  errno = EIO;
  return -1;
}
