/* Preloaded into a process: writes down what the process does to files below $RECORD_BELOW, in
 * order, to the file $RECORD_TO. A record is a line: the operation, then its operands, separated by
 * tabs; data are hexadecimal. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static FILE* record_file(void) {
  static FILE* file;
  const char* const to = getenv("RECORD_TO");
  if (file == NULL && to != NULL) file = fopen(to, "a");
  return file;
}

/* The path of a file descriptor, or of a name in a folder; empty if it is not one that is recorded.
 */
static void path_of(int fd, const char* name, char* path) {
  char link[64], folder[PATH_MAX] = "";
  path[0] = '\0';
  if (name == NULL || name[0] != '/') {
    snprintf(link, sizeof(link), fd == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, folder, sizeof(folder) - 1);
    if (n < 0) return;
    folder[n] = '\0';
  }
  char whole[2 * PATH_MAX];
  if (name == NULL) {
    snprintf(whole, sizeof(whole), "%s", folder);
  } else {
    snprintf(whole, sizeof(whole), "%s%s%s", folder, folder[0] ? "/" : "", name);
  }
  const char* const below = getenv("RECORD_BELOW");
  if (below == NULL || strncmp(whole, below, strlen(below)) != 0 || strlen(whole) >= PATH_MAX)
    return;
  strcpy(path, whole);
}

static void record(const char* operation, const char* first, const char* second) {
  FILE* const file = record_file();
  if (file == NULL || first[0] == '\0') return;
  pthread_mutex_lock(&mutex);
  fprintf(file, "%s\t%s\t%s\n", operation, first, second);
  fflush(file);
  pthread_mutex_unlock(&mutex);
}

static void record_data(int fd, const void* data, ssize_t size, long long offset) {
  char path[PATH_MAX];
  path_of(fd, NULL, path);
  FILE* const file = record_file();
  if (file == NULL || path[0] == '\0' || size <= 0) return;
  pthread_mutex_lock(&mutex);
  fprintf(file, "write\t%s\t%lld\t", path, offset);
  for (ssize_t i = 0; i < size; ++i) fprintf(file, "%02x", ((const unsigned char*)data)[i]);
  fprintf(file, "\n");
  fflush(file);
  pthread_mutex_unlock(&mutex);
}

static int opened(int fd, int flags) {
  char path[PATH_MAX];
  path_of(fd, NULL, path);
  if (fd >= 0 && (flags & O_CREAT)) record("create", path, flags & O_TRUNC ? "truncated" : "");
  return fd;
}

#define MODE                             \
  mode_t mode = 0;                       \
  if (flags & (O_CREAT | __O_TMPFILE)) { \
    va_list list;                        \
    va_start(list, flags);               \
    mode = va_arg(list, mode_t);         \
    va_end(list);                        \
  }

int open(const char* path, int flags, ...) {
  MODE return opened(REAL(open)(path, flags, mode), flags);
}
int open64(const char* path, int flags, ...) {
  MODE return opened(REAL(open64)(path, flags, mode), flags);
}
int openat(int folder, const char* path, int flags, ...) {
  MODE return opened(REAL(openat)(folder, path, flags, mode), flags);
}

ssize_t write(int fd, const void* data, size_t size) {
  const long long offset = (long long)lseek(fd, 0, SEEK_CUR);
  const ssize_t n = REAL(write)(fd, data, size);
  record_data(fd, data, n, offset);
  return n;
}
ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  const ssize_t n = REAL(pwrite)(fd, data, size, offset);
  record_data(fd, data, n, (long long)offset);
  return n;
}
ssize_t pwrite64(int fd, const void* data, size_t size, off64_t offset) {
  const ssize_t n = REAL(pwrite64)(fd, data, size, offset);
  record_data(fd, data, n, (long long)offset);
  return n;
}

static int synced(int fd, int result) {
  char path[PATH_MAX];
  path_of(fd, NULL, path);
  if (result == 0) record("sync", path, "");
  return result;
}
int fsync(int fd) { return synced(fd, REAL(fsync)(fd)); }
int fdatasync(int fd) { return synced(fd, REAL(fdatasync)(fd)); }

int rename(const char* from, const char* to) {
  char first[PATH_MAX], second[PATH_MAX];
  path_of(AT_FDCWD, from, first);
  path_of(AT_FDCWD, to, second);
  const int result = REAL(rename)(from, to);
  if (result == 0) record("rename", first, second);
  return result;
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  char first[PATH_MAX], second[PATH_MAX];
  path_of(from_folder, from, first);
  path_of(to_folder, to, second);
  const int result = REAL(renameat2)(from_folder, from, to_folder, to, flags);
  if (result == 0) record(flags & RENAME_EXCHANGE ? "exchange" : "rename", first, second);
  return result;
}
int mkdir(const char* path, mode_t mode) {
  char whole[PATH_MAX];
  path_of(AT_FDCWD, path, whole);
  const int result = REAL(mkdir)(path, mode);
  if (result == 0) record("mkdir", whole, "");
  return result;
}
int unlink(const char* path) {
  char whole[PATH_MAX];
  path_of(AT_FDCWD, path, whole);
  const int result = REAL(unlink)(path);
  if (result == 0) record("remove", whole, "");
  return result;
}
int rmdir(const char* path) {
  char whole[PATH_MAX];
  path_of(AT_FDCWD, path, whole);
  const int result = REAL(rmdir)(path);
  if (result == 0) record("remove", whole, "");
  return result;
}
int unlinkat(int folder, const char* path, int flags) {
  char whole[PATH_MAX];
  path_of(folder, path, whole);
  const int result = REAL(unlinkat)(folder, path, flags);
  if (result == 0) record("remove", whole, "");
  return result;
}
int remove(const char* path) {
  struct stat info;
  return lstat(path, &info) == 0 && S_ISDIR(info.st_mode) ? rmdir(path) : unlink(path);
}
