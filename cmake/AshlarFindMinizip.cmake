# MINIZIP::minizip, the zip library that comes with zlib, for NumPy's archives; CMake has no module for it.
find_path(ASHLAR_MINIZIP_INCLUDE minizip/unzip.h)
find_library(ASHLAR_MINIZIP_LIBRARY minizip)
mark_as_advanced(ASHLAR_MINIZIP_INCLUDE ASHLAR_MINIZIP_LIBRARY)
if(NOT ASHLAR_MINIZIP_INCLUDE OR NOT ASHLAR_MINIZIP_LIBRARY)
  message(FATAL_ERROR "minizip isn't there; install libminizip-dev")
endif()
if(NOT TARGET MINIZIP::minizip)
  add_library(MINIZIP::minizip UNKNOWN IMPORTED)
  set_target_properties(MINIZIP::minizip PROPERTIES IMPORTED_LOCATION ${ASHLAR_MINIZIP_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${ASHLAR_MINIZIP_INCLUDE} INTERFACE_LINK_LIBRARIES ZLIB::ZLIB)
endif()
