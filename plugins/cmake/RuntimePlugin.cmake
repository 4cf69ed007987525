# runtime_add_plugin(<target> SOURCES <file>... [LIBRARIES <library>...] [EXPORTS <name>...] [OUTPUT_DIRECTORY <folder>]
#                    [COMPONENT <name>] [NO_INSTALL])
#
# Adds a plugin: a shared library that exports only rt_plugin_entry, and the functions after EXPORTS, which a library
# that it links is to find instead of those of the same names elsewhere. It must link everything that it needs, so that
# undefined symbols fail at link time and not in a training step. Its RUNPATH holds only the folders of the libraries
# that it links; by default CMake would append an empty entry, for which the loader searches the working folder. The
# library is built in <build>/lib/runtime/plugins unless OUTPUT_DIRECTORY names another folder, and is installed to
# <prefix>/lib/runtime/plugins, as part of the component `plugins` unless COMPONENT names another, unless NO_INSTALL is
# given. The sources have RUNTIME_PLUGIN_VERSION, a string with the version of the project that adds the plugin.
function(runtime_add_plugin target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "NO_INSTALL" "OUTPUT_DIRECTORY;COMPONENT" "SOURCES;LIBRARIES;EXPORTS")
  if(NOT arg_OUTPUT_DIRECTORY)
    set(arg_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/runtime/plugins)
  endif()
  if(NOT arg_COMPONENT)
    set(arg_COMPONENT plugins)
  endif()
  add_library(${target} MODULE ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE runtime::plugin ${arg_LIBRARIES})
  target_compile_definitions(${target} PRIVATE RUNTIME_PLUGIN_VERSION="${PROJECT_VERSION}")
  set_target_properties(${target} PROPERTIES
    C_VISIBILITY_PRESET hidden
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    BUILD_WITH_INSTALL_RPATH ON
    INSTALL_RPATH_USE_LINK_PATH ON
    LIBRARY_OUTPUT_DIRECTORY ${arg_OUTPUT_DIRECTORY})
  set(exports "")
  foreach(name IN LISTS arg_EXPORTS)
    string(APPEND exports "${name}; ")
  endforeach()
  set(map ${CMAKE_CURRENT_BINARY_DIR}/${target}_exports.map)
  file(CONFIGURE OUTPUT ${map} CONTENT "{ global: rt_plugin_entry; @exports@ local: *; };\n" @ONLY)
  target_link_options(${target} PRIVATE -Wl,--version-script=${map})
  if(NOT RUNTIME_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
  if(NOT arg_NO_INSTALL)
    install(TARGETS ${target} LIBRARY DESTINATION lib/runtime/plugins COMPONENT ${arg_COMPONENT})
  endif()
endfunction()
