# HiGHS is compiled some sources together: the same code in a third of the time, most of which were its headers.
set(CMAKE_UNITY_BUILD ON)
set(CMAKE_UNITY_BUILD_BATCH_SIZE 16)
