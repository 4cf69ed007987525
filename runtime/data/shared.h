// Data that the processes of a machine read once.
#ifndef RUNTIME_DATA_SHARED_H_
#define RUNTIME_DATA_SHARED_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/data/dataset_options.h"
#include "runtime/data/memory_dataset.h"
#include "runtime/system/host_memory.h"

namespace runtime::data {

// Returns the memory that `fill` fills with what the files hold. It is that of all processes of
// this machine that ask for the same files with the same options, if options.shared; files (or
// folders of files; "": none) that have changed in between are other files. A sentence in `notes`
// says why it could not be shared. Throws what `fill` throws.
std::shared_ptr<const system::HostMemory> read_once(const DatasetOptions& options,
                                                    const std::vector<std::string>& files,
                                                    const system::HostMemory::Fill& fill,
                                                    std::vector<std::string>& notes);

// A table that has been read: its training samples, its validation samples if it has some, and what
// else open_dataset() returns.
struct Table {
  std::vector<HeldPart> parts;
  Preparation preparation;
  bool labelled = true;
};

// Write a table into a memory, and return the table that lies in one, whose numbers stay there. The
// features are no bytes.
void write_table(const Table& table, system::Pieces& pieces);
Table read_table(const std::shared_ptr<const system::HostMemory>& memory);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_SHARED_H_
