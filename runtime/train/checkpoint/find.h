// Finds the checkpoint that a run goes on from. Any thread may call the functions.
#ifndef RUNTIME_TRAIN_CHECKPOINT_FIND_H_
#define RUNTIME_TRAIN_CHECKPOINT_FIND_H_

#include <filesystem>
#include <functional>
#include <string>

namespace runtime::train {

// The folder of checkpoints in the folder of a run.
inline constexpr const char* kCheckpoints = "checkpoints";
// The file in the folder of a run that says why the run has no checkpoints, although it was to have
// some.
inline constexpr const char* kUnsaved = "unsaved.txt";

// The newest checkpoint of a run that is whole; empty if there is none. Each damaged one is passed
// over with a line to `warn` that says why.
std::filesystem::path newest_checkpoint(const std::filesystem::path& run_folder,
                                        const std::function<void(const std::string&)>& warn);

// Whether `path` is the folder of one checkpoint.
bool is_checkpoint(const std::filesystem::path& path);

// The checkpoint that `path` names: one itself, which must be whole, or the newest of a run. Throws
// DataError if there is none.
std::filesystem::path checkpoint_at(const std::filesystem::path& path,
                                    const std::function<void(const std::string&)>& warn);

// The newest run folder in `parent` that has checkpoints; empty if there is none.
std::filesystem::path newest_run(const std::filesystem::path& parent);

// The folder of the run that a checkpoint belongs to by its place, empty if it lies elsewhere.
std::filesystem::path run_of(const std::filesystem::path& path);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_CHECKPOINT_FIND_H_
