// The folder in which the ranks of one attempt meet, and what they tell the launcher in it.
#ifndef RUNTIME_LAUNCH_RENDEZVOUS_FOLDER_H_
#define RUNTIME_LAUNCH_RENDEZVOUS_FOLDER_H_

#include <string>

#include "runtime/launch/child.h"

namespace runtime::launch {

// A folder of mode 0700 in TMPDIR, which is removed with the object. The launcher holds a lock on
// it, and the kernel releases the lock when the launcher is killed. Every launcher that starts can
// therefore recognise the folders that killed launchers have left, and removes those of its user.
class RendezvousFolder {
 public:
  // Throws CommunicationError if the folder cannot be made.
  RendezvousFolder();
  ~RendezvousFolder();
  RendezvousFolder(const RendezvousFolder&) = delete;
  RendezvousFolder& operator=(const RendezvousFolder&) = delete;
  std::string address() const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  FileDescriptor lock_;
};

// The process of rank 0 holds this lock in the rendezvous folder while it writes files, so that the
// launcher gives it time if another rank fails meanwhile. The kernel releases the lock when the
// process ends.
class SavingLock {
 public:
  // `folder` is "" if the launcher of this program has not started this rank; nothing is locked
  // then. If the file cannot be made or locked, the constructor only warns, because saving must not
  // fail for a lock that merely helps the launcher.
  explicit SavingLock(const std::string& folder);

 private:
  FileDescriptor file_;
};

// Returns whether a process holds the lock now.
bool is_saving(const std::string& folder);

// Returns whether a process has ever held the lock. All ranks have met by then.
bool has_saved(const std::string& folder);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_RENDEZVOUS_FOLDER_H_
