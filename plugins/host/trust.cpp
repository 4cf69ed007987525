// Follows links and folders of a path, and finds out who may write to each of them.
#include "plugins/host/trust.h"

#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plugins/host/descriptor.h"
#include "plugins/host/error.h"
#include "plugins/host/printable.h"
#include "plugins/host/program.h"

namespace plugins::host {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxLinks = 40;  // the limit of the Linux kernel

[[noreturn]] void distrust(const std::string& what, const std::string& reason) {
  throw Error(RT_ERROR_UNAVAILABLE, what + ": " + reason);
}

// Calls getpw*_r or getgr*_r with a buffer that grows until the entry fits; false if there is no
// entry.
template <typename Entry, typename Ask>
bool look_up(Entry& entry, std::vector<char>& buffer, Ask&& ask) {
  buffer.resize(1024);
  Entry* found = nullptr;
  while (ask(&entry, buffer.data(), buffer.size(), &found) == ERANGE && buffer.size() < (1u << 20))
    buffer.resize(buffer.size() * 2);
  return found != nullptr;
}

// For example "uid 1000 (ada)".
std::string user_name(uid_t user) {
  passwd entry{};
  std::vector<char> buffer;
  const bool known = look_up(entry, buffer, [&](passwd* e, char* b, size_t n, passwd** found) {
    return ::getpwuid_r(user, e, b, n, found);
  });
  const std::string number = "uid " + std::to_string(user);
  return known ? number + " (" + printable(entry.pw_name) + ")" : number;
}

// Whether the group belongs to one of `users` alone: it has the name of that user, is the user's
// primary group and has no other member.
bool is_private_group(gid_t group, const std::set<uid_t>& users) {
  struct group entry {};
  std::vector<char> buffer, user_buffer;
  if (!look_up(entry, buffer, [&](struct group* e, char* b, size_t n, struct group** found) {
        return ::getgrgid_r(group, e, b, n, found);
      }))
    return false;
  for (char** member = entry.gr_mem; *member != nullptr; ++member) {
    if (std::strcmp(*member, entry.gr_name) != 0) return false;
  }
  passwd user{};
  return look_up(user, user_buffer,
                 [&](passwd* e, char* b, size_t n, passwd** found) {
                   return ::getpwnam_r(entry.gr_name, e, b, n, found);
                 }) &&
         user.pw_gid == group && users.contains(user.pw_uid);
}

// The users who can change the running program anyway.
struct Trusted {
  std::set<uid_t> users;  // root, the user of this process, the owners of the program and of the
                          // folders above it
  std::set<std::pair<dev_t, ino_t>> folders;  // the folders above the program
};

Trusted trusted() {
  Trusted trusted{{0, ::geteuid()}, {}};
  fs::path path = program_path();
  while (!path.empty()) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) == 0) {
      trusted.users.insert(status.st_uid);
      if (S_ISDIR(status.st_mode)) trusted.folders.insert({status.st_dev, status.st_ino});
    }
    if (path == path.root_path()) break;
    path = path.parent_path();
  }
  return trusted;
}

std::string mode_text(mode_t mode) {
  char text[8];
  std::snprintf(text, sizeof(text), "%04o", static_cast<unsigned>(mode & 07777));
  return text;
}

FileIdentity identity_in(const struct stat& status) {
  const timespec& modified = status.st_mtim;
  return {status.st_dev, status.st_ino, static_cast<uint64_t>(status.st_size),
          int64_t{modified.tv_sec} * 1'000'000'000 + modified.tv_nsec};
}

// Follows one path from the root to a file.
class Walk {
 public:
  Walk(const fs::path& path, std::string what)
      : what_(std::move(what)), trusted_(trusted()), result_{path, {}, {}} {
    enter_root();
    follow(path);
  }

  CheckedFile run() {
    while (!rest_.empty()) {
      const std::string name = rest_.front();
      rest_.pop_front();
      step(name);
    }
    if (result_.path.empty()) distrust(what_, "is not a regular file but a folder");
    return result_;
  }

 private:
  void follow(const fs::path& path) {
    std::vector<std::string> names;
    for (const fs::path& name : path.relative_path()) {
      if (!name.empty() && name != ".") names.push_back(name.string());
    }
    rest_.insert(rest_.begin(), names.begin(), names.end());
  }

  void enter_root() {
    here_ = Descriptor(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    real_ = "/";
    if (!here_) cannot_read("/");
    enter("/", status_of(here_, "/"));
  }

  // Steps into the entry `name` of `here_`, a folder that was checked.
  void step(const std::string& name) {
    const fs::path path = name == ".." ? real_.parent_path() : real_ / name;
    if (!result_.path.empty()) distrust(what_, shown(result_.path) + " is not a folder");
    Descriptor next(::openat(here_.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!next) cannot_read(path);
    const struct stat status = status_of(next, path);
    if (S_ISDIR(status.st_mode)) {
      here_ = std::move(next);
      real_ = path;
      enter(path, status);
      return;
    }
    check_owner(path, status);
    check_holder(path);
    if (S_ISLNK(status.st_mode)) {
      follow_link(path, next);
    } else {
      finish(path, status);
    }
  }

  void enter(const fs::path& path, const struct stat& status) {
    check_owner(path, status);
    open_to_others_ = (status.st_mode & S_ISVTX) != 0 && is_open(status);
    const bool above_program = trusted_.folders.contains({status.st_dev, status.st_ino});
    if (!open_to_others_ && !above_program) check_writers(path, status, "folder");
  }

  void follow_link(const fs::path& path, const Descriptor& link) {
    if (++links_ > kMaxLinks)
      distrust(what_, "goes through too many links, the last is " + shown(path));
    char target[PATH_MAX];
    const ssize_t length = ::readlinkat(link.get(), "", target, sizeof(target));
    if (length <= 0 || length == static_cast<ssize_t>(sizeof(target))) cannot_read(path);
    const fs::path to(std::string(target, static_cast<size_t>(length)));
    if (to.is_absolute()) enter_root();
    follow(to);
  }

  void finish(const fs::path& path, const struct stat& status) {
    if (!S_ISREG(status.st_mode)) distrust(what_, "is not a regular file");
    check_writers(path, status, "file");
    result_.path = path;
    result_.identity = identity_in(status);
  }

  bool is_open(const struct stat& status) const {
    if (status.st_mode & S_IWOTH) return true;
    return (status.st_mode & S_IWGRP) != 0 && !is_private_group(status.st_gid, trusted_.users);
  }

  void check_owner(const fs::path& path, const struct stat& status) const {
    if (trusted_.users.contains(status.st_uid)) return;
    std::string allowed;
    for (const uid_t user : trusted_.users)
      allowed += (allowed.empty() ? "" : ", ") + user_name(user);
    distrust(what_, shown(path) + " belongs to " + user_name(status.st_uid) +
                        ", who could replace it; it must belong to one of: " + allowed +
                        "; run: chown " + std::to_string(::geteuid()) + " " + shown(path) +
                        ", or install it elsewhere");
  }

  void check_writers(const fs::path& path, const struct stat& status, const char* kind) const {
    if (!is_open(status)) return;
    const bool world = (status.st_mode & S_IWOTH) != 0;
    const bool group = (status.st_mode & S_IWGRP) != 0;
    const std::string change = std::string("chmod ") + (group ? "g" : "") + (world ? "o" : "");
    distrust(what_, std::string("the ") + kind + " " + shown(path) + " is " +
                        (world ? "world-writable" : "group-writable") + " (mode " +
                        mode_text(status.st_mode) +
                        (world ? "" : ", gid " + std::to_string(status.st_gid)) +
                        "), so others could have replaced it; run: " + change + "-w " +
                        shown(path));
  }

  // Refuses links and files in a folder like /tmp, where anybody can create one.
  void check_holder(const fs::path& path) const {
    if (!open_to_others_) return;
    distrust(what_, shown(path) + " lies in a folder where others can put files too (" +
                        shown(real_) +
                        "); move it into a folder of its own that only you can write");
  }

  struct stat status_of(const Descriptor& descriptor, const fs::path& path) const {
    struct stat status {};
    if (::fstat(descriptor.get(), &status) != 0) cannot_read(path);
    return status;
  }

  [[noreturn]] void cannot_read(const fs::path& path) const {
    distrust(what_, "cannot read " + shown(path) + ": " + std::strerror(errno));
  }

  static std::string shown(const fs::path& path) { return printable(path.string()); }

  std::string what_;
  Trusted trusted_;
  CheckedFile result_;
  Descriptor here_;              // the folder reached so far
  fs::path real_;                // its path, without links
  bool open_to_others_ = false;  // others may create files in here_
  std::deque<std::string> rest_;
  int links_ = 0;
};

}  // namespace

CheckedFile check_file(const fs::path& path, const std::string& what) {
  if (!path.is_absolute()) {
    distrust(what,
             "the path is relative; plugins are named by absolute path, so that the current "
             "folder cannot choose the code that runs");
  }
  if (std::find(path.begin(), path.end(), "..") != path.end())
    distrust(what, "the path contains '..'; write the folder out");
  return Walk(path, what).run();
}

FileIdentity identity_of(int descriptor, const std::string& what) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0)
    distrust(what, std::string("cannot be read: ") + std::strerror(errno));
  return identity_in(status);
}

}  // namespace plugins::host
