# Finds hipcc and compiles objects with it. CMake's own language HIP does not find Debian's
# packages, which use folders of their own.
find_program(RUNTIME_HIPCC hipcc PATHS /opt/rocm/bin)
find_path(RUNTIME_HIP_INCLUDE hip/hip_runtime.h PATHS /opt/rocm/include)
find_library(RUNTIME_HIP_LIBRARY amdhip64 PATHS /opt/rocm/lib)
mark_as_advanced(RUNTIME_HIPCC RUNTIME_HIP_INCLUDE RUNTIME_HIP_LIBRARY)

# known_hip_architectures(<variable> <architecture>...): sets <variable> to the architectures that
# hipcc compiles for. The answer for each architecture is cached.
function(known_hip_architectures variable)
  set(known)
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/probe.hip
       "#include <hip/hip_runtime.h>\n__global__ void probe(float* x) { x[threadIdx.x] = sqrtf(x[threadIdx.x]); }\n")
  foreach(architecture ${ARGN})
    if(NOT DEFINED RUNTIME_HIP_KNOWS_${architecture})
      execute_process(COMMAND ${RUNTIME_HIPCC} --offload-arch=${architecture} -c ${CMAKE_CURRENT_BINARY_DIR}/probe.hip
                              -o ${CMAKE_CURRENT_BINARY_DIR}/probe.o
                      RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
      string(COMPARE EQUAL "${failed}" 0 knows)
      set(RUNTIME_HIP_KNOWS_${architecture} ${knows} CACHE INTERNAL "hipcc compiles for ${architecture}")
    endif()
    if(RUNTIME_HIP_KNOWS_${architecture})
      list(APPEND known ${architecture})
    endif()
  endforeach()
  set(${variable} "${known}" PARENT_SCOPE)
endfunction()

# add_hip_kernels(<target> <architectures> [CHECKED] <source>...): compiles the sources with hipcc,
# with the include folders and definitions of the target, and adds the objects to it. With CHECKED
# hipcc reads the sources for a target <target>_checked and makes no code, which takes a sixth of
# the time.
function(add_hip_kernels target architectures)
  cmake_parse_arguments(PARSE_ARGV 2 arg "CHECKED" "" "")
  list(TRANSFORM architectures PREPEND --offload-arch=)
  set(includes "$<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>")
  set(definitions "$<TARGET_PROPERTY:${target},COMPILE_DEFINITIONS>")
  # hipcc finds these folders itself and prints no warnings for them.
  set(theirs "^(/usr/include|${RUNTIME_HIP_INCLUDE}|${HIPBLASLT_INCLUDE_DIR}|${MIOPEN_INCLUDE_DIR})$")
  set(warnings -Wall -Wextra -Wshorten-64-to-32)
  if(RUNTIME_WARNINGS_AS_ERRORS)
    list(APPEND warnings -Werror)
  endif()
  foreach(source ${arg_UNPARSED_ARGUMENTS})
    get_filename_component(name ${source} NAME_WE)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.o)
    set(code -o ${object})
    if(arg_CHECKED)
      set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.checked)
      set(code -fsyntax-only COMMAND ${CMAKE_COMMAND} -E touch ${object})
    endif()
    add_custom_command(OUTPUT ${object}
      COMMAND ${RUNTIME_HIPCC} ${architectures} -x hip -std=c++20 $<IF:$<CONFIG:Debug>,-O1,-O3> -fPIC -fvisibility=hidden
              ${warnings} "-I$<JOIN:$<FILTER:${includes},EXCLUDE,${theirs}>,;-I>" "-D$<JOIN:${definitions},;-D>"
              -MD -MF ${object}.d -MT ${object} -c ${source} ${code}
      DEPENDS ${source} DEPFILE ${object}.d COMMAND_EXPAND_LISTS VERBATIM
      COMMENT "Building HIP object ${name}.o")
    list(APPEND objects ${object})
  endforeach()
  if(arg_CHECKED)
    add_custom_target(${target}_checked ALL DEPENDS ${objects})
  else()
    target_sources(${target} PRIVATE ${objects})
  endif()
endfunction()
