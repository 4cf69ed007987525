# Precompiles the standard headers, so that not every file parses them: RUNTIME_PRECOMPILE=ON for all targets, TESTS for
# the tests only, so that the libraries are still built as a user builds them and show an include that is missing.
# Included last, because it visits all targets.
#
# A precompiled header fits only sources that are compiled with the same options (gcc 12 crashes if -O differs). There
# is therefore one for libraries, one for the cpu plugin (OpenMP), one for tests, which are programs (-fPIE) and include
# GoogleTest, and one for `runtime`. Targets with a -O of their own have none, and neither have tests with options of
# their own, nor sources with SKIP_PRECOMPILE_HEADERS.
set(headers algorithm chrono cmath cstdint cstring deque filesystem fstream functional future iostream map memory mutex
    numeric optional random set sstream string thread unordered_map variant vector)
list(TRANSFORM headers REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:<\\1$<ANGLE-R>>")

# Targets with threads have this option, and some headers need the macro that it defines.
set(threads $<$<COMPILE_LANGUAGE:C,CXX>:-pthread>)
if(NOT RUNTIME_PRECOMPILE STREQUAL "TESTS")
  target_compile_options(project_options INTERFACE ${threads})
endif()

# precompile_headers(<target> <argument of target_precompile_headers>...): -fpch-preprocess lets gcc name the precompiled header in what
# it preprocesses, by which ccache tells one from another.
function(precompile_headers target)
  target_compile_options(${target} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-fpch-preprocess>)
  target_precompile_headers(${target} ${ARGN})
endfunction()

# own_options(<target> <variable>): the options that only this target has; a target without any has an empty list.
function(own_options target variable)
  get_target_property(options ${target} COMPILE_OPTIONS)
  if(NOT options)
    set(options)
  endif()
  set(${variable} "${options}" PARENT_SCOPE)
endfunction()

function(precompile folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    get_target_property(libraries ${target} LINK_LIBRARIES)
    get_target_property(sources ${target} SOURCES)
    own_options(${target} options)
    if(NOT "${libraries}" MATCHES "project_options" OR "${libraries}" MATCHES "OpenMP|cpu_" OR
       NOT "${sources}" MATCHES "\\.cpp" OR target IN_LIST owners)
      continue()
    elseif("${libraries}" MATCHES "GTest::gtest_main")
      if("${options}" STREQUAL "${test_options}")
        target_compile_options(${target} PRIVATE ${threads})
        precompile_headers(${target} REUSE_FROM precompiled_test)
      endif()
    elseif(RUNTIME_PRECOMPILE STREQUAL "TESTS" OR "${options}" MATCHES "-O[0-3]" OR
           ("${libraries}" MATCHES "cold_options" AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug"))
      continue()
    elseif(type MATCHES "STATIC_LIBRARY|MODULE_LIBRARY")
      precompile_headers(${target} REUSE_FROM plugins_host)
    endif()
  endforeach()
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(subfolder IN LISTS folders)
    precompile(${subfolder})
  endforeach()
endfunction()

set(owners)
if(NOT RUNTIME_PRECOMPILE STREQUAL "TESTS")
  set(owners plugins_host runtime)
  if(TARGET backend_cpu)
    list(APPEND owners backend_cpu)
  endif()
endif()
foreach(owner IN LISTS owners)
  precompile_headers(${owner} PRIVATE ${headers})
endforeach()
if(TARGET precompiled_test)
  list(APPEND owners precompiled_test)
  own_options(precompiled_test test_options)
  target_compile_options(precompiled_test PRIVATE ${threads})
  precompile_headers(precompiled_test PRIVATE ${headers} "$<$<COMPILE_LANGUAGE:CXX>:<gmock/gmock.h$<ANGLE-R>>")
endif()
precompile(${CMAKE_SOURCE_DIR})
