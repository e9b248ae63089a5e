# Finds Halide 21.0.0 as the PyPI wheel installs it: in the .venv of the checkout (./dev setup makes it), else in the
# site-packages of the python3 on PATH, else wherever CMAKE_PREFIX_PATH or Halide_DIR says.
# Exactly 21.0.0: schedules and lowering lean on this release's behaviour, and so do the checked results.
#
# Sets Halide_FOUND, Halide_DIR, HalideHelpers_DIR, ASHLAR_SITE_PACKAGES (may be empty) and ASHLAR_PTXAS (may be NOTFOUND).
set(_ashlar_python "")
foreach(root IN ITEMS ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_LIST_DIR}/.. $ENV{VIRTUAL_ENV})
  foreach(candidate IN ITEMS ${root}/.venv/bin/python3 ${root}/bin/python3)
    if(NOT _ashlar_python AND EXISTS ${candidate})
      set(_ashlar_python ${candidate})
    endif()
  endforeach()
endforeach()
if(NOT _ashlar_python)
  find_program(_ashlar_python3 python3)
  if(_ashlar_python3)
    set(_ashlar_python ${_ashlar_python3})
  endif()
endif()
set(ASHLAR_SITE_PACKAGES "")
if(_ashlar_python)
  execute_process(COMMAND ${_ashlar_python} -c "import sysconfig; print(sysconfig.get_path('platlib'))"
    OUTPUT_VARIABLE ASHLAR_SITE_PACKAGES OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()

find_package(HalideHelpers 21.0.0 EXACT QUIET CONFIG
  HINTS ${ASHLAR_SITE_PACKAGES}/halide/lib64/cmake/HalideHelpers)
find_package(Halide 21.0.0 EXACT QUIET CONFIG COMPONENTS shared
  HINTS ${ASHLAR_SITE_PACKAGES}/halide/lib64/cmake/Halide)

# The assembler checks PTX in the tests; nothing that is built or installed needs it.
find_program(ASHLAR_PTXAS ptxas HINTS ${ASHLAR_SITE_PACKAGES}/nvidia/cuda_nvcc/bin)
