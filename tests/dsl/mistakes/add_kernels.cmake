# Run by ctest (cmake -P): ashlar_add_kernels(ADD …) as a project would call it, as far as it comes without compiling.
cmake_minimum_required(VERSION 3.28)
include(${CMAKE_CURRENT_LIST_DIR}/../../../cmake/AshlarKernels.cmake)
string(REPLACE "," ";" TARGETS "${TARGETS}")
ashlar_add_kernels(${ADD} SOURCES ${SOURCES} TARGETS ${TARGETS})
