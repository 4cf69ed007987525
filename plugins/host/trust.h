// Which files may give code to this process: who could have written or replaced them.
#ifndef PLUGINS_HOST_TRUST_H_
#define PLUGINS_HOST_TRUST_H_

#include <cstdint>
#include <filesystem>

namespace plugins::host {

// Tells whether a path still leads to the file that was checked.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t bytes = 0;
  int64_t modified_ns = 0;
  bool operator==(const FileIdentity&) const = default;
};

struct CheckedFile {
  std::filesystem::path named;  // as it was asked for
  std::filesystem::path path;   // absolute, without links: this one is opened
  FileIdentity identity;
};

// Follows `path` from the root, folder by folder and link by link, on descriptors, and checks
// whatever it comes through. Throws Error with the reason, the mode or owner, and the remedy unless
//  - the path is absolute and without "..", and ends at a regular file;
//  - every folder, every link and the file belong to root, to the user who runs this process, or to
//    a user who owns the running program or a folder above it: that user could have changed the
//    program as well (a build folder of a user who then calls sudo; a container's mapped users);
//  - nobody else can write them, folders above the running program excepted: who can write those
//  can
//    replace the program. A group counts as somebody else unless it is the private group of one of
//    these users (same name, primary group, no other member), as `umask 002` makes them.
//  - A folder that others can write, but where only owners can remove (/tmp), may lead to another
//    folder; it may hold neither the file nor a link to it.
// `what` begins the messages: "plugin /opt/libx.so".
CheckedFile check_file(const std::filesystem::path& path, const std::string& what);

// The identity of the file behind an open descriptor. `what` begins the message of the Error that
// this throws if fstat() fails.
FileIdentity identity_of(int descriptor, const std::string& what);

}  // namespace plugins::host

#endif  // PLUGINS_HOST_TRUST_H_
