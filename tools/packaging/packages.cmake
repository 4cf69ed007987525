# What cpack is told. Each package has the component of its name; what the programs need of a library of the system is found
# by dpkg-shlibdeps.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME runtime)
set(CPACK_PACKAGE_CONTACT "The maintainers of runtime")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # else it would be the first line of every description
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
    WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)

# describe_package(<component> <package> <summary> [<line>...]): names the package of a component (or of a group) and gives
# it the licence and the changelog, which only packages have.
function(describe_package component package summary)
  string(TOUPPER ${component} upper)
  list(JOIN ARGN "\n" text)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${summary}\n${text}" PARENT_SCOPE)
  if(NOT component STREQUAL runtime)
    set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "runtime (= ${PROJECT_VERSION})" PARENT_SCOPE)
  endif()
endfunction()

# install_documents(<component> <package>): what /usr/share/doc has for every package; an installation without packages has
# the repository's.
function(install_documents component package)
  set(folder share/doc/${package})
  install(FILES ${CMAKE_SOURCE_DIR}/LICENSE RENAME copyright DESTINATION ${folder} COMPONENT ${component} EXCLUDE_FROM_ALL)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/changelog.gz DESTINATION ${folder} COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()

describe_package(runtime runtime "plugin-based deep-learning training runtime"
  "Trains the model that a TOML file describes, on the hardware that plugins"
  "provide. This package has the programs, the plain C++ backend `reference`,"
  "ranks that are threads, configurations and manual pages. The packages"
  "runtime-plugin-* have the other devices and ways to communicate.")
install_documents(runtime runtime)

describe_package(dev runtime-dev "headers and libraries for plugins of runtime"
  "What a plugin of runtime or a program that uses its tensors is built with:"
  "the headers of the contract, C++ helpers, the library runtime::tensor, the"
  "files that CMake's find_package(runtime) reads, and examples.")
install_documents(plugin_sdk runtime-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "cmake, g++")

set(summary_cpu "processors, with oneDNN")
set(summary_cuda "NVIDIA GPUs")
set(summary_rocm "AMD GPUs")
set(summary_gloo "ranks that are processes, over TCP with Gloo")
set(summary_mpi "ranks that are processes, over MPI")
set(summary_nccl "ranks on NVIDIA GPUs, with NCCL")
set(summary_rccl "ranks on AMD GPUs, with RCCL")
get_cmake_property(components COMPONENTS)
list(FILTER components INCLUDE REGEX "^plugin_")
list(REMOVE_ITEM components plugin_sdk)
set(packages)
foreach(component IN LISTS components)
  string(REPLACE plugin_ "" plugin ${component})
  describe_package(${component} runtime-plugin-${plugin} "plugin of runtime for ${summary_${plugin}}"
    "The plugin `${plugin}` of the deep-learning training runtime `runtime`.")
  install_documents(${component} runtime-plugin-${plugin})
  list(APPEND packages runtime-plugin-${plugin})
endforeach()
if(plugin_cpu IN_LIST components)
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS runtime-plugin-cpu)
endif()
list(REMOVE_ITEM packages runtime-plugin-cpu)
# dpkg-shlibdeps does not see it, because the program opens it only when it serves numbers over HTTP.
if(MICROHTTPD_FILE MATCHES "^libmicrohttpd[.]so[.]([0-9]+)$")
  list(APPEND packages libmicrohttpd${CMAKE_MATCH_1})
endif()
list(JOIN packages ", " CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS)

set(CPACK_COMPONENTS_ALL runtime plugin_sdk tensor ${components})
include(CPack)
cpack_add_component_group(dev)
cpack_add_component(plugin_sdk GROUP dev)
cpack_add_component(tensor GROUP dev)
