// Checkpoints on disk. Each is a folder "step-<number>" that is complete or not there: it is
// written under a temporary name, its manifest last, and renamed. Any thread may call the
// functions, one at a time for each folder.
#ifndef RUNTIME_TRAIN_CHECKPOINT_FOLDER_H_
#define RUNTIME_TRAIN_CHECKPOINT_FOLDER_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/train/checkpoint/saved_state.h"

namespace runtime::train {

// A file of a checkpoint.
struct SavedFile {
  std::string name;
  uint64_t bytes = 0;
  uint32_t crc32 = 0;  // of the whole file
};

// The manifest of a checkpoint, which names all of its files with their sizes and checksums.
struct Manifest {
  SavedState state;
  std::vector<SavedFile> files;
};

// These functions return the names of the files of one checkpoint. A rank's number has no leading
// zeros.
std::string rank_file(int rank);       // safetensors
std::string decisions_file(int rank);  // layout decisions, JSON
inline constexpr const char* kSavedConfiguration = "config.toml";
inline constexpr const char* kManifest = "manifest.json";

// The name of the checkpoint of a step, and the step of a name; -1 if it is no such name.
std::string checkpoint_name(int64_t step);
int64_t step_of_name(const std::string& name);

// The size and the checksum of a file on disk. Throws DataError.
SavedFile describe_file(const std::filesystem::path& folder, const std::string& name);

// Writes the manifest of a folder whose files are all there, and syncs it.
void write_manifest(const std::filesystem::path& folder, const Manifest& manifest);
// Reads and checks the manifest alone. Throws DataError.
Manifest read_manifest(const std::filesystem::path& checkpoint);
// Checks the content of a manifest; `file` is for messages. Throws DataError.
Manifest parse_manifest(const std::string& text, const std::filesystem::path& file);
// Reads every file of the checkpoint and compares it with the manifest. Throws DataError that names
// the first file that differs, and how.
Manifest verify_checkpoint(const std::filesystem::path& checkpoint);

// The checkpoints in a folder, the newest first; temporary folders are left out. Empty if the
// folder does not exist.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& folder);

// Gives a finished temporary folder its name and syncs the parent. A checkpoint that has the name
// already is replaced at once, and then removed. Throws DataError.
void publish_checkpoint(const std::filesystem::path& temporary,
                        const std::filesystem::path& checkpoint);

// Retention says which checkpoints stay when a new one is there.
struct Retention {
  int64_t latest = 0;            // 0: all
  int64_t best = 0;              // as many more, by SavedState::monitored
  std::string monitor = "loss";  // values of another SavedState::monitor do not count
};
// The checkpoint with the best monitored value, the newest of equal ones; empty if none has one.
std::filesystem::path best_checkpoint(const std::filesystem::path& folder, const Retention& keep);
// Removes the others up to step `newest`; each disappears under its name at once. What cannot be
// removed stays, and so do those of later steps, which a run that goes on has passed over.
void prune_checkpoints(const std::filesystem::path& folder, const Retention& keep, int64_t newest);
// Removes what a run that was killed has left behind: everything whose name begins with a dot.
void remove_temporary_folders(const std::filesystem::path& folder);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_CHECKPOINT_FOLDER_H_
