// The folder in which the ranks of one attempt meet, and what they tell the launcher in it.
#ifndef RUNTIME_LAUNCH_RENDEZVOUS_FOLDER_H_
#define RUNTIME_LAUNCH_RENDEZVOUS_FOLDER_H_

#include <string>

#include "runtime/launch/child.h"

namespace runtime::launch {

// A folder of mode 0700 in TMPDIR, gone with the object. The launcher holds a lock on it, which the
// kernel takes away when a launcher is killed. So every launcher that starts can tell the folders
// that killed ones have left, and removes those of its user.
class RendezvousFolder {
 public:
  // Throws CommunicationError where no folder can be made.
  RendezvousFolder();
  ~RendezvousFolder();
  RendezvousFolder(const RendezvousFolder&) = delete;
  RendezvousFolder& operator=(const RendezvousFolder&) = delete;
  std::string address() const { return "file:" + path_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  FileDescriptor lock_;
};

// The process of rank 0 holds it in the rendezvous folder while it writes files, so that the
// launcher gives it time when another rank fails meanwhile. The kernel takes it away when the
// process ends.
class SavingLock {
 public:
  // An empty path: no launcher of ours has started this rank, and nothing is locked. Where the file
  // cannot be made or locked it warns: saving must not fail for want of what only helps the
  // launcher.
  explicit SavingLock(const std::string& folder);

 private:
  FileDescriptor file_;
};

// Whether some process holds the lock now.
bool is_saving(const std::string& folder);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_RENDEZVOUS_FOLDER_H_
