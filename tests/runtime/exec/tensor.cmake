# Three working devices: the reference backend, the C example of the plugins, the simulated accelerator.
runtime_add_test(runtime_tensor_test LABEL unit SOURCES tensor_test.cpp LIBRARIES runtime_tensor)
target_compile_definitions(runtime_tensor_test PRIVATE
  EXAMPLE_PLUGIN="$<TARGET_FILE:example>" SIMULATED_PLUGIN="$<TARGET_FILE:simulated_plugin>")
add_dependencies(runtime_tensor_test backend_reference example simulated_plugin)
