# Two real devices: the reference backend, built in, and the C example of the plugins. float64 only on the first.
runtime_add_test(runtime_tensor_test LABEL unit SOURCES tensor_test.cpp LIBRARIES runtime_tensor)
target_compile_definitions(runtime_tensor_test PRIVATE
  EXAMPLE_PLUGIN="${CMAKE_BINARY_DIR}/tests/plugins_fixtures/libexample.so")
add_dependencies(runtime_tensor_test backend_reference example)
