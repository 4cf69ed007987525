// Decides which files may supply code to this process, by who could have written or replaced them.
#ifndef PLUGINS_HOST_TRUST_H_
#define PLUGINS_HOST_TRUST_H_

#include <cstdint>
#include <filesystem>

namespace plugins::host {

// Identifies a file, to tell whether a path still leads to the file that was checked.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t bytes = 0;
  int64_t modified_ns = 0;
  bool operator==(const FileIdentity&) const = default;
};

// A file that check_file() has accepted.
struct CheckedFile {
  std::filesystem::path named;  // the path as the caller gave it
  std::filesystem::path path;   // absolute, without links; this path is opened
  FileIdentity identity;
};

// Follows `path` from the root, folder by folder and link by link, on file descriptors, and checks
// every folder, link and file on the way. `what` begins the messages: "plugin /opt/libx.so". Throws
// Error with the reason, the mode or owner, and the remedy, unless
//  - the path is absolute, has no "..", and ends at a regular file;
//  - every folder, every link and the file belong to root, to the user who runs this process, or to
//    a user who owns the running program or a folder above it. That user could have changed the
//    program as well (a build folder of a user who then calls sudo; the mapped users of a
//    container);
//  - nobody else can write them. Folders above the running program are excepted: anybody who can
//    write those can replace the program. A group counts as somebody else unless it is the private
//    group of one of these users (same name, primary group, no other member), as with `umask 002`;
//  - folders with the sticky bit (/tmp) are excepted too, because only owners can remove entries
//    there; but neither the file nor a link may lie directly in such a folder.
CheckedFile check_file(const std::filesystem::path& path, const std::string& what);

// The identity of the file behind an open descriptor. Throws Error, with `what` at the front, if
// fstat() fails.
FileIdentity identity_of(int descriptor, const std::string& what);

}  // namespace plugins::host

#endif  // PLUGINS_HOST_TRUST_H_
