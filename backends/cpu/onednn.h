// Everything that differs between oneDNN 2.x and 3.x. Other files use only names that exist in both
// versions, and the functions of this header.
#ifndef BACKENDS_CPU_ONEDNN_H_
#define BACKENDS_CPU_ONEDNN_H_

#include <cstdint>
#include <dnnl.hpp>
#include <optional>
#include <string>
#include <vector>

#include "rt/sdk/error.h"

namespace backends::cpu {

using MemoryDesc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using DataType = dnnl::memory::data_type;

// Runs `body` and returns its result. A dnnl::error becomes an rt::sdk::Error that carries oneDNN's
// code.
template <typename Body>
decltype(auto) call_onednn(const char* what, Body&& body) {
  try {
    return body();
  } catch (const dnnl::error& e) {
    throw rt::sdk::Error(e.status == dnnl_out_of_memory ? RT_ERROR_OUT_OF_MEMORY : RT_ERROR_DEVICE,
                         std::string(what) + ": oneDNN says '" + e.what() + "'")
        .native("oneDNN", e.status);
  }
}

// The fields of a oneDNN memory descriptor, in one form for both versions of oneDNN.
struct MemoryParts {
  DataType type = DataType::undef;
  Dims dims, padded_dims, strides;
  std::vector<int64_t> inner_blocks, inner_indices;
  bool transparent = false;     // dims, strides and inner blocks describe the layout completely
  std::vector<uint8_t> opaque;  // if not transparent: bytes that distinguish the layout from others
};

// Whether oneDNN has an implementation. `desc` was made with allow_empty.
template <typename PrimitiveDesc>
bool exists(const PrimitiveDesc& desc) {
  return static_cast<bool>(desc);
}

// `desc` at the first of its implementations that `accept` takes; empty if there is none.
template <typename PrimitiveDesc, typename Accept>
PrimitiveDesc first_accepted(PrimitiveDesc desc, const Accept& accept) {
  while (exists(desc) && !accept(desc)) {
    if (!desc.next_impl()) return {};
  }
  return desc;
}

#if DNNL_VERSION_MAJOR >= 3

inline MemoryParts take_apart(const MemoryDesc& md) {
  MemoryParts parts;
  parts.type = md.get_data_type();
  parts.dims = md.get_dims();
  parts.padded_dims = md.get_padded_dims();
  parts.transparent = md.get_format_kind() == dnnl::memory::format_kind::blocked;
  if (parts.transparent) {
    parts.strides = md.get_strides();
    const auto blocks = md.get_inner_blks();
    const auto indices = md.get_inner_idxs();
    parts.inner_blocks.assign(blocks.begin(), blocks.end());
    parts.inner_indices.assign(indices.begin(), indices.end());
  } else {
    const uint64_t bytes = md.get_size();
    const auto* raw = reinterpret_cast<const uint8_t*>(&bytes);
    parts.opaque.assign(raw, raw + sizeof(bytes));
  }
  return parts;
}

// Sets the address of the data of `memory`. oneDNN 2.x then also writes zeros to the elements at
// that address that are padding of the layout.
inline dnnl_status_t set_handle(dnnl_memory_t memory, void* handle, dnnl_stream_t) {
  return dnnl_memory_set_data_handle(memory, handle);
}

template <typename Primitive, typename... Arguments>
typename Primitive::primitive_desc make_desc(const dnnl::engine& engine,
                                             const dnnl::primitive_attr& attr,
                                             Arguments&&... arguments) {
  return typename Primitive::primitive_desc(engine, arguments..., attr, /*allow_empty=*/true);
}

template <typename Primitive, typename Accept, typename Hint, typename... Arguments>
typename Primitive::primitive_desc first_backward_desc(const Accept& accept,
                                                       const dnnl::engine& engine,
                                                       const dnnl::primitive_attr& attr,
                                                       const Hint& hint, Arguments&&... arguments) {
  return first_accepted(typename Primitive::primitive_desc(engine, arguments..., hint, attr,
                                                           /*allow_empty=*/true),
                        accept);
}

#else

inline MemoryParts take_apart(const MemoryDesc& md) {
  MemoryParts parts;
  parts.type = md.data_type();
  const dnnl_memory_desc_t& data = md.data;
  const int rank = data.ndims;
  parts.dims.assign(data.dims, data.dims + rank);
  parts.padded_dims.assign(data.padded_dims, data.padded_dims + rank);
  parts.transparent = data.format_kind == dnnl_blocked && data.extra.flags == 0;
  if (data.format_kind == dnnl_blocked) {
    const auto& blocking = data.format_desc.blocking;
    parts.strides.assign(blocking.strides, blocking.strides + rank);
    parts.inner_blocks.assign(blocking.inner_blks, blocking.inner_blks + blocking.inner_nblks);
    parts.inner_indices.assign(blocking.inner_idxs, blocking.inner_idxs + blocking.inner_nblks);
  }
  if (!parts.transparent) {
    const auto append = [&](int64_t value) {
      for (int shift = 0; shift < 64; shift += 8) {
        parts.opaque.push_back(static_cast<uint8_t>(static_cast<uint64_t>(value) >> shift));
      }
    };
    append(data.format_kind);
    append(static_cast<int64_t>(data.extra.flags));
    if (data.format_kind == dnnl_format_kind_wino) {
      const auto& wino = data.format_desc.wino_desc;
      for (const int64_t v :
           {static_cast<int64_t>(wino.wino_format), int64_t{wino.r}, int64_t{wino.alpha},
            int64_t{wino.ic}, int64_t{wino.oc}, int64_t{wino.ic_block}, int64_t{wino.oc_block},
            int64_t{wino.ic2_block}, int64_t{wino.oc2_block}, static_cast<int64_t>(wino.size)}) {
        append(v);
      }
    }
  }
  return parts;
}

inline dnnl_status_t set_handle(dnnl_memory_t memory, void* handle, dnnl_stream_t stream) {
  return dnnl_memory_set_data_handle_v2(memory, handle, stream);
}

template <typename Primitive, typename... Arguments>
typename Primitive::primitive_desc make_desc(const dnnl::engine& engine,
                                             const dnnl::primitive_attr& attr,
                                             Arguments&&... arguments) {
  try {
    return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), attr, engine,
                                              /*allow_empty=*/true);
  } catch (const dnnl::error& e) {
    // In oneDNN 2.x the descriptor itself may already refuse a combination of algorithm and
    // strides.
    if (e.status == dnnl_unimplemented || e.status == dnnl_invalid_arguments) return {};
    throw;
  }
}

template <typename Primitive, typename Accept, typename Hint, typename... Arguments>
typename Primitive::primitive_desc first_backward_desc(const Accept& accept,
                                                       const dnnl::engine& engine,
                                                       const dnnl::primitive_attr& attr,
                                                       const Hint& hint, Arguments&&... arguments) {
  try {
    // Going on to the next implementation reads the descriptor again, which oneDNN 2.x does not
    // copy.
    const typename Primitive::desc descriptor(arguments...);
    return first_accepted(typename Primitive::primitive_desc(descriptor, attr, engine, hint,
                                                             /*allow_empty=*/true),
                          accept);
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_unimplemented || e.status == dnnl_invalid_arguments) return {};
    throw;
  }
}

#endif

// Describes the gradient of `hint`, at oneDNN's first implementation; empty if there is none.
// first_backward_desc does the same at the first that `accept` takes.
template <typename Primitive, typename Hint, typename... Arguments>
typename Primitive::primitive_desc make_backward_desc(const dnnl::engine& engine,
                                                      const dnnl::primitive_attr& attr,
                                                      const Hint& hint, Arguments&&... arguments) {
  const auto any = [](const auto&) { return true; };
  return first_backward_desc<Primitive>(any, engine, attr, hint, arguments...);
}

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_ONEDNN_H_
