# What kernels can be compiled for, and so what a program's property ASHLAR_TARGETS can name.
set(ASHLAR_KNOWN_TARGETS cpu opencl cuda)
# Dtypes that a program can leave out by its property ASHLAR_DTYPES. f32, in which others are computed, and integers and
# bool, which indices, labels and comparisons are, are always there.
set(ASHLAR_OPTIONAL_DTYPES f16 bf16 f64)

# ashlar_require_targets(WHO TARGET...): WHO says where the names come from. A generator expression is left alone.
function(ashlar_require_targets who)
  foreach(target IN LISTS ARGN)
    if(NOT target IN_LIST ASHLAR_KNOWN_TARGETS AND NOT target MATCHES "[$]<")
      list(JOIN ASHLAR_KNOWN_TARGETS ", " known)
      message(FATAL_ERROR "${who} names the target '${target}'; give a list of ${known}")
    endif()
  endforeach()
endfunction()

function(_ashlar_require_dtypes who)
  foreach(dtype IN LISTS ARGN)
    if(NOT dtype IN_LIST ASHLAR_OPTIONAL_DTYPES AND NOT dtype STREQUAL "f32" AND NOT dtype MATCHES "[$]<")
      list(JOIN ASHLAR_OPTIONAL_DTYPES ", " known)
      message(FATAL_ERROR "${who} names the dtype '${dtype}'; give a list of f32, ${known} (f32, integers and bool are "
        "always linked)")
    endif()
  endforeach()
endfunction()

# The properties ASHLAR_TARGETS and ASHLAR_DTYPES of every program and library of a folder and those below it.
function(_ashlar_check_properties folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(names ${target} ASHLAR_TARGETS)
    if(names)
      ashlar_require_targets("The property ASHLAR_TARGETS of ${target}" ${names})
    endif()
    get_target_property(names ${target} ASHLAR_DTYPES)
    if(names)
      _ashlar_require_dtypes("The property ASHLAR_DTYPES of ${target}" ${names})
    endif()
  endforeach()
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(below IN LISTS folders)
    _ashlar_check_properties(${below})
  endforeach()
endfunction()

# Checks them all when the project has been read: a target that no kernel was compiled for would link none, in silence.
function(ashlar_check_properties_later)
  get_property(is_asked GLOBAL PROPERTY ASHLAR_CHECKS_PROPERTIES)
  if(is_asked OR CMAKE_SCRIPT_MODE_FILE)
    return()
  endif()
  set_property(GLOBAL PROPERTY ASHLAR_CHECKS_PROPERTIES TRUE)
  cmake_language(DEFER DIRECTORY ${CMAKE_SOURCE_DIR} CALL _ashlar_check_properties ${CMAKE_SOURCE_DIR})
endfunction()
ashlar_check_properties_later()
