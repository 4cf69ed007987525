# runtime_add_plugin(<target> SOURCES <file>... [LIBRARIES <library>...])
#
# A shared library that exports rt_plugin_entry and nothing else, links everything that it needs (undefined symbols are
# an error of the link, not of a training step), and lands in <build>/lib/runtime/plugins.
set(RUNTIME_PLUGIN_EXPORT_MAP ${CMAKE_CURRENT_LIST_DIR}/plugin_exports.map)

function(runtime_add_plugin target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES")
  add_library(${target} MODULE ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE runtime::plugin ${arg_LIBRARIES})
  set_target_properties(${target} PROPERTIES
    C_VISIBILITY_PRESET hidden
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/runtime/plugins)
  target_link_options(${target} PRIVATE -Wl,--version-script=${RUNTIME_PLUGIN_EXPORT_MAP})
  if(NOT RUNTIME_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
endfunction()
