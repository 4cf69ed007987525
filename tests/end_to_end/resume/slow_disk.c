/* Preloaded into a process: fsync takes $SLOW_DISK_MS milliseconds more, so that checkpoints are
 * due while others are being written. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int fsync(int fd) {
  const char* const text = getenv("SLOW_DISK_MS");
  const long ms = text == NULL ? 0 : atol(text);
  const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, NULL);
  return ((__typeof__(&fsync))dlsym(RTLD_NEXT, "fsync"))(fd);
}
