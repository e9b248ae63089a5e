# Finds Halide 21.0.0 as the PyPI wheel installs it: in the .venv of the checkout (./dev setup makes it), else in the
# site-packages of the python3 on PATH, else wherever CMAKE_PREFIX_PATH or Halide_DIR says.
# Exactly 21.0.0: schedules and lowering lean on this release's behaviour, and so do the checked results.
#
# Beside it, the tools that turn CUDA kernels into machine code: the wheels nvidia-cuda-nvcc-cu12 and nvidia-nvfatbin-cu12,
# or a CUDA toolkit of version 12.4 or later.
#
# Sets Halide_FOUND, Halide_DIR, HalideHelpers_DIR, ASHLAR_SITE_PACKAGES (may be empty), ASHLAR_PTXAS and ASHLAR_NVFATBIN
# (may be NOTFOUND), and ASHLAR_CUDA_TOOLS, a text that changes with these two.
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

# Where Halide_DIR was given, the wheels may lie beside Halide's.
set(_ashlar_wheels ${ASHLAR_SITE_PACKAGES}/nvidia ${Halide_DIR}/../../../../nvidia)
list(TRANSFORM _ashlar_wheels APPEND /cuda_nvcc/bin OUTPUT_VARIABLE _ashlar_nvcc_folders)
list(TRANSFORM _ashlar_wheels APPEND /nvfatbin/lib OUTPUT_VARIABLE _ashlar_nvfatbin_folders)
find_program(ASHLAR_PTXAS ptxas HINTS ${_ashlar_nvcc_folders} PATHS /usr/local/cuda/bin)
find_file(ASHLAR_NVFATBIN NAMES libnvfatbin.so.12 libnvfatbin.so HINTS ${_ashlar_nvfatbin_folders}
  PATHS /usr/local/cuda/lib64)
set(ASHLAR_CUDA_TOOLS "")
if(ASHLAR_PTXAS AND ASHLAR_NVFATBIN)
  execute_process(COMMAND ${ASHLAR_PTXAS} --version OUTPUT_VARIABLE _ashlar_ptxas_version)
  file(SHA256 ${ASHLAR_NVFATBIN} _ashlar_nvfatbin_hash)
  string(SHA256 ASHLAR_CUDA_TOOLS "${_ashlar_ptxas_version} ${_ashlar_nvfatbin_hash}")
endif()
