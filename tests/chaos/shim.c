/* Preloaded before the C library (LD_PRELOAD): injects one fault into one system call.
 *
 *   CHAOS="write:errno=ENOSPC:after=3:times=1:path=weights:rank=1:program=runtime"
 *
 * The first word is the name of a function of the table at the end. The fault of a matching call
 * is `errno=NAME` (the call fails and does nothing), `short=N` (it transfers at most N bytes),
 * `delay=MS` (it takes MS milliseconds longer) or `signal=NAME` (the process gets the signal
 * first). Calls match by `path` (a part of the name of the file, or of what the descriptor leads
 * to), `min` (at least this many bytes), `rank` (RUNTIME_RANK; `-`: a process without one, such
 * as the launcher) and `program` (the name of the executable, `runtime` by default). The first
 * `after` matching calls of a process pass, and the next `times` calls (1 by default, 0: all)
 * are hit; every process counts for itself. Each hit is a line of the file that CHAOS_LOG names,
 * which tells a fault that was never reached from one that was survived. `trace` in place of a
 * function hits nothing and logs every call, so that a fault can be placed at a call that runs
 * really make. The shim itself uses system calls only, allocates nothing and keeps errno. With
 * CHAOS_WATCH it also records what happens to files and processes, see shim_watch.h. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shim_watch.h"

enum { kTextBytes = 256 };

struct fault {
  int error;         /* 0: none */
  long short_bytes;  /* -1: none */
  long delay_ms;     /* 0: none */
  int signal;        /* 0: none */
  long after, times; /* counted in matching calls */
  unsigned long min; /* bytes */
  char call[32], path[128];
};

static struct fault fault;
static int is_armed; /* whether the fault is for this process */
static atomic_long matches;

struct name {
  const char* name;
  int value;
};

static const struct name kErrors[] = {{"ENOSPC", ENOSPC},
                                      {"EIO", EIO},
                                      {"EINTR", EINTR},
                                      {"EACCES", EACCES},
                                      {"EMFILE", EMFILE},
                                      {"ENFILE", ENFILE},
                                      {"ENOMEM", ENOMEM},
                                      {"EAGAIN", EAGAIN},
                                      {"EROFS", EROFS},
                                      {"EDQUOT", EDQUOT},
                                      {"EBADF", EBADF},
                                      {"EPIPE", EPIPE},
                                      {"ENOENT", ENOENT},
                                      {"EPERM", EPERM},
                                      {"ECONNRESET", ECONNRESET},
                                      {"EFBIG", EFBIG},
                                      {"ENOBUFS", ENOBUFS},
                                      {"EXDEV", EXDEV},
                                      {"ECONNREFUSED", ECONNREFUSED},
                                      {"ENETUNREACH", ENETUNREACH},
                                      {"ETIMEDOUT", ETIMEDOUT},
                                      {"EHOSTUNREACH", EHOSTUNREACH},
                                      {"EADDRINUSE", EADDRINUSE},
                                      {"ECONNABORTED", ECONNABORTED},
                                      {"ESTALE", ESTALE},
                                      {"ENOLCK", ENOLCK},
                                      {"EINVAL", EINVAL}};
static const struct name kSignals[] = {
    {"KILL", SIGKILL}, {"STOP", SIGSTOP}, {"TERM", SIGTERM}, {"INT", SIGINT}, {"HUP", SIGHUP}};

/* Ends the process at an unknown word, because the fault would never be reached. */
static void refuse(const char* word) {
  static const char kBegin[] = "chaos shim: cannot read ";
  const struct iovec parts[] = {{(void*)(size_t)kBegin, sizeof(kBegin) - 1},
                                {(void*)(size_t)word, strlen(word)},
                                {(void*)(size_t) "\n", 1}};
  syscall(SYS_writev, STDERR_FILENO, parts, 3);
  _exit(99);
}

static int value_of(const struct name* list, size_t count, const char* name) {
  for (size_t i = 0; i < count; ++i)
    if (strcmp(list[i].name, name) == 0) return list[i].value;
  refuse(name);
  return 0;
}
#define VALUE_OF(list, name) value_of(list, sizeof(list) / sizeof(list[0]), name)

static void copy_text(char* to, size_t bytes, const char* from) {
  if (strlen(from) >= bytes) refuse(from);
  memcpy(to, from, strlen(from) + 1);
}

static int is_program(const char* wanted) {
  char path[kPathBytes];
  const long length = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", path, sizeof(path) - 1);
  if (length < 0) return 0;
  path[length] = '\0';
  const char* const last = strrchr(path, '/');
  return strcmp(last == NULL ? path : last + 1, wanted) == 0;
}

static int is_rank(const char* wanted) {
  const char* const rank = getenv("RUNTIME_RANK");
  if (strcmp(wanted, "-") == 0) return rank == NULL;
  return rank != NULL && strcmp(rank, wanted) == 0;
}

static void read_word(const char* key, const char* value) {
  if (strcmp(key, "errno") == 0) {
    fault.error = VALUE_OF(kErrors, value);
  } else if (strcmp(key, "signal") == 0) {
    fault.signal = VALUE_OF(kSignals, value);
  } else if (strcmp(key, "short") == 0) {
    fault.short_bytes = atol(value);
  } else if (strcmp(key, "delay") == 0) {
    fault.delay_ms = atol(value);
  } else if (strcmp(key, "after") == 0) {
    fault.after = atol(value);
  } else if (strcmp(key, "times") == 0) {
    fault.times = atol(value);
  } else if (strcmp(key, "min") == 0) {
    fault.min = strtoul(value, NULL, 10);
  } else if (strcmp(key, "path") == 0) {
    copy_text(fault.path, sizeof(fault.path), value);
  } else if (strcmp(key, "rank") == 0) {
    is_armed = is_armed && is_rank(value);
  } else if (strcmp(key, "program") != 0) {
    refuse(key);
  }
}

/* Whether this process computes: `runtime verify` and `runtime bench` are programs of their own. */
static int is_runtime(void) {
  return is_program("runtime") || is_program("runtime-verify") || is_program("runtime-bench");
}

__attribute__((constructor)) static void read_fault(void) {
  const char* const text = getenv("CHAOS");
  char words[kTextBytes];
  if (getenv("CHAOS_WATCH") != NULL && is_runtime()) watch_begin();
  if (text == NULL) return;
  copy_text(words, sizeof(words), text);
  const char* const program = strstr(text, "program=");
  char wanted[64] = "";
  if (program != NULL) sscanf(program, "program=%63[^:]", wanted);
  is_armed = program != NULL ? is_program(wanted) : is_runtime();
  fault.short_bytes = -1;
  fault.times = 1;
  char* rest = NULL;
  const char* word = strtok_r(words, ":", &rest);
  if (word == NULL) refuse(text);
  copy_text(fault.call, sizeof(fault.call), word);
  while ((word = strtok_r(NULL, ":", &rest)) != NULL) {
    char* const equals = strchr(word, '=');
    if (equals == NULL) refuse(word);
    *equals = '\0';
    read_word(word, equals + 1);
  }
}

static void write_log(const char* call, size_t bytes, const char* path) {
  char text[kPathBytes + 64];
  snprintf(text, sizeof(text), "bytes %zu %s", bytes, path);
  write_line("CHAOS_LOG", call, text);
}

static int has_path(int fd, const char* path, char* found) {
  *found = '\0';
  if (path != NULL) {
    snprintf(found, kPathBytes, "%s", path);
  } else if (fd >= 0) {
    path_of(fd, found);
  }
  return fault.path[0] == '\0' || strstr(found, fault.path) != NULL;
}

static void wait_ms(long ms) {
  struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
  while (nanosleep(&left, &left) != 0) {
  }
}

/* Whether the fault hits this call. A delay or a signal is over when the function returns. */
static int is_hit(const char* call, int fd, const char* path, size_t bytes) {
  const int is_trace = strcmp(fault.call, "trace") == 0;
  if (!is_armed || (!is_trace && strcmp(call, fault.call) != 0)) return 0;
  const int before = errno;
  char found[kPathBytes];
  int hit = bytes >= fault.min && has_path(fd, path, found);
  if (is_trace) {
    if (hit) write_log(call, bytes, found);
    hit = 0;
  } else if (hit) {
    const long number = atomic_fetch_add(&matches, 1);
    hit = number >= fault.after && (fault.times == 0 || number < fault.after + fault.times);
  }
  if (hit) write_log(call, bytes, found);
  if (hit && fault.delay_ms > 0) wait_ms(fault.delay_ms);
  if (hit && fault.signal != 0) syscall(SYS_kill, getpid(), fault.signal);
  errno = before;
  return hit;
}

/* Returns `short_bytes` or fewer, but at least one: zero would mean the end of the file. */
static size_t cut(size_t bytes) {
  if (fault.short_bytes < 0) return bytes;
  const size_t limit = fault.short_bytes < 1 ? 1 : (size_t)fault.short_bytes;
  return bytes < limit ? bytes : limit;
}

static void* real_function(const char* name, _Atomic(void*)* known) {
  void* function = atomic_load(known);
  if (function == NULL) atomic_store(known, function = dlsym(RTLD_NEXT, name));
  return function;
}

/* `REAL(name)` is the C library's function that the shim replaces. */
#define REAL(result, name, ...)                               \
  static _Atomic(void*) name##_known;                         \
  static result (*real_##name(void))(__VA_ARGS__) {           \
    result (*function)(__VA_ARGS__) = NULL;                   \
    *(void**)&function = real_function(#name, &name##_known); \
    return function;                                          \
  }
#define FAILS(call, fd, path, bytes) (is_hit(call, fd, path, bytes) && fault.error != 0)
#define FAIL_WITH(result) \
  do {                    \
    errno = fault.error;  \
    return (result);      \
  } while (0)

/* Records a successful write; returns its argument. */
static ssize_t transferred(ssize_t bytes, const char* call, int fd) {
  if (bytes > 0 && strcmp(call, "write") == 0) watch_write(fd);
  return bytes;
}

/* Defines a function that transfers bytes to or from a descriptor, and may transfer fewer. */
#define TRANSFER(result, name, call, data, parameters, arguments) \
  REAL(result, name, int, data, size_t EXTRA_TYPES_##name)        \
  result name parameters {                                        \
    if (is_hit(call, fd, NULL, bytes)) {                          \
      if (fault.error != 0) FAIL_WITH(-1);                        \
      bytes = cut(bytes);                                         \
    }                                                             \
    return transferred(real_##name() arguments, call, fd);        \
  }
#define EXTRA_TYPES_read
#define EXTRA_TYPES_write
#define EXTRA_TYPES_pread , off_t
#define EXTRA_TYPES_pwrite , off_t
#define EXTRA_TYPES_pread64 , off64_t
#define EXTRA_TYPES_pwrite64 , off64_t
#define EXTRA_TYPES_send , int
#define EXTRA_TYPES_recv , int

TRANSFER(ssize_t, read, "read", void*, (int fd, void* data, size_t bytes), (fd, data, bytes))
TRANSFER(ssize_t, write, "write", const void*, (int fd, const void* data, size_t bytes),
         (fd, data, bytes))
TRANSFER(ssize_t, pread, "read", void*, (int fd, void* data, size_t bytes, off_t at),
         (fd, data, bytes, at))
TRANSFER(ssize_t, pwrite, "write", const void*, (int fd, const void* data, size_t bytes, off_t at),
         (fd, data, bytes, at))
TRANSFER(ssize_t, pread64, "read", void*, (int fd, void* data, size_t bytes, off64_t at),
         (fd, data, bytes, at))
TRANSFER(ssize_t, pwrite64, "write", const void*,
         (int fd, const void* data, size_t bytes, off64_t at), (fd, data, bytes, at))
TRANSFER(ssize_t, send, "send", const void*, (int fd, const void* data, size_t bytes, int flags),
         (fd, data, bytes, flags))
TRANSFER(ssize_t, recv, "recv", void*, (int fd, void* data, size_t bytes, int flags),
         (fd, data, bytes, flags))

/* Finds the first buffer that holds bytes, and shortens it. */
static int first_part(const struct iovec* parts, int count, struct iovec* first) {
  for (int i = 0; i < count; ++i) {
    if (parts[i].iov_len == 0) continue;
    *first = parts[i];
    first->iov_len = cut(first->iov_len);
    return 1;
  }
  return 0;
}

#define VECTOR(name, call)                                            \
  REAL(ssize_t, name, int, const struct iovec*, int)                  \
  ssize_t name(int fd, const struct iovec* parts, int count) {        \
    struct iovec first;                                               \
    if (is_hit(call, fd, NULL, 0)) {                                  \
      if (fault.error != 0) FAIL_WITH(-1);                            \
      if (fault.short_bytes >= 0 && first_part(parts, count, &first)) \
        return transferred(real_##name()(fd, &first, 1), call, fd);   \
    }                                                                 \
    return transferred(real_##name()(fd, parts, count), call, fd);    \
  }
VECTOR(readv, "read")
VECTOR(writev, "write")

/* Ancillary data (descriptors) is transferred with the first buffer. recvmsg reports on it in
 * the caller's message. */
#define TAKE_BACK_sendmsg(message, shorter)
#define TAKE_BACK_recvmsg(message, shorter)               \
  ((message)->msg_namelen = (shorter)->msg_namelen,       \
   (message)->msg_controllen = (shorter)->msg_controllen, \
   (message)->msg_flags = (shorter)->msg_flags)
#define MESSAGE(name, call, type)                                           \
  REAL(ssize_t, name, int, type, int)                                       \
  ssize_t name(int fd, type message, int flags) {                           \
    struct iovec first;                                                     \
    if (is_hit(call, fd, NULL, 0)) {                                        \
      if (fault.error != 0) FAIL_WITH(-1);                                  \
      if (fault.short_bytes >= 0 &&                                         \
          first_part(message->msg_iov, (int)message->msg_iovlen, &first)) { \
        struct msghdr shorter = *message;                                   \
        shorter.msg_iov = &first;                                           \
        shorter.msg_iovlen = 1;                                             \
        const ssize_t result = real_##name()(fd, &shorter, flags);          \
        TAKE_BACK_##name(message, &shorter);                                \
        return result;                                                      \
      }                                                                     \
    }                                                                       \
    return real_##name()(fd, message, flags);                               \
  }
MESSAGE(sendmsg, "send", const struct msghdr*)
MESSAGE(recvmsg, "recv", struct msghdr*)

/* Defines a function that fails or succeeds. `fd` or `path` is compared with `path=`. */
#define CALL(result, name, call, fd, path, bytes, failure, types, parameters, arguments) \
  REAL_##types(result, name) result name parameters {                                    \
    if (FAILS(call, fd, path, bytes)) FAIL_WITH(failure);                                \
    return real_##name() arguments;                                                      \
  }
#define REAL_fd(result, name) REAL(result, name, int)
#define REAL_path(result, name) REAL(result, name, const char*)
#define REAL_at(result, name) REAL(result, name, int, const char*, int, const char*)
#define REAL_path_mode(result, name) REAL(result, name, const char*, mode_t)
#define REAL_fd_int(result, name) REAL(result, name, int, int)
#define REAL_fd_size(result, name) REAL(result, name, int, off_t)
#define REAL_three_ints(result, name) REAL(result, name, int, int, int)
#define REAL_address(result, name) REAL(result, name, int, const struct sockaddr*, socklen_t)
#define REAL_accept(result, name) REAL(result, name, int, struct sockaddr*, socklen_t*)
#define REAL_accept4(result, name) REAL(result, name, int, struct sockaddr*, socklen_t*, int)
#define REAL_ends(result, name) REAL(result, name, int*, int)
#define REAL_poll(result, name) REAL(result, name, struct pollfd*, nfds_t, int)
#define REAL_epoll(result, name) REAL(result, name, int, struct epoll_event*, int, int)
#define REAL_map(result, name) REAL(result, name, void*, size_t, int, int, int, off_t)
#define REAL_none(result, name) REAL(result, name, void)
#define REAL_stream(result, name) REAL(result, name, const char*, const char*)

#define SYNC(name)                                  \
  REAL(int, name, int)                              \
  int name(int fd) {                                \
    if (FAILS("fsync", fd, NULL, 0)) FAIL_WITH(-1); \
    const int result = real_##name()(fd);           \
    if (result == 0) watch_fsync(fd);               \
    return result;                                  \
  }
SYNC(fsync)
SYNC(fdatasync)
/* Linux frees the descriptor even if close() reports an error. */
REAL(int, close, int)
int close(int fd) {
  const int fails = FAILS("close", fd, NULL, 0);
  watch_close(fd);
  const int result = real_close()(fd);
  if (fails) FAIL_WITH(-1);
  return result;
}
REAL(int, rename, const char*, const char*)
int rename(const char* from, const char* to) {
  if (FAILS("rename", -1, to, 0)) FAIL_WITH(-1);
  const int result = real_rename()(from, to);
  if (result == 0) watch_rename(from, to);
  return result;
}
CALL(int, renameat, "rename", -1, to, 0, -1, at, (int a, const char* from, int b, const char* to),
     (a, from, b, to))
CALL(int, unlink, "unlink", -1, path, 0, -1, path, (const char* path), (path))
CALL(int, mkdir, "mkdir", -1, path, 0, -1, path_mode, (const char* path, mode_t mode), (path, mode))
CALL(int, flock, "flock", fd, NULL, 0, -1, fd_int, (int fd, int how), (fd, how))
CALL(int, ftruncate, "ftruncate", fd, NULL, 0, -1, fd_size, (int fd, off_t size), (fd, size))
CALL(int, socket, "socket", -1, NULL, 0, -1, three_ints, (int a, int b, int c), (a, b, c))
CALL(int, connect, "connect", fd, NULL, 0, -1, address,
     (int fd, const struct sockaddr* address, socklen_t size), (fd, address, size))
CALL(int, bind, "bind", fd, NULL, 0, -1, address,
     (int fd, const struct sockaddr* address, socklen_t size), (fd, address, size))
CALL(int, listen, "listen", fd, NULL, 0, -1, fd_int, (int fd, int length), (fd, length))
CALL(int, accept, "accept", fd, NULL, 0, -1, accept,
     (int fd, struct sockaddr* address, socklen_t* size), (fd, address, size))
CALL(int, accept4, "accept", fd, NULL, 0, -1, accept4,
     (int fd, struct sockaddr* address, socklen_t* size, int flags), (fd, address, size, flags))
CALL(int, pipe2, "pipe", -1, NULL, 0, -1, ends, (int ends[2], int flags), (ends, flags))
CALL(int, poll, "poll", -1, NULL, 0, -1, poll, (struct pollfd * list, nfds_t count, int timeout),
     (list, count, timeout))
CALL(int, epoll_wait, "poll", -1, NULL, 0, -1, epoll,
     (int fd, struct epoll_event* events, int most, int timeout), (fd, events, most, timeout))
CALL(void*, mmap, "mmap", fd, NULL, bytes, MAP_FAILED, map,
     (void* address, size_t bytes, int protection, int flags, int fd, off_t at),
     (address, bytes, protection, flags, fd, at))
CALL(void*, mmap64, "mmap", fd, NULL, bytes, MAP_FAILED, map,
     (void* address, size_t bytes, int protection, int flags, int fd, off_t at),
     (address, bytes, protection, flags, fd, at))
CALL(pid_t, fork, "fork", -1, NULL, 0, -1, none, (void), ())
CALL(FILE*, fopen, "open", -1, path, 0, NULL, stream, (const char* path, const char* mode),
     (path, mode))
CALL(FILE*, fopen64, "open", -1, path, 0, NULL, stream, (const char* path, const char* mode),
     (path, mode))

/* No fault hits these two functions; the shim only records their calls. */
REAL(int, kill, pid_t, int)
int kill(pid_t process, int number) {
  watch_process("kill", process, number);
  return real_kill()(process, number);
}
REAL(pid_t, waitpid, pid_t, int*, int)
pid_t waitpid(pid_t wanted, int* status, int options) {
  int own = 0;
  const pid_t process = real_waitpid()(wanted, &own, options);
  if (process > 0) watch_process("ended", process, own);
  if (process > 0 && status != NULL) *status = own;
  return process;
}

/* open() has the argument `mode` only if its flags allow it to create a file. */
#define MODE_OF(flags, last)                                        \
  mode_t mode = 0;                                                  \
  if (((flags)&O_CREAT) != 0 || ((flags)&O_TMPFILE) == O_TMPFILE) { \
    va_list list;                                                   \
    va_start(list, last);                                           \
    mode = va_arg(list, mode_t);                                    \
    va_end(list);                                                   \
  }
#define OPEN(name)                                 \
  REAL(int, name, const char*, int, ...)           \
  int name(const char* path, int flags, ...) {     \
    MODE_OF(flags, flags)                          \
    if (FAILS("open", -1, path, 0)) FAIL_WITH(-1); \
    return real_##name()(path, flags, mode);       \
  }
#define OPEN_AT(name)                                      \
  REAL(int, name, int, const char*, int, ...)              \
  int name(int folder, const char* path, int flags, ...) { \
    MODE_OF(flags, flags)                                  \
    if (FAILS("open", -1, path, 0)) FAIL_WITH(-1);         \
    return real_##name()(folder, path, flags, mode);       \
  }
OPEN(open)
OPEN(open64)
OPEN_AT(openat)
OPEN_AT(openat64)

/* These functions return the error number. */
REAL(int, pthread_create, pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*work)(void*),
                   void* argument) {
  if (FAILS("thread", -1, NULL, 0)) return fault.error;
  return real_pthread_create()(thread, attributes, work, argument);
}

/* Large allocations. They use the allocator's internal names, because dlsym allocates. */
enum { kLargeBytes = 1024 };
extern void* __libc_malloc(size_t bytes);
extern void* __libc_memalign(size_t alignment, size_t bytes);
void* malloc(size_t bytes) {
  if (bytes >= kLargeBytes && FAILS("malloc", -1, NULL, bytes)) FAIL_WITH(NULL);
  return __libc_malloc(bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  if (FAILS("malloc", -1, NULL, bytes)) FAIL_WITH(NULL);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** address, size_t alignment, size_t bytes) {
  if (FAILS("malloc", -1, NULL, bytes)) return fault.error;
  void* const found = __libc_memalign(alignment, bytes);
  if (found == NULL) return ENOMEM;
  *address = found;
  return 0;
}
