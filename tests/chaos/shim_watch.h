/* Records events of a run for the judge. Each is one line of the file that CHAOS_WATCH names:
 *
 *   begin                  the process has started
 *   write FILE             the first write to a descriptor, until it is fsynced or closed
 *   fsync FILE             a successful fsync
 *   rename FROM TO         a successful rename, with a tab between the names
 *   kill PID SIGNAL        a signal to another process
 *   ended PID STATUS       a result of waitpid()
 *
 * Each line also names the rank and the process of the event. Recording works without CHAOS. */
#ifndef TESTS_CHAOS_SHIM_WATCH_H_
#define TESTS_CHAOS_SHIM_WATCH_H_
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kPathBytes = 512, kWatchedDescriptors = 1024 };

static int is_watched; /* this process is a `runtime`, and CHAOS_WATCH is set */
static atomic_bool has_written[kWatchedDescriptors];

/* Appends a line to the file that the variable names; does nothing if the variable is not set. */
static void write_line(const char* variable, const char* call, const char* text) {
  const char* const file = getenv(variable);
  const char* const rank = getenv("RUNTIME_RANK");
  char line[2 * kPathBytes + 128];
  if (file == NULL) return;
  int length = snprintf(line, sizeof(line), "%s rank %s pid %d %s\n", call,
                        rank == NULL ? "-" : rank, (int)getpid(), text);
  if (length >= (int)sizeof(line)) length = (int)sizeof(line) - 1;
  const long fd =
      syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) return;
  syscall(SYS_write, fd, line, (size_t)length);
  syscall(SYS_close, fd);
}

/* The path that the descriptor leads to; "" if it is not known. */
static void path_of(int fd, char* found) {
  char link[64];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const long length = syscall(SYS_readlinkat, AT_FDCWD, link, found, kPathBytes - 1);
  found[length < 0 ? 0 : length] = '\0';
}

static void watch_begin(void) {
  is_watched = 1;
  write_line("CHAOS_WATCH", "begin", "");
}

static void watch_file(const char* call, int fd) {
  char path[kPathBytes];
  const int before = errno;
  path_of(fd, path);
  if (path[0] == '/') write_line("CHAOS_WATCH", call, path);
  errno = before;
}

static void watch_write(int fd) {
  if (!is_watched || fd < 0 || fd >= kWatchedDescriptors) return;
  if (!atomic_exchange(&has_written[fd], 1)) watch_file("write", fd);
}

static void watch_close(int fd) {
  if (fd >= 0 && fd < kWatchedDescriptors) atomic_store(&has_written[fd], 0);
}

static void watch_fsync(int fd) {
  if (!is_watched) return;
  watch_close(fd);
  watch_file("fsync", fd);
}

static void watch_rename(const char* from, const char* to) {
  char names[2 * kPathBytes];
  const int before = errno;
  if (!is_watched) return;
  snprintf(names, sizeof(names), "%s\t%s", from, to);
  write_line("CHAOS_WATCH", "rename", names);
  errno = before;
}

static void watch_process(const char* call, int process, int number) {
  char text[64];
  const int before = errno;
  if (!is_watched) return;
  snprintf(text, sizeof(text), "%d %d", process, number);
  write_line("CHAOS_WATCH", call, text);
  errno = before;
}

#endif  // TESTS_CHAOS_SHIM_WATCH_H_
