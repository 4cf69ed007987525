// A folder that is made as a whole.
#ifndef RUNTIME_SYSTEM_ATOMIC_FOLDER_H_
#define RUNTIME_SYSTEM_ATOMIC_FOLDER_H_

#include <filesystem>
#include <functional>
#include <string>

namespace runtime::system {

// Makes the folder `output` with the files that `write` writes into the folder that it is given;
// nothing is made if it throws. Throws DataError if there is something at `output` already, but for
// an empty folder, or it cannot be written.
void write_folder(const std::string& output,
                  const std::function<void(const std::filesystem::path& folder)>& write);

}  // namespace runtime::system

#endif  // RUNTIME_SYSTEM_ATOMIC_FOLDER_H_
