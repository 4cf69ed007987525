# Adds the plugin. The kernels become one string literal in kernels_cl.h.
set(kernels)
foreach(name common elementwise rows product window)
  set(file ${CMAKE_CURRENT_LIST_DIR}/kernels/${name}.cl)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text)
  string(APPEND kernels "R\"cl(${text})cl\"\n")
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/opencl_device/kernels_cl.h
  CONTENT "inline constexpr char kKernels[] =\n@kernels@;\n" @ONLY)
runtime_add_plugin(opencl_device
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/device.cpp ${CMAKE_CURRENT_LIST_DIR}/operations.cpp
          ${CMAKE_CURRENT_LIST_DIR}/plan.cpp ${CMAKE_CURRENT_LIST_DIR}/plugin.cpp
  LIBRARIES OpenCL::OpenCL NO_INSTALL)
target_include_directories(opencl_device PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/opencl_device)
