runtime_add_test(watchdog_test LABEL unit
  SOURCES diagnose_test.cpp flight_recorder_test.cpp ranks.cpp watchdog_test.cpp
  LIBRARIES runtime_watchdog TIMEOUT 60)
