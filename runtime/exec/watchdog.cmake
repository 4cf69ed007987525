# The watchdog ends a rank whose job cannot go on. It depends on no program and no device.
find_package(Threads REQUIRED)
add_library(runtime_watchdog STATIC diagnose.cpp flight_recorder.cpp watchdog.cpp)
target_link_libraries(runtime_watchdog PUBLIC plugins_host Threads::Threads PRIVATE project_options)
