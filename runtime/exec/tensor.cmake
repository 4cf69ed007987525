# runtime::Tensor: the public class, its headers and the libraries that a program needs to link it.
add_library(runtime_tensor STATIC tensor.cpp tensor_device.cpp)
target_include_directories(runtime_tensor PUBLIC $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# The path, in an installation, of the program that examines plugins; see tensor_context.h.
target_compile_definitions(runtime_tensor INTERFACE
  $<INSTALL_INTERFACE:RUNTIME_PLUGIN_PROBE=\"$<INSTALL_PREFIX>/libexec/runtime/plugin_probe\">)
target_link_libraries(runtime_tensor PUBLIC plugins_host $<BUILD_INTERFACE:project_options>)

set_target_properties(runtime_tensor PROPERTIES EXPORT_NAME tensor)
install(TARGETS runtime_tensor plugins_host EXPORT runtimeTensorTargets
        ARCHIVE DESTINATION lib COMPONENT tensor)
install(EXPORT runtimeTensorTargets NAMESPACE runtime:: DESTINATION lib/cmake/runtime COMPONENT tensor)
install(FILES tensor.h tensor_context.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/runtime/exec COMPONENT tensor)
install(FILES ../error.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/runtime COMPONENT tensor)
