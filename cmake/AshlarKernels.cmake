# ashlar_add_kernels(NAME SOURCES kernel.cpp… [OPERATORS operator.cpp…] [TARGETS cpu opencl cuda] [TUNED folder] [CONFORMANCE program])
#
# Compiles kernel files ahead of time. Each becomes a generator executable, which is then run for the typed functions, for
# their gradients, and once for each code target. Makes the libraries
#   NAME             typed functions ("ashlar/ops/<file>.h") and the kernels behind them
#   NAME_gradients   their differentiable versions ("ashlar/ad/<file>.h")
#   NAME_kernels_cpu, _opencl, _cuda, _absent   the compiled kernels; NAME links them
#   NAME_kernels_cpu_f16, _bf16, _f64, …        those of their instances that a program may leave out
#
# OPERATORS are C++ files with the functions that kernel files declare by register_operator() (dsl/operator.h).
#
# TUNED holds tables that ashlar-tune wrote, <folder>/<code target>/<device>.json: the settings of tunables that they use
# are compiled too, and the runtime picks among them by device and sizes.
#
# CONFORMANCE names the target of the program that runs the kernels' cases (run_conformance()), which may be made later:
# ashlar-tune judges settings by them.
#
# A program that sets its target property ASHLAR_TARGETS (a list of cpu, opencl, cuda) links the kernels of those targets
# only: set_target_properties(app PROPERTIES ASHLAR_TARGETS "cpu"). ASHLAR_DTYPES (f32 and others of f16, bf16, f64) does
# the same with floating dtypes.
set(ASHLAR_CUDA_CAPABILITY 80 CACHE STRING "Oldest CUDA compute capability that the kernels run on, times ten")
set(ASHLAR_CUDA_ARCHITECTURES 80 90 CACHE STRING
  "CUDA compute capabilities, times ten, that kernels are assembled for; GPUs of other ones compile PTX at first use")
# Lowering a kernel makes and drops millions of small nodes: with jemalloc's malloc kernels compile in 0.72 of the time.
find_library(ASHLAR_JEMALLOC jemalloc)
mark_as_advanced(ASHLAR_JEMALLOC)
set(ASHLAR_KERNEL_CACHE ${CMAKE_SOURCE_DIR}/.cache/kernels CACHE PATH "Compiled kernels, by content; empty for none")
set(ASHLAR_KERNELS_FROM "" CACHE PATH
  "Another build folder of this checkout: kernels compiled there are taken, not compiled again (used by the sanitizers)")
set(_ashlar_kernels_dir ${CMAKE_CURRENT_LIST_DIR})
include(${CMAKE_CURRENT_LIST_DIR}/AshlarTargets.cmake)

# What a generator needs to make machine code; nothing, so PTX alone, where a tool is missing.
set(_ashlar_device_tools "")
set(_ashlar_ptxas "")
set(_ashlar_nvfatbin "")
set(_ashlar_architectures "")
if(ASHLAR_CUDA_TOOLS)
  foreach(_ashlar_architecture IN LISTS ASHLAR_CUDA_ARCHITECTURES)
    if(_ashlar_architecture LESS ASHLAR_CUDA_CAPABILITY)
      message(FATAL_ERROR "ASHLAR_CUDA_ARCHITECTURES contains ${_ashlar_architecture}, and the kernels are written for "
        "${ASHLAR_CUDA_CAPABILITY} and newer: set ASHLAR_CUDA_CAPABILITY to ${_ashlar_architecture}, too")
    endif()
  endforeach()
  list(JOIN ASHLAR_CUDA_ARCHITECTURES , _ashlar_architectures)
  set(_ashlar_ptxas ${ASHLAR_PTXAS})
  set(_ashlar_nvfatbin ${ASHLAR_NVFATBIN})
  set(_ashlar_device_tools -DPTXAS=${ASHLAR_PTXAS} -DNVFATBIN=${ASHLAR_NVFATBIN} -DCUDA_TOOLS=${ASHLAR_CUDA_TOOLS}
    -DARCHITECTURES=${_ashlar_architectures})
endif()

# The code targets behind a target that users name: on the CPU one is chosen at run time.
set(_ashlar_code_targets_cpu cpu cpu_avx2 cpu_avx512)
set(_ashlar_code_targets_opencl opencl)
set(_ashlar_code_targets_cuda cuda)
set(_ashlar_code_targets ${_ashlar_code_targets_cpu} ${_ashlar_code_targets_opencl} ${_ashlar_code_targets_cuda})
# What stands in for what a program leaves out: tables, and those of dtypes.
list(TRANSFORM ASHLAR_OPTIONAL_DTYPES PREPEND _ OUTPUT_VARIABLE _ashlar_absent_parts)
list(PREPEND _ashlar_absent_parts "")

function(ashlar_add_kernels name)
  cmake_parse_arguments(arg "" "TUNED;CONFORMANCE" "SOURCES;OPERATORS;TARGETS" ${ARGN})
  if(NOT arg_SOURCES)
    message(FATAL_ERROR "ashlar_add_kernels(${name}): give SOURCES, the kernel files")
  endif()
  if(NOT arg_TARGETS)
    set(arg_TARGETS ${ASHLAR_KNOWN_TARGETS})
  endif()
  ashlar_require_targets("ashlar_add_kernels(${name})" ${arg_TARGETS})
  foreach(source IN LISTS arg_SOURCES)
    cmake_path(GET source STEM stem)
    if(NOT stem MATCHES "^[A-Za-z_][A-Za-z0-9_]*$")
      message(FATAL_ERROR "ashlar_add_kernels(${name}): ${source}: the file's name becomes a C++ function's, "
        "kernels::all_of_<file>(), and a header's; use letters, digits and underscores alone")
    endif()
  endforeach()
  if("cuda" IN_LIST arg_TARGETS AND NOT ASHLAR_CUDA_TOOLS)
    message(WARNING "ashlar_add_kernels(${name}): CUDA kernels stay PTX, which drivers compile at first use, for seconds: "
      "ptxas is ${ASHLAR_PTXAS}, libnvfatbin is ${ASHLAR_NVFATBIN}. Run ./dev setup, or pip install "
      "nvidia-cuda-nvcc-cu12==12.9.86 nvidia-nvfatbin-cu12==12.9.82, or set ASHLAR_PTXAS and ASHLAR_NVFATBIN")
  endif()
  if(arg_TUNED)
    cmake_path(ABSOLUTE_PATH arg_TUNED BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  else()
    set(arg_TUNED ${CMAKE_CURRENT_BINARY_DIR}/${name}/untuned)  # not there: no tables
  endif()
  # In an installed package the libraries are called ashlar::…
  set(prefix ashlar_)
  if(TARGET ashlar::dsl)
    set(prefix ashlar::)
  endif()

  set(root ${CMAKE_CURRENT_BINARY_DIR}/${name})
  set(is_made_elsewhere OFF)
  if(ASHLAR_KERNELS_FROM)
    cmake_path(RELATIVE_PATH root BASE_DIRECTORY ${CMAKE_BINARY_DIR} OUTPUT_VARIABLE elsewhere)
    cmake_path(ABSOLUTE_PATH elsewhere BASE_DIRECTORY ${ASHLAR_KERNELS_FROM})
    if(EXISTS ${elsewhere}/names.txt)
      set(is_made_elsewhere ON)
      set(root ${elsewhere})
    endif()
  endif()
  set(operator_sources "")
  set(gradient_sources "")
  set(absent_objects "")
  set(tuned_files "")
  set(generators "")
  foreach(source IN LISTS arg_SOURCES)
    cmake_path(GET source STEM stem)
    set(generator ${name}_${stem}_generator)
    list(APPEND operator_sources ${root}/include/ashlar/ops/${stem}.cpp)
    list(APPEND gradient_sources ${root}/include/ashlar/ad/${stem}.cpp)
    foreach(target IN LISTS arg_TARGETS)
      foreach(code_target IN LISTS _ashlar_code_targets_${target})
        list(APPEND objects_${target} ${root}/${stem}_${code_target}/${stem}_${code_target}.o)
        foreach(dtype IN LISTS ASHLAR_OPTIONAL_DTYPES)
          list(APPEND objects_${target}_${dtype} ${root}/${stem}_${code_target}/${stem}_${code_target}_${dtype}.o)
        endforeach()
      endforeach()
    endforeach()
    foreach(code_target IN LISTS _ashlar_code_targets)
      foreach(part IN LISTS _ashlar_absent_parts)
        list(APPEND absent_objects ${root}/${stem}_absent/${code_target}${part}.o)
      endforeach()
    endforeach()
    if(is_made_elsewhere)
      continue()
    endif()

    _ashlar_generator(${generator} ${source} ${prefix}dsl)
    list(APPEND generators ${generator})
    list(APPEND tuned_files "{\"stem\": \"${stem}\", \"generator\": \"$<TARGET_FILE:${generator}>\"}")
    _ashlar_emit_commands(${generator} ${stem} ${root})
    _ashlar_absent_command(${generator} ${root}/${stem}_absent)
    foreach(target IN LISTS arg_TARGETS)
      foreach(code_target IN LISTS _ashlar_code_targets_${target})
        _ashlar_compile_command(${generator} ${code_target} ${root}/${stem}_${code_target} ${arg_TUNED})
      endforeach()
    endforeach()
  endforeach()

  set(chosen_dtypes $<TARGET_PROPERTY:ASHLAR_DTYPES>)
  _ashlar_object_library(${name}_kernels_absent "${absent_objects}")
  foreach(target IN LISTS arg_TARGETS)
    _ashlar_object_library(${name}_kernels_${target} "${objects_${target}}")
    # Empty tables stand last on the link line: they serve only what no real table has served.
    target_link_libraries(${name}_kernels_${target} PUBLIC ${name}_kernels_absent)
    foreach(dtype IN LISTS ASHLAR_OPTIONAL_DTYPES)
      _ashlar_object_library(${name}_kernels_${target}_${dtype} "${objects_${target}_${dtype}}")
      target_link_libraries(${name}_kernels_${target}_${dtype} PUBLIC ${name}_kernels_absent)
      target_link_libraries(${name}_kernels_${target} INTERFACE
        $<$<OR:$<STREQUAL:${chosen_dtypes},>,$<IN_LIST:${dtype},${chosen_dtypes}>>:$<TARGET_NAME:${name}_kernels_${target}_${dtype}>>)
    endforeach()
  endforeach()

  if(NOT is_made_elsewhere)
    _ashlar_names_command(${name} ${root}/names.txt "${generators}" "${arg_SOURCES}")
  endif()
  add_library(${name} STATIC ${operator_sources} ${arg_OPERATORS} ${root}/names.txt)
  # Beside the emitted headers, those of forms that a project has itself.
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${root}/include>
    $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}> $<INSTALL_INTERFACE:include>)
  target_link_libraries(${name} PUBLIC ${prefix}runtime)
  set(chosen $<TARGET_PROPERTY:ASHLAR_TARGETS>)
  foreach(target IN LISTS arg_TARGETS)
    target_link_libraries(${name} INTERFACE
      $<$<OR:$<STREQUAL:${chosen},>,$<IN_LIST:${target},${chosen}>>:$<TARGET_NAME:${name}_kernels_${target}>>)
  endforeach()
  target_link_libraries(${name} INTERFACE ${name}_kernels_absent)
  target_link_options(${name} INTERFACE -Wl,--gc-sections)

  add_library(${name}_gradients STATIC ${gradient_sources})
  target_link_libraries(${name}_gradients PUBLIC ${name} ${prefix}autograd)
  set_target_properties(${name} ${name}_gradients PROPERTIES POSITION_INDEPENDENT_CODE ON)
  # What the files of many kernels include is read once; of few that takes longer than reading it for each.
  list(LENGTH operator_sources files)
  if(files GREATER 8)
    target_precompile_headers(${name} PRIVATE <array> <runtime/forms/check.h> <runtime/vendor/vendor.h>)
    target_precompile_headers(${name}_gradients PRIVATE <ashlar/ad.h> <ashlar/ops.h> <autograd/recipes/recipes.h>)
  endif()
  target_compile_features(${name} PUBLIC cxx_std_20)
  set_property(TARGET ${name} PROPERTY ASHLAR_KERNEL_FOLDER ${root})

  if(is_made_elsewhere)
    return()
  endif()
  # For ashlar-tune: where everything is. Without tests there may be no conformance program.
  set(conformance "")
  if(arg_CONFORMANCE)
    set(conformance $<$<TARGET_EXISTS:${arg_CONFORMANCE}>:$<TARGET_FILE:${arg_CONFORMANCE}>>)
  endif()
  list(JOIN tuned_files ",\n  " tuned_files)
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/ashlar_kernels/${name}.json CONTENT
"{\"compiler\": \"${CMAKE_CXX_COMPILER}\", \"folder\": \"${root}\",
 \"ptxas\": \"${_ashlar_ptxas}\", \"nvfatbin\": \"${_ashlar_nvfatbin}\", \"architectures\": \"${_ashlar_architectures}\",
 \"conformance\": \"${conformance}\",
 \"includes\": \"${root}/include;$<TARGET_PROPERTY:${prefix}runtime,INTERFACE_INCLUDE_DIRECTORIES>\",
 \"files\": [
  ${tuned_files}]}
")
endfunction()

function(_ashlar_generator generator source dsl)
  add_executable(${generator} ${source})
  target_link_libraries(${generator} PRIVATE ${dsl})
  set_target_properties(${generator} PROPERTIES ASHLAR_BUILD_TOOL ON
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/generators)
  if(dsl STREQUAL "ashlar_dsl")
    target_precompile_headers(${generator} REUSE_FROM ashlar_dsl)
  endif()
  if(ASHLAR_JEMALLOC)
    target_link_libraries(${generator} PRIVATE ${ASHLAR_JEMALLOC})
  endif()
endfunction()

set(_ashlar_emitted_kinds operators gradients)
set(_ashlar_emitted_folders ops ad)

# Typed functions and their gradients.
function(_ashlar_emit_commands generator stem root)
  foreach(kind folder IN ZIP_LISTS _ashlar_emitted_kinds _ashlar_emitted_folders)
    set(emitted ${root}/include/ashlar/${folder})
    add_custom_command(
      OUTPUT ${emitted}/${stem}.h ${emitted}/${stem}.cpp
      # A header that says the same keeps its date: an edited algorithm recompiles its kernel, not all that call it.
      COMMAND ${generator} ${kind} ${stem} ${root}/emitted/${folder}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${emitted}
      COMMAND ${CMAKE_COMMAND} -E copy_if_different ${root}/emitted/${folder}/${stem}.h
        ${root}/emitted/${folder}/${stem}.cpp ${emitted}
      DEPENDS ${generator}
      COMMENT "Writing the ${kind} of ${stem}" VERBATIM)
  endforeach()
endfunction()

# One relocatable object of all instances for one code target, and one for each dtype that programs may leave out. Sections stay apart, so that the linker drops what a
# program doesn't reach.
function(_ashlar_compile_command generator code_target folder tuned)
  cmake_path(GET folder FILENAME base)
  file(GLOB tables CONFIGURE_DEPENDS ${tuned}/${code_target}/*.json)
  list(TRANSFORM ASHLAR_OPTIONAL_DTYPES REPLACE "(.+)" "${folder}/${base}_\\1.o" OUTPUT_VARIABLE others)
  list(JOIN ASHLAR_OPTIONAL_DTYPES , dtypes)
  add_custom_command(
    OUTPUT ${folder}/${base}.o ${others}
    COMMAND ${CMAKE_COMMAND} -DGENERATOR=$<TARGET_FILE:${generator}> -DCODE_TARGET=${code_target}
      -DCUDA_CAPABILITY=${ASHLAR_CUDA_CAPABILITY} ${_ashlar_device_tools} -DTUNED=${tuned} -DFOLDER=${folder}
      -DOUTPUT=${folder}/${base}.o -DDTYPES=${dtypes}
      -DCOMPILER=${CMAKE_CXX_COMPILER} -DLINKER=${CMAKE_LINKER} -DCACHE=${ASHLAR_KERNEL_CACHE}
      -DSLOTS=${CMAKE_BINARY_DIR}/compile-slots
      -P ${_ashlar_kernels_dir}/AshlarCompileKernels.cmake
    DEPENDS ${generator} ${_ashlar_kernels_dir}/AshlarCompileKernels.cmake ${tables}
    COMMENT "Compiling kernels: ${base}" VERBATIM)
endfunction()

# Writes the kernels' names to `file`, after comparing them with those of the libraries before this one.
function(_ashlar_names_command name file generators sources)
  get_property(known GLOBAL PROPERTY ASHLAR_KERNEL_NAMES)
  get_property(earlier GLOBAL PROPERTY ASHLAR_KERNEL_NAME_TARGETS)
  if(NOT known AND EXISTS ${_ashlar_kernels_dir}/ashlar-kernel-names.txt)
    set(known ${_ashlar_kernels_dir}/ashlar-kernel-names.txt)  # the installed library's own
  endif()
  set(executables "")
  foreach(generator IN LISTS generators)
    list(APPEND executables $<TARGET_FILE:${generator}>)
  endforeach()
  list(TRANSFORM sources REPLACE "^.*/" "" OUTPUT_VARIABLE files)
  # Commas, because a command line of CMake's splits at semicolons.
  list(JOIN executables , executables)
  list(JOIN files , files)
  list(JOIN known , known_files)
  add_custom_command(
    OUTPUT ${file}
    COMMAND ${CMAKE_COMMAND} -DNAME=${name} -DGENERATORS=${executables} -DFILES=${files} -DKNOWN=${known_files}
      -DOUTPUT=${file} -P ${_ashlar_kernels_dir}/AshlarKernelNames.cmake
    DEPENDS ${generators} ${known} ${earlier} ${_ashlar_kernels_dir}/AshlarKernelNames.cmake
    COMMENT "Comparing the names of the kernels of ${name}" VERBATIM)
  add_custom_target(${name}_names DEPENDS ${file})
  set_property(GLOBAL PROPERTY ASHLAR_KERNEL_NAMES ${known} ${file})
  set_property(GLOBAL APPEND PROPERTY ASHLAR_KERNEL_NAME_TARGETS ${name}_names)
endfunction()

function(_ashlar_absent_command generator folder)
  set(outputs "")
  set(sources "")
  foreach(code_target IN LISTS _ashlar_code_targets)
    foreach(part IN LISTS _ashlar_absent_parts)
      list(APPEND outputs ${folder}/${code_target}${part}.o)
      list(APPEND sources ${code_target}${part}.cpp)
    endforeach()
  endforeach()
  add_custom_command(
    OUTPUT ${outputs}
    COMMAND ${generator} absent ${folder}
    COMMAND ${CMAKE_COMMAND} -E chdir ${folder} ${CMAKE_CXX_COMPILER} -c -fPIC -w ${sources}
    DEPENDS ${generator} VERBATIM)
endfunction()

function(_ashlar_object_library name objects)
  set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  add_library(${name} STATIC ${objects})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
endfunction()
