# What `cmake --install` puts where, in three components:
#   runtime       headers and archives for programs that call Ashlar; no Halide, CMake 3.25 is enough
#   kernels       the language, the schedules and ashlar_add_kernels(); needs Halide 21.0.0 exactly
#   conformance   the test harness, for the cases of kernels defined elsewhere; needs GoogleTest and CLI11
# Headers keep the paths by which they include each other: <prefix>/include/ashlar/runtime/tensor/tensor.h is included as
# "runtime/tensor/tensor.h", <prefix>/include/ashlar/ops.h as "ashlar/ops.h".
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(ASHLAR_INSTALL_INCLUDE ${CMAKE_INSTALL_INCLUDEDIR}/ashlar)
set(ASHLAR_INSTALL_CMAKE ${CMAKE_INSTALL_LIBDIR}/cmake/ashlar)

# _ashlar_install(COMPONENT TARGET...): archives, exported without the prefix that they have here: ashlar::nn
function(_ashlar_install component)
  foreach(target IN LISTS ARGN)
    if(NOT TARGET ${target})
      continue()
    endif()
    string(REGEX REPLACE "^ashlar_" "" exported ${target})
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${exported})
    install(TARGETS ${target} EXPORT ashlar_${component}
      ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component}
      INCLUDES DESTINATION ${ASHLAR_INSTALL_INCLUDE})
  endforeach()
  install(EXPORT ashlar_${component} NAMESPACE ashlar:: FILE ashlar-${component}.cmake
    DESTINATION ${ASHLAR_INSTALL_CMAKE} COMPONENT ${component})
endfunction()

set(kernel_archives "")
foreach(target IN LISTS ASHLAR_TARGETS ITEMS absent)
  list(APPEND kernel_archives ashlar_ops_kernels_${target})
  foreach(dtype IN LISTS ASHLAR_OPTIONAL_DTYPES)
    list(APPEND kernel_archives ashlar_ops_kernels_${target}_${dtype})
  endforeach()
endforeach()
_ashlar_install(runtime ashlar_halide_runtime ashlar_runtime ashlar_ops ${kernel_archives} ashlar_ops_gradients ashlar_all ashlar_autograd
  ashlar_nn)
_ashlar_install(kernels ashlar_dsl)
if(TARGET ashlar_conformance)
  _ashlar_install(conformance ashlar_conformance)
endif()

function(_ashlar_install_headers component folder)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/${folder}/ DESTINATION ${ASHLAR_INSTALL_INCLUDE}/${folder} COMPONENT ${component}
    FILES_MATCHING PATTERN "*.h")
endfunction()
foreach(folder IN ITEMS runtime autograd nn)
  _ashlar_install_headers(runtime ${folder})
endforeach()
foreach(folder IN ITEMS dsl schedules)
  _ashlar_install_headers(kernels ${folder})
endforeach()
_ashlar_install_headers(conformance tests/conformance)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/ashlar/ ${CMAKE_BINARY_DIR}/generators/ashlar_ops/include/ashlar/ DESTINATION ${ASHLAR_INSTALL_INCLUDE}
  COMPONENT runtime FILES_MATCHING PATTERN "*.h")

configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/ashlar-config.cmake.in ${CMAKE_BINARY_DIR}/ashlar-config.cmake
  INSTALL_DESTINATION ${ASHLAR_INSTALL_CMAKE})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/ashlar-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/ashlar-config.cmake ${CMAKE_BINARY_DIR}/ashlar-config-version.cmake
  DESTINATION ${ASHLAR_INSTALL_CMAKE} COMPONENT runtime)
install(FILES cmake/AshlarFindMinizip.cmake cmake/AshlarTargets.cmake DESTINATION ${ASHLAR_INSTALL_CMAKE} COMPONENT runtime)
install(FILES ${CMAKE_BINARY_DIR}/generators/ashlar_ops/names.txt RENAME ashlar-kernel-names.txt
  DESTINATION ${ASHLAR_INSTALL_CMAKE} COMPONENT kernels)
install(FILES cmake/AshlarKernels.cmake cmake/AshlarCompileKernels.cmake cmake/AshlarKernelNames.cmake
  cmake/AshlarFindHalide.cmake
  DESTINATION ${ASHLAR_INSTALL_CMAKE} COMPONENT kernels)
install(FILES LICENSE THIRD_PARTY_NOTICES.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/ashlar COMPONENT runtime)
