/* Preloaded before the C library (LD_PRELOAD): fsync of a file whose name contains
 * RUNTIME_SLOW_FILE takes RUNTIME_SLOW_SECONDS longer, as on a busy disk or a remote file
 * server. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void wait_if_named(int fd) {
  const char* name = getenv("RUNTIME_SLOW_FILE");
  const char* seconds = getenv("RUNTIME_SLOW_SECONDS");
  char link[64], path[4096];
  if (name == NULL || seconds == NULL) return;
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof(path) - 1);
  if (length < 0) return;
  path[length] = '\0';
  if (strstr(path, name) == NULL) return;
  struct timespec left = {.tv_sec = atoi(seconds), .tv_nsec = 0};
  while (nanosleep(&left, &left) != 0) {
  }
}

int fsync(int fd) {
  int (*real)(int) = NULL;
  *(void**)&real = dlsym(RTLD_NEXT, "fsync");
  wait_if_named(fd);
  return real(fd);
}
