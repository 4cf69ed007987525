# The parsers of runtime/data, fed from memory.
target_compile_options(runtime_data PRIVATE -fsanitize=fuzzer-no-link)
foreach(format idx npy csv safetensors text)
  runtime_add_fuzzer(${format}_fuzz CORPUS ${format} LIBRARIES runtime_data)
endforeach()
